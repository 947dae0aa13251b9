// Maps of shares: unpacked from few bytes, drawn on a canvas, as arcs between tokens, and as coloured text.
import { html, useLayoutEffect, useRef } from "./html.js";
import { ink, paint, useScheme, useWidth } from "./plots.js";
import { Coloured, number, visible } from "./shown.js";

export const NAMED = 64; // tokens of a side up to which a map and arcs show them
const LEAST = 0.05; // the weight from which on an arc is drawn

// {rows, columns, of(row, column), row(row), most}: of shares as whole numbers of 8 or 16 bits.
export function unpacked(text, [rows, columns], bits) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const whole = bits === 8 ? bytes : new Uint16Array(bytes.buffer);
  const scale = 1 / (2 ** bits - 1);
  let most = 0;
  for (const value of whole) if (value > most) most = value;
  const row = (y) => Array.from(whole.subarray(y * columns, (y + 1) * columns), (value) => value * scale);
  return { rows, columns, most: most * scale, row, of: (y, x) => whole[y * columns + x] * scale };
}

// A dot for each share, darker by the root, so that small ones show.
function draw(canvas, map) {
  const top = Math.max(map.most, 1e-6);
  paint(canvas, map.rows, map.columns, (y, x) => ["--cool", Math.sqrt(map.of(y, x) / top)]);
  return canvas;
}

export function Small({ map }) {
  const canvas = useRef(null);
  const dark = useScheme();
  useLayoutEffect(() => {
    draw(canvas.current, map);
  }, [map, dark]);
  return html`<canvas ref=${canvas} class="small" aria-hidden="true"></canvas>`;
}

const short = (name) => {
  const text = visible(name);
  return text.length > 10 ? `${text.slice(0, 9)}…` : text;
};

// One map: what looks from top to bottom, what is looked at from left to right; `size`: tokens of a tile.
export function MapOf({ map, steps, keys, size = 1, at, onAt, label }) {
  const canvas = useRef(null);
  const [box, width] = useWidth(0);
  const dark = useScheme();
  const named = size === 1 && Math.max(map.rows, map.columns) <= NAMED;
  const font = "12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
  const longest = (names) => names.reduce((most, name) => Math.max(most, [...short(name)].length), 1);
  const [left, top] = named ? [14 + 7.3 * longest(steps), 16 + 6.8 * longest(keys)] : [46, 24];
  const room = Math.max(60, Math.min(width || 300, 760) - left - 2);
  const cell = Math.min(named ? 24 : 6, room / Math.max(map.columns, map.rows * 0.6));
  const side = cell >= 1 && named ? Math.max(5, Math.floor(cell)) : cell;
  useLayoutEffect(() => {
    if (!width) return;
    const [w, h, scale] = [left + side * map.columns + 1, top + side * map.rows + 1, devicePixelRatio || 1];
    Object.assign(canvas.current, { width: Math.ceil(w * scale), height: Math.ceil(h * scale) });
    Object.assign(canvas.current.style, { width: `${w}px`, height: `${h}px` });
    const context = canvas.current.getContext("2d");
    context.scale(scale, scale);
    context.imageSmoothingEnabled = side < 1;
    context.drawImage(draw(document.createElement("canvas"), map), left, top, side * map.columns, side * map.rows);
    context.strokeStyle = ink("--line");
    context.strokeRect(left - 0.5, top - 0.5, side * map.columns + 1, side * map.rows + 1);
    context.font = font;
    context.textBaseline = "middle";
    const row = at === null || at === undefined ? null : Math.floor(at / size);
    const plain = ink("--soft"), strong = ink("--ink"), accent = ink("--accent");
    const every = named ? Math.ceil(13 / side) : Math.ceil(56 / side);
    const shown = (names, i) => (named ? short(names[i]) : String(i * size));
    for (let y = 0; y < map.rows; y++) {
      if (y !== row && (y % every || (row !== null && Math.abs(y - row) < every))) continue;
      context.fillStyle = y === row ? strong : plain;
      context.textAlign = "right";
      context.fillText(shown(steps, y), left - 6, top + (y + 0.5) * side);
    }
    for (let x = 0; x < map.columns; x += every) {
      context.save();
      context.fillStyle = plain;
      context.translate(left + (x + 0.5) * side, top - 6);
      context.textAlign = named ? "left" : "center";
      if (named) context.rotate(-Math.PI / 2.6);
      context.fillText(shown(keys, x), 0, named ? 0 : -5);
      context.restore();
    }
    if (row !== null) {
      context.strokeStyle = accent;
      context.lineWidth = 1.5;
      context.strokeRect(left - 0.5, top + row * side - 0.5, side * map.columns + 1, Math.max(side, 1.5) + 1);
    }
  }, [map, steps, keys, size, at, width, dark]);
  const place = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    const y = Math.floor((event.clientY - frame.top - top) / side), x = Math.floor((event.clientX - frame.left - left) / side);
    if (y >= 0 && y < map.rows && x >= 0 && x < map.columns) onAt?.(Math.min(y * size, steps.length - 1), Math.min(x * size, keys.length - 1));
  };
  return html`<div ref=${box} class="mapbox"><canvas ref=${canvas} role="img" aria-label=${label} onPointerMove=${place} onPointerDown=${place}></canvas></div>`;
}

// The largest weights of each step as arcs: back at the right of the tokens, ahead at the left; of two texts as lines.
export function Arcs({ map, steps, keys, itself, at, onAt, label }) {
  const high = 22, [n, m] = [steps.length, keys.length];
  if (Math.max(n, m) > NAMED) return html`<p class="soft">Arcs are drawn for up to ${NAMED} tokens; this text has ${Math.max(n, m)}. The map shows them all.</p>`;
  const arcs = [];
  for (let y = 0; y < n; y++) {
    const best = map.row(y).map((weight, x) => [weight, x]).sort((a, b) => b[0] - a[0]);
    for (const [weight, x] of best.slice(0, y === at ? 8 : 2)) if (weight >= (y === at ? 0.01 : LEAST) && !(itself && x === y)) arcs.push({ y, x, weight });
  }
  const middle = (i) => 14 + i * high;
  const [one, two, width] = itself ? [200, 200, 400] : [130, 270, 400];
  const half = 8 + 3.8 * steps.reduce((most, name) => Math.max(most, [...short(name)].length), 1);
  const path = ({ y, x }) => {
    if (!itself) return `M${one + 6},${middle(y)} C${one + 60},${middle(y)} ${two - 60},${middle(x)} ${two - 6},${middle(x)}`;
    const far = Math.min(188 - half, 20 + 11 * Math.abs(y - x)), sign = x < y ? 1 : -1, from = one + sign * half;
    return `M${from},${middle(y)} C${from + sign * far},${middle(y)} ${from + sign * far},${middle(x)} ${from},${middle(x)}`;
  };
  const word = (name, i, where, anchor, kind) => html`<text key=${kind + i} x=${where} y=${middle(i)} dy=".35em" text-anchor=${anchor} data-step=${kind === "s" ? i : undefined}
    class=${kind === "s" && i === at ? "at" : ""} onPointerEnter=${kind === "s" ? () => onAt(i) : undefined}>${short(name)}</text>`;
  return html`<svg class="arcs" viewBox="0 0 ${width} ${middle(Math.max(n, m) - 1) + 14}" role="img" aria-label=${label}>
    ${arcs.map((arc) => html`<path key=${`${arc.y} ${arc.x}`} d=${path(arc)} class=${arc.y === at ? "at" : ""} style=${{ opacity: at === null || arc.y === at ? 0.25 + 0.75 * arc.weight : 0.15, strokeWidth: 1 + 3 * arc.weight }} />`)}
    ${steps.map((name, i) => word(name, i, one, itself ? "middle" : "end", "s"))}
    ${!itself && keys.map((name, i) => word(name, i, two, "start", "k"))}</svg>`;
}

// Tokens as text: with spaces between them where their spelling has none.
export function Tokens({ names, colour, at, onAt, label, lead = true }) {
  const glued = names.some((name) => /\s/.test(name)) || names.every((name) => [...name].length < 2);
  return html`<div class=${`tokens ${glued ? "" : "spaced"} ${lead ? "" : "still"}`}><${Coloured} pieces=${names.map((text) => ({ text }))} colour=${colour} at=${at} onAt=${onAt ?? (() => {})} label=${label} /></div>`;
}

// The largest of a row in words: [[token, weight]...].
export const largest = (row, keys, most = 5) => row.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, most)
  .filter(([weight]) => weight >= 0.0005).map(([weight, i]) => html`<span class="one"><code>${visible(keys[i])}</code>${" "}<b data-weight>${number(weight)}</b></span> `);
