// Numbers and text as the page shows them: bars, tables, coloured text, and what is said beside them.
import { html, useState } from "./html.js";

export const number = (value, digits = 3) => (typeof value === "number" && Number.isFinite(value) ? value.toFixed(digits) : "∞");
export const percent = (share) => (share >= 0.0995 ? `${(100 * share).toFixed(0)}%` : share >= 0.00095 ? `${(100 * share).toFixed(1)}%` : share > 0 ? share.toExponential(0) : "0");
export const visible = (text) => (text === "" ? "∅" : text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣"));

export function Said({ answer }) {
  if (answer.error) return html`<p class="error" role="alert">${answer.error}</p>`;
  return answer.waiting && !answer.values ? html`<p class="wait" role="status">One moment ...</p>` : null;
}

// Bars: rows {name, value, ghost, cut, title, onClick, why}, with shares of `whole`; a cut row stays, struck out; `why`
// is where a number is explained.
export function Bars({ rows, label, whole = 1, shown = percent }) {
  return html`<ul class="bars" aria-label=${label}>${rows.map((row) => html`<li key=${row.key ?? row.name} class=${row.cut ? "cut" : ""}>
    ${row.onClick
      ? html`<button type="button" class="name" title=${row.title} onClick=${row.onClick}>${row.name}</button>`
      : html`<span class="name" title=${row.title}>${row.name}</span>`}
    <span class="track" aria-hidden="true">
      <span class="ghost" style=${{ width: `${Math.min(100, (100 * (row.ghost ?? 0)) / whole)}%` }}></span>
      <span class="fill" style=${{ width: `${row.cut ? 0 : Math.min(100, (100 * row.value) / whole)}%` }}></span></span>
    <span class="value">${shown(row.cut ? row.ghost : row.value)}</span>${row.why && html`<a class="why" href=${row.why} aria-label=${`why ${row.name}?`}>why?</a>`}</li>`)}</ul>`;
}

// A table: columns {title, of: row => shown, sort: row => number, text: of words}; the first column heads its row.
export function Table({ columns, rows, best = null, label }) {
  const [order, setOrder] = useState(null);
  const sorted = order === null ? rows
    : [...rows].sort((a, b) => order.sign * ((columns[order.at].sort(a) ?? Infinity) - (columns[order.at].sort(b) ?? Infinity)));
  const turn = (at) => setOrder({ at, sign: order?.at === at ? -order.sign : 1 });
  const direction = (at) => (order?.at === at ? (order.sign > 0 ? "ascending" : "descending") : undefined);
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table class="numbers"><thead><tr>${columns.map((column, at) => html`
    <th scope="col" class=${column.text ? "text" : undefined} aria-sort=${direction(at)}>${column.sort ? html`<button type="button" onClick=${() => turn(at)}>${column.title}</button>` : column.title}</th>`)}</tr></thead>
    <tbody>${sorted.map((row) => html`<tr key=${row.name} class=${row.name === best ? "best" : ""}>${columns.map((column, at) =>
      at === 0 ? html`<th scope="row">${column.of(row)}</th>` : html`<td class=${column.text ? "text" : undefined}>${column.of(row)}</td>`)}</tr>`)}</tbody></table></div>`;
}

// From pale to red: bits of a byte.
export const heat = (level) => `rgb(var(--warm) / ${Math.max(0, Math.min(0.8, level / 10)).toFixed(3)})`;
// From blue (negative) over nothing to red.
export const twoSided = (value, most) => `rgb(var(${value > 0 ? "--warm" : "--cold"}) / ${Math.min(0.75, (0.75 * Math.abs(value)) / most).toFixed(3)})`;

// From pale to blue: shares, the largest of which is `most`; by the root, so that small ones show.
export const share = (value, most) => `rgb(var(--cold) / ${(0.72 * Math.sqrt(Math.min(1, value / most))).toFixed(3)})`;

// Coloured text: pieces {text}; `colour(piece, i)`; pointing at, focusing or clicking a piece calls `onAt(i)`; the
// arrow keys go through the pieces; `picked`: a set of those that are marked.
export function Coloured({ pieces, colour, at, onAt, onPick, label, picked }) {
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = Math.max(0, Math.min(pieces.length - 1, (at ?? -1) + step));
      event.preventDefault();
      onAt(next);
      event.currentTarget.children[next]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && at !== null) onPick?.(at);
  };
  const place = (event) => Number(event.target.dataset?.i ?? NaN);
  return html`<div class="coloured" tabindex="0" role="group" aria-label=${label} aria-description="arrow keys go from piece to piece"
    onKeyDown=${key} onPointerOver=${(event) => Number.isInteger(place(event)) && onAt(place(event))}
    onClick=${(event) => Number.isInteger(place(event)) && (onAt(place(event)), onPick?.(place(event)))}>
    ${pieces.map((piece, i) => html`<span key=${i} data-i=${i} class=${`${i === at ? "at" : ""}${picked?.has(i) ? " picked" : ""}`}
      style=${{ backgroundColor: colour(piece, i) }}>${piece.text === "" ? "¶" : piece.text.endsWith("\n") ? `${piece.text.slice(0, -1)}↵\n` : piece.text}</span>`)}</div>`;
}

// The colours of bits of a byte, in words.
export const Legend = ({ levels = [0, 1, 2, 4, 8], unit = "bits per byte" }) => html`<p class="legend">
  ${levels.map((level) => html`<span><i style=${{ backgroundColor: heat(level) }}></i>${level}</span>`)} ${unit}</p>`;

// Numbers behind a picture, for those who cannot see it or want them.
export const Folded = ({ title = "The numbers", children }) => html`<details><summary>${title}</summary>${children}</details>`;
