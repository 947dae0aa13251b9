// Size against quality: a point a model, and a line through those than which none is both smaller and better.
import { html } from "./html.js";
import { form } from "./ladder.js";
import { Axes, bounds, useWidth } from "./plots.js";
import { bytes } from "./rungs.js";

const HEIGHT = 290;

export function Front({ rows, comparison, at, onPick }) {
  const [box, width] = useWidth();
  const measure = comparison.measure;
  const shown = rows.filter((row) => row.disk > 0 && typeof row[measure] === "number" && row.family !== "calibration");
  if (shown.length < 3) return null;
  const values = shown.map((row) => row[measure]), [least, most] = bounds(values);
  const sizes = bounds(shown.map((row) => Math.log10(row.disk)));
  const [low, high] = [Math.floor(sizes[0]), Math.ceil(sizes[1] + 1e-9)];
  const yLog = Boolean(comparison.measure_log) && least > 0;
  const scaled = yLog ? Math.log : (value) => value, unscaled = yLog ? Math.exp : (value) => value;
  const span = scaled(most) - scaled(least), room = span * 0.08 || 0.1;
  const front = (comparison.front ?? []).map((name) => shown.find((row) => row.name === name)).filter(Boolean);
  const named = [...new Set([...front, ...shown.filter((row) => row.name === at)])];
  const labels = (x, y) => { // below the point and to the left where there is no room
    const taken = [];
    return [...named].sort((a, b) => y(a) - y(b)).map((row) => {
      const size = 7 * row.name.length, right = x(row) + 8 + size < width - 26;
      for (const dy of [4, -8, 16, 28, -20]) {
        const place = [right ? x(row) + 8 : x(row) - 8, y(row) + dy];
        const left = right ? place[0] : place[0] - size;
        if (!taken.some(([a, b, c]) => left < b && left + size > a && Math.abs(c - place[1]) < 12)) {
          taken.push([left, left + size, place[1]]);
          return html`<text key=${row.name} class=${row.name === at ? "at" : ""} x=${place[0]} y=${place[1]} text-anchor=${right ? "start" : "end"}>${row.name}</text>`;
        }
      }
      return null;
    });
  };
  const value = (number) => form(comparison.measure_form === ".3f" ? ".2f" : comparison.measure_form, number);
  const yTicks = [0, 1, 2, 3, 4].map((i) => unscaled(scaled(least) + (span * i) / 4)).map((one) => [one, value(one)]);
  const xTicks = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map((size) => [size, bytes(size).replace(".0", "")]);
  return html`<section ref=${box} class="front"><h2>Size and quality</h2>
    <${Axes} ...${{ width, height: HEIGHT, xLog: true, yLog, xTicks, yTicks }} x=${[10 ** low, 10 ** Math.max(high, low + 1)]} y=${[unscaled(scaled(least) - room), unscaled(scaled(most) + room)]}
      xLabel="on disk" yLabel=${comparison.measure_title ?? measure} label=${`size and ${comparison.measure_title ?? measure}; on the front: ${(comparison.front ?? []).join(", ")}`}>${(across, up) => {
      const x = (row) => across(row.disk), y = (row) => up(row[measure]);
      return html`<polyline class="line" points=${front.map((row) => `${x(row)},${y(row)}`).join(" ")} />
        ${shown.map((row) => html`<circle key=${row.name} class=${`${front.includes(row) ? "good" : ""} ${row.name === at ? "at" : ""}`} cx=${x(row)} cy=${y(row)} r="5" onClick=${() => onPick?.(row)}><title>${`${row.name}: ${form(comparison.measure_form, row[measure])}, ${bytes(row.disk)}`}</title></circle>`)}
        ${labels(x, y)}`;
    }}<//></section>`;
}
