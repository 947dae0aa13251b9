// Lanes of colours over a text: a row for each unit, a column for each token. All lanes scroll together.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { paint, useScheme } from "./plots.js";

export const ROW = 7; // pixels of a unit
const [NARROW, LONG, WIDEST] = [10, 18, 40]; // pixels of a token: of a letter, of a word, of any

const isShort = (steps) => steps.every((step) => [...step].length <= 2 || step === "</s>");

// How wide a token is: as it needs, and wider where there is room.
function useCell(box, steps) {
  const least = isShort(steps) ? NARROW : LONG;
  const [cell, setCell] = useState(least);
  useLayoutEffect(() => {
    const fit = () => setCell(Math.max(least, Math.min(WIDEST, Math.floor((box.current.clientWidth - 28) / steps.length))));
    const watch = new ResizeObserver(fit);
    fit();
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [steps, least]);
  return [cell, least === LONG];
}

// values[row][step] in 0 to 1, or with a sign in -1 to 1 (red above zero, blue below).
function Lane({ values, signed, cell, label }) {
  const canvas = useRef(null), dark = useScheme();
  useLayoutEffect(() => {
    paint(canvas.current, values.length, values[0]?.length ?? 0, (y, x) => [signed && values[y][x] > 0 ? "--hot" : "--cool", Math.abs(values[y][x])]);
  }, [values, signed, dark]);
  return html`<canvas ref=${canvas} class="lane" role="img" aria-label=${label} style=${{ width: `${cell * (values[0]?.length ?? 1)}px`, height: `${ROW * values.length}px` }}></canvas>`;
}

// lanes: [{name, title, values, signed}]; `at`: [row, step] that is pointed at; `unit`: the row that is chosen.
export function Lanes({ lanes, steps, rows, at, chosen, onAt, onPick, label }) {
  const box = useRef(null);
  const [cell, long] = useCell(box, steps);
  const key = (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (move) {
      event.preventDefault();
      const [row, step] = at ?? [0, 0];
      onAt([Math.max(0, Math.min(rows.length - 1, row + move[0])), Math.max(0, Math.min(steps.length - 1, step + move[1]))]);
    } else if (event.key === "Enter" && at) onPick(at[0], at[1]);
  };
  useEffect(() => { // what the keys choose stays in sight
    if (!at || document.activeElement !== box.current) return;
    const [left, width] = [at[1] * cell, box.current.clientWidth];
    if (left < box.current.scrollLeft || left > box.current.scrollLeft + width - 2 * cell) box.current.scrollLeft = left - width / 2;
  }, [at]);
  const place = (event) => {
    if (!event.target.classList?.contains("lane")) return null;
    const shape = event.target.getBoundingClientRect();
    const [row, step] = [Math.floor((event.clientY - shape.top) / ROW), Math.floor((event.clientX - shape.left) / cell)];
    return row >= 0 && row < rows.length && step >= 0 && step < steps.length ? [row, step] : null;
  };
  const strip = html`<div class=${`strip${long ? " long" : ""}`} aria-hidden="true">${steps.map((step, i) => html`<span key=${i} class=${at?.[1] === i ? "at" : ""} style=${{ width: `${cell}px` }}>${step === "</s>" ? "¶" : step.replaceAll("\n", "↵").replaceAll(" ", "␣").slice(0, 9)}</span>`)}</div>`;
  return html`<div class="lanes" ref=${box} tabindex="0" role="group" aria-label=${label} aria-description="arrow keys go from token to token and from unit to unit, Enter chooses a unit"
    onKeyDown=${key} onPointerMove=${(event) => { const found = place(event); if (found && (found[0] !== at?.[0] || found[1] !== at?.[1])) onAt(found); }} onClick=${(event) => { const found = place(event); if (found) onPick(...found); }}>
    <div class="inner" style=${{ width: `${cell * steps.length}px` }}>
      ${at && html`<i class="cross" style=${{ left: `${at[1] * cell}px`, width: `${cell}px` }}></i>`}
      ${strip}
      ${lanes.map((lane) => html`<div class="lane-box" key=${lane.name}><h3>${lane.title}</h3><div class="lane-rows">
        <${Lane} values=${lane.values} signed=${lane.signed} cell=${cell} label=${`${lane.title}: ${rows.length} units, ${steps.length} tokens`} />
        ${chosen >= 0 && html`<i class="chosen" style=${{ top: `${chosen * ROW}px`, height: `${ROW}px` }}></i>`}</div></div>`)}
    </div></div>`;
}

// One unit: a line for each of its gates and states over the text. lanes: [{name, title, values, low, high}].
export function Traces({ lanes, at, label }) {
  const n = lanes[0]?.values.length ?? 0;
  const path = (values, low, high) => values.map((value, i) => `${i ? "L" : "M"}${i + 0.5} ${(((high - value) / (high - low)) * 100).toFixed(2)}`).join("");
  return html`<div class="traces" role="group" aria-label=${label}>${lanes.map((lane) => html`<div key=${lane.name} class="trace"><span class="name" title=${lane.title}>${lane.name}</span>
    <svg viewBox=${`0 0 ${n} 100`} preserveAspectRatio="none" role="img" aria-label=${`${lane.title}, from ${lane.low} to ${lane.high}`}>
      <line class="zero" x1="0" x2=${n} y1=${(lane.high / (lane.high - lane.low)) * 100} y2=${(lane.high / (lane.high - lane.low)) * 100} />
      ${at !== null && html`<rect class="here" x=${at} width="1" y="0" height="100" />`}
      <path d=${path(lane.values, lane.low, lane.high)} /></svg>
    <span class="range">${at === null ? `${lane.low} to ${lane.high}` : lane.values[at].toFixed(3)}</span></div>`)}</div>`;
}
