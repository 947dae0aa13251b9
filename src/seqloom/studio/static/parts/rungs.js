// The rungs of a comparison with bars and intervals, and what is known of one.
import { html } from "./html.js";
import { written } from "./address.js";
import { form } from "./ladder.js";
import { number } from "./shown.js";

export const bytes = (size) => (size == null ? "-" : size >= 1e6 ? `${(size / 1e6).toFixed(1)} MB` : size >= 1e3 ? `${(size / 1e3).toFixed(0)} kB` : `${size} B`);
export const ends = (row) => (row.interval?.length === 2 && row.interval.every((one) => Number.isFinite(one)) ? row.interval : null);

// A bar from zero with its interval, as the server draws it too (page.py).
export function Bar({ value, interval, most }) {
  const at = (x) => (100 * Math.max(0, x)) / most;
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="10" />
    <rect class="fill" width=${at(value).toFixed(2)} height="10" />${interval && html`<rect class="span" x=${at(interval[0]).toFixed(2)} y="3" width=${Math.max(0.6, at(interval[1]) - at(interval[0])).toFixed(2)} height="4" />`}</svg>`;
}

export const largest = (rows, measure) => Math.max(...rows.map((row) => Math.max(row[measure] ?? 0, ends(row)?.[1] ?? 0)), 1e-9);

// `onPick(row)`; `at`: name of the row that is looked at; rows with `own` are the reader's.
export function Rungs({ rows, comparison, at, onPick }) {
  const measure = comparison.measure, shown = (value) => form(comparison.measure_form, value);
  const most = largest(rows, measure);
  return html`<table class="rungs"><thead><tr><th scope="col">model</th><th scope="col"><span class="hidden">bar</span></th>
      <th scope="col">${comparison.measure_title ?? (measure ?? "").replaceAll("_", " ")}</th><th scope="col" class="interval">95%</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name} data-rung=${row.name} class=${`${row.name === at ? "at" : ""}${row.own ? " own" : ""}`}>
      <th scope="row">${onPick && !row.own ? html`<button type="button" aria-pressed=${String(row.name === at)} onClick=${() => onPick(row)}>${row.name}</button>` : row.name}${row.name === comparison.best ? html`<span class="mark" title="the best">★</span>` : ""}</th>
      <td><${Bar} value=${row[measure] ?? 0} interval=${ends(row)} most=${most} /></td><td>${shown(row[measure])}</td>
      <td class="interval">${ends(row) ? `${shown(row.interval[0])} to ${shown(row.interval[1])}` : "-"}</td></tr>`)}</tbody></table>`;
}

// What is known of one rung, and the views that its model opens in.
export function Card({ row, comparison, model, views, text }) {
  if (!row) return null;
  const shown = (value) => form(comparison.measure_form, value), against = row.versus_best;
  const facts = [
    ...(comparison.columns ?? []).filter((one) => typeof row[one.key] === "number").map((one) => `${one.heading} ${form(one.form, row[one.key])}`),
    row.parameters != null && `${row.parameters.toLocaleString("en")} parameters`, row.disk != null && bytes(row.disk),
    row.train_seconds != null && `trained in ${number(row.train_seconds, 1)} s`, row.peak_memory != null && `${bytes(row.peak_memory)} of memory`,
  ].filter(Boolean);
  const fitting = model ? views.filter((view) => view.group !== "home" && view.group !== "learn" && view.fits(model)) : [];
  return html`<div class="card"><p><strong>${row.name}</strong>: ${facts.join(", ")}.
      ${against && ` Against the best ${against.difference > 0 ? "+" : ""}${shown(against.difference)}${Number.isFinite(against.low) ? ` (${shown(against.low)} to ${shown(against.high)}, p = ${number(against.p_value, 3)})` : ""}.`}</p>
    ${fitting.length > 0 ? html`<p class="opens">Open in ${fitting.map((view, i) => html`${i ? " · " : ""}<a key=${view.name} href=${written({ view: view.name, models: [model.name], text })}>${view.title}</a>`)}</p>` : !model && html`<p class="soft">Its model is not here.</p>`}
    ${row.sample && html`<details><summary>What it writes</summary><pre class="sample">${row.sample.trim()}</pre></details>`}</div>`;
}
