// How far back the gradient reaches: models of the shelf on one axis, and fresh cells with a slider for the gain.
import { html, useEffect, useMemo } from "../parts/html.js";
import { askOnce, useAsk, useAsked } from "../parts/ask.js";
import { Choice, Picker, Slider, TextBox } from "../parts/controls.js";
import { Curves } from "../parts/curves.js";
import { Said, Table } from "../parts/shown.js";
import { Signature, command, inPython } from "../parts/signature.js";

const PATH = "/studio/inspect/gradients";
const MOST = 6; // models at a time
const GAINS = [0.5, 1, 1.5, 3, 6]; // those of the demonstration
const FRESH = { cell: ["rnn", "lstm", "gru"], start: "normal", distance: 100, hidden: 32 };
const KINDS = { "dh/dh": "the state", "dc/dc": "the cell of an LSTM", "forget gates": "the product of forget gates" };
export const power = (value) => (value === null || value === undefined ? "-" : value === 0 ? "0" : value >= 0.01 && value < 1000 ? value.toPrecision(3) : value.toExponential(1));
const CHART = { log: true, shown: power, height: 300, table: true };

// Of one model: what is read, if the library has it, else its highest layer.
const layerOf = (data) => {
  const names = [...new Set(data.positions.map((row) => row.layer))];
  return names.includes("input") ? "input" : names.at(-1);
};

// The gradient of the last token's loss by how many tokens back: [norms, nearest first].
export function byDistance(data) {
  const layer = layerOf(data);
  return data.positions.filter((row) => row.layer === layer).map((row) => row.last).reverse();
}

function Models({ found, chosen, options, set }) {
  const loss = useMemo(() => found.map((data, hue) => ({ name: chosen[hue].name, hue, points: data ? byDistance(data).map((norm, distance) => [distance, norm]) : [] })).filter((one) => one.points.length), [found, chosen]);
  const kinds = Object.keys(KINDS).filter((kind) => found.some((data) => data?.rows.some((row) => typeof row[kind] === "number")));
  const kind = kinds.includes(options.of) ? options.of : kinds[0];
  const state = useMemo(() => found.map((data, hue) => {
    const rows = data?.rows ?? [], last = rows.at(-1)?.layer;
    return { name: chosen[hue].name, hue, points: rows.filter((row) => row.layer === last && typeof row[kind] === "number").map((row) => [row.distance, row[kind]]) };
  }).filter((one) => one.points.length), [found, chosen, kind]);
  return html`${loss.length > 0 && html`<h2>Of the loss of the last token</h2>
      <p class="soft">How much the loss of the last token would change with ${found.every((data) => !data || layerOf(data) === "input") ? "what was read" : "the state"} so many tokens before: the norm of the gradient, on a logarithmic axis.</p>
      <${Curves} series=${loss} label="gradient of the last token's loss by distance" xLabel="tokens back" yLabel="norm of the gradient" ...${CHART} />`}
    ${state.length > 0 && html`<h2>Of the recurrent state</h2>
      <p class="soft">What is left of a small change of ${KINDS[kind]} after so many steps, in the highest layer.</p>
      <div class="controls" data-unsaved>${kinds.length > 1 && html`<${Choice} label="follow" value=${kind} choices=${kinds.map((one) => [one, KINDS[one]])} onChange=${(one) => set({ of: one === kinds[0] ? null : one })} />`}</div>
      <${Curves} series=${state} label=${`what is left of a change of ${KINDS[kind]}`} xLabel="steps" yLabel="largest factor" ...${CHART} />`}`;
}

function Fresh({ options, set }) {
  const asked = GAINS.includes(Number(options.gain));
  const at = asked ? GAINS.indexOf(Number(options.gain)) : 2;
  const body = (gain) => ({ ...FRESH, gain });
  const [curves, many] = useAsked([asked ? [PATH, body(GAINS[at])] : null, asked ? [PATH, {}] : null]);
  useEffect(() => { // so that the slider's next step is there at once
    if (!curves.values || curves.waiting) return undefined;
    const ended = new AbortController();
    (async () => {
      for (const gain of [GAINS[at + 1], GAINS[at - 1]].filter(Boolean)) await askOnce(PATH, body(gain), { signal: ended.signal }).catch(() => null);
    })();
    return () => ended.abort();
  }, [curves.values, curves.waiting, at]);
  const rows = curves.values?.data.rows ?? [];
  const chart = useMemo(() => FRESH.cell.map((name) => ({ name, points: rows.filter((row) => row.layer === name).map((row) => [row.distance, row["dh/dh"]]) })), [curves.values]);
  const last = rows.reduce((most, row) => Math.max(most, row.distance), 0);
  const left = FRESH.cell.map((name) => [name, rows.find((row) => row.layer === name && row.distance === last)?.["dh/dh"]]);
  const measured = (many.values?.data.rows ?? []).filter((row) => row.what.startsWith("tanh"));
  return html`<section aria-label="fresh cells"><h2>Fresh cells</h2>
    <p class="soft">Untrained cells of 32 units that read noise. The gain multiplies the recurrent matrices: below about 2 a plain RNN forgets, above it explodes.</p>
    <div class="controls" data-unsaved>${asked ? html`<${Slider} label="gain" min="0" max=${GAINS.length - 1} value=${at} shown=${(i) => String(GAINS[i])} onChange=${(i) => set({ gain: GAINS[i] })} />` : html`<button type="button" onClick=${() => set({ gain: 1.5 })}>Measure fresh cells</button> <span class="soft small">takes some seconds the first time</span>`}</div>
    ${asked && html`<${Said} answer=${curves} />
      ${last > 0 && html`<p data-left>Left of a change after ${last} steps: ${left.map(([name, value], i) => html`${i ? ", " : ""}${name} <b>${power(value)}</b>`)}.</p>
      <${Curves} series=${chart} label=${`what is left of a change in fresh cells, gain ${GAINS[at]}`} xLabel="steps" yLabel="largest factor" ...${CHART} />`}
      ${measured.length > 0 && html`<h3 class="spaced">A plain RNN of 64 units at each gain, over many seeds</h3><${Table} label="what is left after 100 steps, by gain" best=${GAINS[at]} columns=${[
        { title: "gain", of: (row) => row.gain }, { title: "left after 100 steps", of: (row) => power(row.median) },
        { title: "middle 95 %", of: (row) => `${power(row.low)} to ${power(row.high)}` }, { title: "mean slope of tanh", of: (row) => row.slope.toFixed(2) },
      ]} rows=${measured.map((row) => ({ ...row, name: row.gain }))} />`}
      ${many.error && html`<${Said} answer=${many} />`}`}</section>`;
}

export default function Reach({ models, chosen, text, options, change }) {
  const picked = useMemo(() => chosen.slice(0, MOST), [chosen.map((model) => model.name).join("\n")]);
  const set = (part) => change({ options: part });
  const answers = useAsked(picked.map((model) => [PATH, { model: model.name, text }]), picked.map((model) => model.stamp).join());
  const key = answers.map((answer) => (answer.values ? 1 : 0)).join("") + text + picked.map((model) => model.name).join();
  const found = useMemo(() => answers.map((answer) => answer.values?.data ?? null), [key, answers.every((answer) => !answer.waiting)]);
  const asked = GAINS.includes(Number(options.gain));
  return html`<h1>How far the gradient reaches</h1>
    <p class="soft">A network can only learn from what its gradient still feels. A plain RNN loses it within a few tokens; gates carry it further; attention reaches anything that it reads.</p>
    <${TextBox} rows=${2} value=${text} onChange=${(value) => change({ text: value })} />
    <${Picker} models=${models} chosen=${picked.map((model) => model.name)} most=${MOST} onChange=${(names) => change({ models: names })} />
    ${picked.map((model, i) => answers[i]?.error ? html`<p class="error" role="alert">${model.name}: ${answers[i].error}</p>` : answers[i]?.waiting && !answers[i]?.values ? html`<p class="wait" role="status">${model.name} reads ...</p>` : null)}
    <${Models} ...${{ found, chosen: picked, options, set }} />
    ${found.some(Boolean) && html`<ul class="said">${picked.map((model, i) => answers[i]?.values && html`<li key=${model.name}><b>${model.name}</b>: ${answers[i].values.summary.join(" ")}</li>`)}</ul>`}
    <${Fresh} options=${options} set=${set} />
    <${Signature} view="reach" models=${picked} text=${text} seed=${asked ? 0 : null}
      terminal=${[...picked.map((model) => command("inspect gradients", [model.path, text])), ...(asked ? [`seqloom inspect gradients --cell ${FRESH.cell.join(",")} --start normal --hidden ${FRESH.hidden} --gain ${options.gain} --json`] : [])]}
      python=${["import seqloom", ...picked.map((model) => `seqloom.inspect.gradients(seqloom.load(${inPython(model.path)}), ${inPython(text)}).data`), ...(asked ? [`seqloom.inspect.gradients(cell=("rnn", "lstm", "gru"), start="normal", hidden=${FRESH.hidden}, gain=${options.gain}).data`] : [])]} />`;
}
