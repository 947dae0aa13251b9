// Curves in SVG: of a few hundred points each, drawn again while they grow; pointing at one place reads all of them.
import { html, useRef, useState } from "./html.js";
import { useWidth } from "./maps.js";
import { number } from "./shown.js";

export const HUES = 8; // classes .hue0 to .hue7 of the style

const powers = (low, high) => {
  const found = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++) for (const m of [1, 2, 5]) if (Math.log10(m) + e >= low && Math.log10(m) + e <= high) found.push(m * 10 ** e);
  const tens = found.filter((value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9);
  return found.length > 7 && tens.length > 1 ? tens : found;
};

function round(low, high, most) {
  const raw = (high - low) / most, ten = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * ten).find((one) => one >= raw) ?? ten;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return found;
}

export const brief = (value) => {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return size >= 1e-3 || size === 0 ? String(+value.toPrecision(3)) : value.toExponential(0);
};

const told = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value !== 0 && Math.abs(value) < 0.01 ? String(+value.toPrecision(3)) : number(value));

// series: [{name, points: [[x, y]...], hue, dashed, dots}]; `at`: where it is pointed at, shared by charts.
export function Curves({ title, series, xLabel, yLabel = "", log = false, height = 230, at = null, onAt = () => {}, from = null, label = title }) {
  const box = useRef(null);
  const width = Math.max(200, useWidth(box));
  const good = series.map((one) => ({ ...one, points: one.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0)) })).filter((one) => one.points.length);
  const scaled = (value) => (log ? Math.log10(value) : value);
  const xs = good.flatMap((one) => one.points.map(([x]) => x)), ys = good.flatMap((one) => one.points.map(([, y]) => scaled(y)));
  const bounds = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [x0, x1] = bounds(xs);
  let [y0, y1] = bounds(ys);
  if (from !== null && !log) y0 = Math.min(y0, from);
  const pad = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
  [y0, y1] = [from !== null && y0 === from ? y0 : y0 - pad, y1 + pad];
  const [left, right, top, bottom] = [50, 10, 10, 34];
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const py = (y) => top + (1 - (scaled(y) - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)},${py(y).toFixed(1)}`).join("");
  const near = (points) => points.reduce((best, point) => (best === null || Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), null);
  const move = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    onAt(x0 + Math.max(0, Math.min(1, (event.clientX - frame.left - left) / (width - left - right))) * (x1 - x0));
  };
  return html`<figure class="curves" role="group" aria-label=${label}><figcaption><b>${title}</b>${yLabel && html` <span class="soft small">${yLabel}</span>`}</figcaption><div ref=${box}>
    ${good.length ? html`<svg width=${width} height=${height} role="img" aria-label=${`${label}: ${good.map((one) => `${one.name}, last ${brief(one.points.at(-1)[1])}`).slice(0, 6).join("; ")}`} onPointerMove=${move} onPointerLeave=${() => onAt(null)}>
      ${(log ? powers(y0, y1) : round(y0, y1, height / 55)).map((value) => html`<g key=${value}><line class="grid" x1=${left} x2=${width - right} y1=${py(value)} y2=${py(value)} /><text x=${left - 7} y=${py(value)} dy=".35em" text-anchor="end">${brief(value)}</text></g>`)}
      ${round(x0, x1, width / 75).map((value) => html`<text key=${`x${value}`} x=${px(value)} y=${height - 18} text-anchor="middle">${brief(value)}</text>`)}
      <text class="name" x=${width - right} y=${height - 4} text-anchor="end">${xLabel}</text>
      ${at !== null && at >= x0 && at <= x1 && html`<line class="at" x1=${px(at)} x2=${px(at)} y1=${top} y2=${height - bottom} />`}
      ${good.map((one) => html`<g key=${one.name} class=${`hue${one.hue % HUES}`}><path d=${path(one.points)} class=${one.dashed ? "dashed" : ""} />
        ${(one.dots || one.points.length === 1) && one.points.map(([x, y]) => html`<circle key=${x} cx=${px(x)} cy=${py(y)} r="3" />`)}</g>`)}</svg>` : html`<p class="soft small" style=${{ minHeight: "3rem" }}>Nothing was logged of it yet.</p>`}</div>
    <ul class="key">${good.map((one) => {
      const point = at === null ? one.points.at(-1) : near(one.points);
      return html`<li key=${one.name} class=${`hue${one.hue % HUES}`}><i class=${one.dashed ? "dashed" : ""}></i>${one.name} <b data-curve=${one.name}>${told(point[1])}</b>${at === null ? "" : html` <span class="soft">at ${brief(point[0])}</span>`}</li>`;
    })}</ul></figure>`;
}
