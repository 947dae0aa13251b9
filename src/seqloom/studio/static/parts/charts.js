// Pictures on canvas: a heat map, and a line chart by uPlot. Both have a folded table beside them.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Folded, Table, number } from "./shown.js";

export const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// values[row][column] from 0 to `most`; `onAt(row, column)` when pointed at; `rows`, `columns`: names.
export function Heat({ values, rows, columns, most = 1, onAt, label, table = true }) {
  const canvas = useRef(null);
  useLayoutEffect(() => {
    const [height, width] = [values.length, values[0]?.length ?? 0];
    Object.assign(canvas.current, { width: width || 1, height: height || 1 });
    const context = canvas.current.getContext("2d");
    const [r, g, b] = ink("--cold").split(" ").map(Number);
    const picture = context.createImageData(width || 1, height || 1);
    values.forEach((line, y) => line.forEach((value, x) => {
      const share = Math.max(0, Math.min(1, (value ?? 0) / most));
      picture.data.set([r, g, b, Math.round(255 * share)], 4 * (y * width + x));
    }));
    context.putImageData(picture, 0, 0);
  }, [values, most]);
  const move = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [y, x] = [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
    onAt?.(Math.min(values.length - 1, Math.floor(y * values.length)), Math.min(columns.length - 1, Math.floor(x * columns.length)));
  };
  const heads = [{ title: "", of: (row) => row.name }, ...columns.map((title, x) => ({ title, of: (row) => number(row.line[x]) }))];
  return html`<div><canvas ref=${canvas} class="heat" role="img" aria-label=${label} onPointerMove=${move}></canvas>
    ${table && html`<${Folded}><${Table} label=${label} columns=${heads} rows=${rows.map((name, y) => ({ name, line: values[y] }))} /><//>`}</div>`;
}

let loading = null;
function plotter() { // a classic script, loaded when a view first needs it
  loading ??= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/studio/static/vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "/studio/static/vendor/uplot.js" });
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => reject(new Error("the line charts could not be loaded"));
    document.head.append(style, script);
  });
  return loading;
}

const HUES = ["#3b7dd8", "#d1662d", "#3a9a5b", "#a855c7", "#b08900", "#c2417c", "#4b8a99", "#7a6a58"];

// Powers of ten between two values, few enough to be read, and how they are written.
function decades(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / 7));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, i) => 10 ** (first + i * step));
}
const raised = (value) => { const n = Math.round(Math.log10(value)); return n >= -2 && n <= 3 ? String(Number(value.toPrecision(1))) : `10${[...String(n)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("")}`; };

// series: [{name, y: [...]}] over x: [...]; null is a gap. `shown` writes a value of the table and the legend.
export function Lines({ x, series, label, xLabel, yLabel, logX = false, logY = false, height = 280, shown = number }) {
  const box = useRef(null);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    let plot = null, watch = null, gone = false;
    plotter().then((uPlot) => {
      if (gone) return;
      const axis = (name) => ({ label: name, stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line") } });
      plot = new uPlot({
        width: box.current.clientWidth, height, legend: { live: true },
        scales: { x: { time: false, distr: logX ? 3 : 1 }, y: { distr: logY ? 3 : 1 } },
        axes: [axis(xLabel), { ...axis(yLabel), size: 62, ...(logY ? { splits: (u, i, low, high) => decades(low, high), filter: (u, list) => list, values: (u, list) => list.map(raised) } : {}) }],
        series: [{ label: xLabel }, ...series.map((one, i) => ({ label: one.name, value: (u, value) => (value === null || value === undefined ? "--" : shown(value)), stroke: HUES[i % HUES.length], width: 2, dash: i >= HUES.length ? [6, 4] : undefined }))],
      }, [x, ...series.map((one) => one.y)], box.current);
      watch = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height }));
      watch.observe(box.current);
    }, (error) => setFailed(error.message));
    return () => {
      gone = true;
      watch?.disconnect();
      plot?.destroy();
    };
  }, [x, series, logX, logY]);
  const columns = [{ title: xLabel, of: (row) => row.name }, ...series.map((one) => ({ title: one.name, of: (row) => (one.y[row.i] === null || one.y[row.i] === undefined ? "-" : shown(one.y[row.i])) }))];
  return html`<figure role="group" aria-label=${label}><div ref=${box} role="img" aria-label=${label}></div>
    ${failed && html`<p class="error">${failed}</p>`}
    <${Folded}><${Table} label=${label} columns=${columns} rows=${x.map((value, i) => ({ name: String(value), i }))} /><//></figure>`;
}
