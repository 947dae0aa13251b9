// Curves of a few hundred points each, drawn again while they grow; pointing at one place reads all of them.
import { html, useState } from "./html.js";
import { Axes, bounds, brief, path, useWidth } from "./plots.js";
import { Folded, Table, number } from "./shown.js";

const HUES = 8; // classes .hue0 to .hue7 of the style; further curves are dashed

const told = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value !== 0 && Math.abs(value) < 0.01 ? String(+value.toPrecision(3)) : number(value));
const nearest = (points, at, log) => points.reduce((best, point) => (best === null || (log ? Math.abs(Math.log(point[0] / at)) < Math.abs(Math.log(best[0] / at)) : Math.abs(point[0] - at) < Math.abs(best[0] - at)) ? point : best), null);

// series: [{name, points: [[x, y]...], hue, dashed, dots, faint}], where faint ones are behind the others and in the table alone; `at`, `onAt`: where it is pointed at, if charts share it;
// `shown` writes a value; `table`: all numbers beside it, folded.
export function Curves({ title, series, xLabel, yLabel = "", log = false, logX = false, height = 230, at, onAt, from = null, label = title, shown = told, table = false }) {
  const [box, width] = useWidth();
  const [own, setOwn] = useState(null);
  const [place, point] = onAt ? [at ?? null, onAt] : [own, setOwn];
  const good = series.map((one, i) => ({ hue: i, ...one, points: one.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0) && (!logX || x > 0)) })).filter((one) => one.points.length);
  const seen = good.filter((one) => !one.faint);
  const scaled = (value) => (log ? Math.log10(value) : value);
  const x = bounds(good.flatMap((one) => one.points.map(([value]) => value)));
  let [low, high] = bounds(good.flatMap((one) => one.points.map(([, value]) => scaled(value))));
  if (from !== null && !log) low = Math.min(low, from);
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  [low, high] = [from !== null && low === from ? low : low - room, high + room];
  const y = log ? [10 ** low, 10 ** high] : [low, high];
  const xs = table ? [...new Set(good.flatMap((one) => one.points.map(([value]) => value)))].sort((a, b) => a - b) : [];
  const columns = () => [{ title: xLabel, of: (row) => row.name }, ...good.map((one) => {
    const known = new Map(one.points);
    return { title: one.name, of: (row) => (known.has(row.name) ? shown(known.get(row.name)) : "-") };
  })];
  return html`<figure class="curves" role="group" aria-label=${label}><figcaption>${title && html`<b>${title}</b> `}${yLabel && html`<span class="soft small">${yLabel}</span>`}</figcaption><div ref=${box}>
    ${good.length ? html`<${Axes} ...${{ width, height, x, y, xLog: logX, yLog: log, xLabel, onAt: point }} label=${`${label}: ${seen.map((one) => `${one.name}, last ${brief(one.points.at(-1)[1])}`).slice(0, 6).join("; ")}`}>${(across, up) => html`
      ${place !== null && place >= x[0] && place <= x[1] && html`<line class="cursor" x1=${across(place)} x2=${across(place)} y1=${up(y[0])} y2=${up(y[1])} />`}
      ${good.map((one) => html`<g key=${one.name} class=${one.faint ? "faint" : `hue${one.hue % HUES}`}><path d=${path(one.points.map(([a, b]) => [across(a), up(b)]))} class=${one.dashed || one.hue >= HUES ? "dashed" : ""}><title>${one.name}</title></path>
        ${(one.dots || one.points.length === 1) && one.points.map(([a, b]) => html`<circle key=${a} cx=${across(a)} cy=${up(b)} r="3" />`)}</g>`)}`}<//>` : html`<p class="soft small nothing">Nothing was logged of it yet.</p>`}</div>
    <ul class="key">${seen.map((one) => {
      const found = place === null ? one.points.at(-1) : nearest(one.points, place, logX);
      return html`<li key=${one.name} class=${`hue${one.hue % HUES}`}><i class=${one.dashed || one.hue >= HUES ? "dashed" : ""}></i>${one.name} <b data-curve=${one.name}>${shown(found[1])}</b>${place !== null && html` <span class="soft">at ${brief(found[0])}</span>`}</li>`;
    })}</ul>
    ${table && good.length > 0 && html`<${Folded}><${Table} label=${label} columns=${columns()} rows=${xs.map((name) => ({ name }))} /><//>`}</figure>`;
}
