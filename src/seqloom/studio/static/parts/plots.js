// Own pictures in SVG and on canvas, as wide as their place: colours, widths, axes with round numbers.
import { html, useEffect, useMemo, useState } from "./html.js";

export const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Whether it is dark; what draws on a canvas draws again when that changes.
export function useScheme() {
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const look = () => setDark(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return dark;
}

// Dots on a canvas, one a value: `dot(y, x)` is [a colour of the style, how much of it from 0 to 1].
export function paint(canvas, rows, columns, dot) {
  Object.assign(canvas, { width: columns || 1, height: rows || 1 });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  const known = new Map();
  const colour = (name) => known.get(name) ?? known.set(name, ink(name).split(" ").map(Number)).get(name);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const [name, share] = dot(y, x), [r, g, b] = colour(name), at = 4 * (y * columns + x);
      picture.data[at] = r;
      picture.data[at + 1] = g;
      picture.data[at + 2] = b;
      picture.data[at + 3] = Math.round(255 * Math.min(1, share));
    }
  }
  context.putImageData(picture, 0, 0);
}

// [ref, width in pixels] of a place that may come later and change its size.
export function useWidth(first = 640) {
  const [width, setWidth] = useState(first);
  const place = useMemo(() => {
    let watch = null;
    return (element) => {
      watch?.disconnect();
      watch = null;
      if (!element) return;
      const fit = () => setWidth(Math.max(200, Math.floor(element.clientWidth)));
      watch = new ResizeObserver(fit);
      watch.observe(element);
      fit();
    };
  }, []);
  return [place, width];
}

// About `n` round numbers from low to high.
export function ticks(low, high, n = 5) {
  const rough = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough * (1 - 1e-9)) ?? power;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

// Round numbers of a logarithmic axis: powers of ten, few enough to be read; 1, 2 and 5 of each where there are few.
export function powers(low, high, n = 7) {
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const every = Math.max(1, Math.ceil((last - first) / n));
  const tens = [];
  for (let e = Math.ceil(first - 1e-9); e <= last + 1e-9; e += every) tens.push(Number(`1e${e}`));
  if (tens.length > 2) return tens;
  const found = [];
  for (let e = Math.floor(first); e <= last; e++) for (const m of [1, 2, 5]) found.push(Number(`${m}e${e}`));
  return found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

export const brief = (value) => {
  const size = Math.abs(value);
  if (size >= 1e9) return `10${[...String(Math.round(Math.log10(size)))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("")}`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return size >= 1e-3 || size === 0 ? String(+value.toPrecision(3)) : value.toExponential(0);
};

const [LEFT, RIGHT] = [52, 12]; // pixels beside the drawing

// A picture with axes: `x`, `y` are [low, high], `xTicks`, `yTicks` numbers or [number, name]; `children(across, up)`
// draws with functions from values to pixels; `onAt(x)` hears where it is pointed at, and null when no more.
export function Axes({ width, height, x, y, xLog = false, yLog = false, xTicks, yTicks, label, xLabel, yLabel, onAt, children }) {
  const [top, bottom] = [yLabel ? 24 : 10, xLabel ? 38 : 22];
  const [sx, sy] = [xLog, yLog].map((log) => (log ? Math.log10 : (value) => value));
  const share = (value, [low, high], scaled) => (scaled(value) - scaled(low)) / (scaled(high) - scaled(low) || 1);
  const across = (value) => LEFT + share(value, x, sx) * (width - LEFT - RIGHT);
  const up = (value) => height - bottom - share(value, y, sy) * (height - top - bottom);
  const named = (given, [low, high], log, n) => (given ?? (log ? powers : ticks)(low, high, n)).map((one) => (Array.isArray(one) ? one : [one, brief(one)]));
  const point = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const at = Math.max(0, Math.min(1, (event.clientX - frame.left - LEFT) / (width - LEFT - RIGHT)));
    onAt(xLog ? 10 ** (sx(x[0]) + at * (sx(x[1]) - sx(x[0]))) : x[0] + at * (x[1] - x[0]));
  };
  return html`<svg class="plot" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label} onPointerMove=${onAt && point} onPointerLeave=${onAt && (() => onAt(null))}>
    ${named(yTicks, y, yLog, height / 50).map(([value, name]) => html`<g key=${`y${value}`}><line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${up(value)} y2=${up(value)} />
      <text x=${LEFT - 7} y=${up(value)} dy=".35em" text-anchor="end">${name}</text></g>`)}
    ${named(xTicks, x, xLog, width / 90).map(([value, name]) => html`<text key=${`x${value}`} x=${across(value)} y=${height - bottom + 16} text-anchor=${across(value) > width - RIGHT - 9 && name.length > 3 ? "end" : "middle"}>${name}</text>`)}
    <text class="name" x=${width - RIGHT} y=${height - 3} text-anchor="end">${xLabel}</text>
    ${yLabel && html`<text class="name" x="0" y="11">${yLabel}</text>`}
    ${children(across, up)}</svg>`;
}

export const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
export const bounds = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
