// Size against quality: a point a model, and a line through those than which none is both smaller and better.
import { html, useEffect, useRef, useState } from "./html.js";
import { form } from "./ladder.js";
import { bytes } from "./rungs.js";

export function useWidth(box, first = 480) {
  const [width, setWidth] = useState(first);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth || first));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [box.current]);
  return width;
}

const HEIGHT = 290, LEFT = 52, RIGHT = 26, TOP = 14, BOTTOM = 44;

export function Front({ rows, comparison, at, onPick }) {
  const box = useRef(null), width = useWidth(box);
  const measure = comparison.measure;
  const shown = rows.filter((row) => row.disk > 0 && typeof row[measure] === "number" && row.family !== "calibration");
  if (shown.length < 3) return null;
  const logs = shown.map((row) => Math.log10(row.disk)), values = shown.map((row) => row[measure]);
  const [low, high] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 1e-9)];
  const scaled = (value) => (comparison.measure_log && Math.min(...values) > 0 ? Math.log(value) : value);
  const unscaled = (value) => (comparison.measure_log && Math.min(...values) > 0 ? Math.exp(value) : value);
  const levels = values.map(scaled), room = (Math.max(...levels) - Math.min(...levels)) * 0.08 || 0.1;
  const [bottom, top] = [Math.min(...levels) - room, Math.max(...levels) + room];
  const x = (row) => LEFT + ((Math.log10(row.disk) - low) / Math.max(1, high - low)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + ((top - scaled(value)) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
  const front = (comparison.front ?? []).map((name) => shown.find((row) => row.name === name)).filter(Boolean);
  const named = [...new Set([...front, ...shown.filter((row) => row.name === at)])].sort((a, b) => y(a[measure]) - y(b[measure]));
  const taken = [];
  const label = (row) => { // below the point and to the left where there is no room
    const size = 7 * row.name.length, right = x(row) + 8 + size < width - RIGHT;
    for (const dy of [4, -8, 16, 28, -20]) {
      const place = [right ? x(row) + 8 : x(row) - 8, y(row[measure]) + dy];
      const left = right ? place[0] : place[0] - size;
      if (!taken.some(([a, b, c]) => left < b && left + size > a && Math.abs(c - place[1]) < 12)) {
        taken.push([left, left + size, place[1]]);
        return html`<text key=${row.name} class=${row.name === at ? "at" : ""} x=${place[0]} y=${place[1]} text-anchor=${right ? "start" : "end"}>${row.name}</text>`;
      }
    }
    return null;
  };
  const lines = [0, 1, 2, 3, 4].map((i) => unscaled(bottom + room + ((top - bottom - 2 * room) * i) / 4));
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  return html`<section ref=${box} class="front"><h2>Size and quality</h2>
    <svg class="front" width=${width} height=${HEIGHT} role="img" aria-label=${`size and ${comparison.measure_title ?? measure}; on the front: ${(comparison.front ?? []).join(", ")}`}>
      ${lines.map((value) => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${form(comparison.measure_form === ".3f" ? ".2f" : comparison.measure_form, value)}</text></g>`)}
      ${powers.map((power) => html`<text key=${power} x=${x({ disk: 10 ** power })} y=${HEIGHT - BOTTOM + 18} text-anchor="middle">${bytes(10 ** power).replace(".0", "")}</text>`)}
      <text x=${(LEFT + width) / 2} y=${HEIGHT - 6} text-anchor="middle">on disk</text>
      <polyline class="line" points=${front.map((row) => `${x(row)},${y(row[measure])}`).join(" ")} />
      ${shown.map((row) => html`<circle key=${row.name} class=${`${front.includes(row) ? "good" : ""} ${row.name === at ? "at" : ""}`} cx=${x(row)} cy=${y(row[measure])} r="5" onClick=${() => onPick?.(row)}><title>${`${row.name}: ${form(comparison.measure_form, row[measure])}, ${bytes(row.disk)}`}</title></circle>`)}
      ${named.map(label)}</svg></section>`;
}
