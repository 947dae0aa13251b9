// Own pictures in SVG, as wide as their place: axes, and the width.
import { html, useLayoutEffect, useRef, useState } from "./html.js";

// [ref, width in pixels] of a place that may change its size.
export function useWidth(first = 640) {
  const place = useRef(null);
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => place.current && setWidth(Math.max(200, place.current.clientWidth)));
    if (place.current) {
      setWidth(Math.max(200, place.current.clientWidth));
      watch.observe(place.current);
    }
    return () => watch.disconnect();
  }, []);
  return [place, width];
}

// About `n` round numbers from low to high.
export function ticks(low, high, n = 5) {
  const rough = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

// A picture with axes: `x`, `y` are [low, high]; `children(at, top)` draws with functions from values to pixels.
export function Axes({ width, height, x, y, xTicks, yTicks, label, xLabel, yLabel, children }) {
  const [left, right, top, bottom] = [48, 10, yLabel ? 24 : 10, xLabel ? 38 : 22];
  const across = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const up = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  return html`<svg class="plot" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    ${(yTicks ?? ticks(...y)).map((value) => html`<g key=${`y${value}`}><line class="grid" x1=${left} x2=${width - right} y1=${up(value)} y2=${up(value)} />
      <text x=${left - 6} y=${up(value) + 4} text-anchor="end">${value}</text></g>`)}
    ${(xTicks ?? ticks(...x).map((value) => [value, String(value)])).map(([value, name]) => html`<text key=${`x${value}`} x=${across(value)} y=${height - bottom + 15} text-anchor="middle">${name}</text>`)}
    <text class="name" x=${width - right} y=${height - 3} text-anchor="end">${xLabel}</text>
    ${yLabel && html`<text class="name" x="0" y="11">${yLabel}</text>`}
    ${children(across, up)}</svg>`;
}

export const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
