// The next-token board: what several models expect after one prompt, reshaped by temperature, top-k and top-p.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { written } from "../parts/address.js";
import { useAsked } from "../parts/ask.js";
import { Check, Picker, Slider, TextBox, Choice } from "../parts/controls.js";
import { Bars, Said, number, percent, visible } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

// Shares after a temperature, the k likeliest (0: all), and of these the smallest set with at least the share p,
// as the library draws. `pieces`: [text, kind, log-probability], likeliest first.
export function reshaped(pieces, temperature, k, p) {
  const top = pieces[0]?.[2] ?? 0;
  const weights = pieces.map((piece) => Math.exp((piece[2] - top) / temperature));
  let kept = k > 0 ? Math.min(k, weights.length) : weights.length;
  if (p < 1) {
    let total = 0;
    for (let i = 0; i < kept; i++) total += weights[i];
    let [sum, count] = [0, 0];
    while (count < kept && sum < p * total) sum += weights[count++];
    kept = Math.max(1, count);
  }
  let total = 0;
  for (let i = 0; i < kept; i++) total += weights[i];
  return { kept, shares: weights.map((weight, i) => (i < kept ? weight / total : 0)) };
}

export function entropy(shares) {
  let sum = 0;
  for (const share of shares) if (share > 0) sum -= share * Math.log2(share);
  return sum;
}

// What a guess is worth to a model: its place and share among what may follow.
function Guessed({ guess, pieces, shares }) {
  const at = pieces.findIndex(([text]) => text === guess);
  return html`<p class="note" data-guessed>${at < 0 ? html`<code>${visible(guess)}</code> is not expected` : html`<code>${visible(guess)}</code>: ${percent(shares[at])}, rank ${at + 1}`}</p>`;
}

function Column({ name, answer, options, guess, hidden, why, onPush }) {
  const { t, k, p, rows, by } = options;
  const found = answer.values;
  const shaped = useMemo(() => {
    if (!found) return null;
    const pieces = by === "characters" ? found.characters.map(([text, score]) => [text, text.startsWith("\\x") ? "bytes" : "text", score]) : found.pieces;
    return { pieces, ...reshaped(pieces, t, k, p) };
  }, [found, t, k, p, by]);
  const bars = shaped?.pieces.slice(0, rows).map(([text, kind, score], i) => ({
    key: `${kind}${text}`, name: visible(text), title: kind === "text" ? `add ${JSON.stringify(text)} to the prompt` : kind,
    value: shaped.shares[i], ghost: Math.exp(score), cut: i >= shaped.kept,
    onClick: kind === "text" ? () => onPush(text) : undefined, why: why && by === "pieces" && i < 5 ? why(i + 1) : null,
  }));
  if (hidden) return html`<section class="column" aria-label=${name} data-model=${name}><header><h3>${name}</h3></header><p class="soft">hidden until you have guessed</p></section>`;
  return html`<section class="column" aria-label=${name} data-model=${name}><header><h3>${name}</h3>
    ${shaped && html`<span class="soft small"><span data-entropy>${number(entropy(shaped.shares), 2)}</span> bits</span>`}</header>
    <${Said} answer=${answer} />
    ${guess && shaped && html`<${Guessed} guess=${guess} pieces=${shaped.pieces} shares=${shaped.shares} />`}
    ${bars && html`<${Bars} rows=${bars} label=${`what ${name} expects`} whole=${Math.max(shaped.shares[0], 0.05)} />
      <p class="soft small">${shaped.kept < shaped.pieces.length ? `${shaped.kept.toLocaleString("en")} of ${shaped.pieces.length.toLocaleString("en")} may be drawn; ` : ""}${found.unit}${found.rest > 1e-4 ? `; the least likely ${(found.n - found.pieces.length).toLocaleString("en")} (${number(100 * found.rest, 2)}%) are left out` : ""}</p>`}</section>`;
}

export default function Next({ models, all, chosen, text, options, views, change }) {
  const [guess, setGuess] = useState("");
  const [open, setOpen] = useState(false);
  const first = options.guess === "1", hidden = first && !open;
  useEffect(() => { // a new prompt is a new riddle
    setOpen(false);
    setGuess("");
  }, [text, first]);
  const steps = views.find((view) => view.name === "step");
  const values = { t: Number(options.temp ?? 1), k: Number(options.k ?? 0), p: Number(options.p ?? 1), rows: Number(options.top ?? 10), by: options.by ?? "pieces" };
  const prompt = useRef(text);
  prompt.current = text;
  const answers = useAsked(chosen.map((model) => ["/studio/next", { model: model.name, text, stamp: model.stamp }]));
  const set = (part) => change({ options: part });
  const push = (piece) => change({ text: prompt.current + piece }, true);
  return html`<h1>Next token</h1>
    <p class="soft">What each model expects after the same prompt. Click a piece to push it into all of them.</p>
    <${TextBox} label="Prompt" rows=${2} value=${text} onChange=${(value) => change({ text: value })} />
    <${Picker} models=${models} chosen=${chosen.map((one) => one.name)} onChange=${(names) => change({ models: names })} />
    <div class="controls" data-unsaved>
      <${Slider} label="temperature" min="0.05" max="3" step="0.05" value=${values.t} shown=${(v) => v.toFixed(2)} onChange=${(v) => set({ temp: v === 1 ? null : v })} />
      <${Slider} label="top-k" min="0" max="100" value=${values.k} shown=${(v) => (v ? String(v) : "all")} onChange=${(v) => set({ k: v || null })} />
      <${Slider} label="top-p" min="0.01" max="1" step="0.01" value=${values.p} shown=${(v) => v.toFixed(2)} onChange=${(v) => set({ p: v === 1 ? null : v })} />
      <${Slider} label="rows" min="5" max="40" value=${values.rows} onChange=${(v) => set({ top: v === 10 ? null : v })} />
      <${Choice} label="what follows, by" value=${values.by} choices=${[["pieces", "token"], ["characters", "character"]]} onChange=${(v) => set({ by: v === "pieces" ? null : v })} />
      <${Check} label="guess first" value=${first} onChange=${(v) => set({ guess: v ? 1 : null })} />
    </div>
    ${hidden && html`<form class="controls" data-unsaved onSubmit=${(event) => (event.preventDefault(), setOpen(true))}><label>what comes next? (␣ for a space)<br /><input class="short" type="text" autocomplete="off" value=${guess.replaceAll(" ", "␣")} onInput=${(event) => setGuess(event.target.value.replaceAll("␣", " "))} /></label><button class="primary" type="submit">Show</button></form>`}
    <div class="columns">${chosen.map((model, i) => html`<${Column} key=${model.name} name=${model.name} answer=${answers[i] ?? {}} options=${values} guess=${first ? guess : ""} hidden=${hidden}
      why=${steps?.fits(model) ? (rank) => written({ view: "step", models: [model.name], text, options: { rank: rank === 1 ? null : rank } }) : null} onPush=${push} />`)}</div>
    ${chosen.length === 0 && html`<p class="soft">Choose a model.</p>`}
    <${Signature} view="next" models=${chosen} text=${text}
      terminal=${chosen.map((model) => `curl -s ${location.origin}/studio/next -d ${inShell(JSON.stringify({ model: model.name, text }))}`)}
      python=${chosen.length ? ["import seqloom", "from seqloom.studio.following import following", ...chosen.map((model) => `following(seqloom.load(${inPython(model.path)}), ${inPython(text)})`)] : []} />`;
}
