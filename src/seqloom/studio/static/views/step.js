// One prediction, number by number: each number opens its equation, and the numbers in it light up.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { askOnce, useAsk } from "../parts/ask.js";
import { written } from "../parts/address.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { Bars, Said, number, visible } from "../parts/shown.js";
import { Signature, command, inPython } from "../parts/signature.js";

const PATH = "/studio/inspect/prediction";
const OPTIONS = ["token", "rank", "layer", "head", "unit"];
const FAMILIES = {
  ngram: "an n-gram: counts, and backing off to shorter contexts", hmm: "a hidden Markov model: predict the state, correct by the token",
  lstm: "an LSTM: three gates and a cell", gru: "a GRU: two gates and a state", rnn: "a plain RNN: one equation",
  gpt: "a Transformer: query, keys, softmax, mix", mixture: "a mixture: a weighted mean of models", nplm: "a feed-forward network over the last tokens",
  uniform: "no model at all: every token alike",
};

export const brief = (value) => {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return "∞";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(1) : size >= 0.001 ? value.toFixed(4) : value.toExponential(1);
};

const seen = (token) => token.replaceAll("\\n", "↵"); // the library writes a line's end as \n

// The tokens of the text: the arrow keys and clicks choose the one that is predicted.
function Tokens({ tokens, joiner, at, onPick }) {
  const box = useRef(null);
  useEffect(() => {
    const here = box.current?.querySelector(".at");
    if (here) box.current.scrollTop = here.offsetTop - box.current.offsetTop - 20;
  }, [at, tokens]);
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    onPick(Math.max(0, Math.min(tokens.length - 1, at + step)));
  };
  const click = (event) => event.target.dataset.i !== undefined && onPick(Number(event.target.dataset.i));
  return html`<div class="tokens" ref=${box} tabindex="0" role="group" aria-label="tokens of the text; the marked one is predicted"
    aria-description="arrow keys choose the token" onKeyDown=${key} onClick=${click}>${tokens.map((token, i) => html`<span key=${i} data-i=${i}
      class=${i === at ? "at" : i > at ? "later" : ""}>${seen(token)}</span>${i + 1 === tokens.length ? "" : token.endsWith("\\n") || token === "</s>" ? "\n" : joiner}`)}</div>`;
}

function NumberButton({ one, chosen, lit, onChoose }) {
  if (one.value === null || one.value === undefined) return html`<span class="soft" aria-hidden="true">·</span>`;
  return html`<button type="button" class=${`number${lit.has(one.id) ? " lit" : ""}`} data-number=${one.id} aria-pressed=${String(one.id === chosen)}
    aria-label=${`${one.id.replace(/\.\d+$/, "")}: ${brief(one.value)}${lit.has(one.id) ? ", part of the chosen number" : ""}`}
    onClick=${() => onChoose(one.id === chosen ? null : one.id)}>${brief(one.value)}</button>`;
}

function Part({ part, i, chosen, lit, onChoose, card }) {
  const shown = (one) => html`<${NumberButton} ...${{ one, chosen, lit, onChoose }} />`;
  const isLit = (row) => row.numbers.some((one) => lit.has(one.id) || one.id === chosen);
  return html`<section class="part" aria-label=${part.title}><h2><span class="ordinal" aria-hidden="true">${i + 1}</span>${seen(part.title)}</h2>
    ${part.said && html`<p class="soft">${part.said}</p>`}
    ${part.formula && html`<pre class="formula">${part.formula}</pre>`}
    ${part.columns.length > 0
      ? html`<div class="wide" tabindex="0" role="region" aria-label=${part.title}><table class="numbers steps"><thead><tr><td></td>${part.columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${part.rows.map((row) => html`<tr class=${isLit(row) ? "lit" : ""}><th scope="row">${seen(row.name)}</th>${row.numbers.map((one) => html`<td>${shown(one)}</td>`)}</tr>`)}</tbody></table></div>`
      : html`<ul class="equations">${part.rows.map((row) => html`<li class=${isLit(row) ? "lit" : ""}><b>${row.name}</b>
        <span class="equation">${row.numbers[0].equation ? `= ${row.numbers[0].equation}` : ""}</span>${shown(row.numbers[0])}</li>`)}</ul>`}
    ${part.rows.some((row) => row.numbers.some((one) => one.id === chosen)) && html`<div class="below">${card}</div>`}</section>`;
}

// The chosen number: its equation, the same in numbers, and what it is made of.
function Card({ found, one, onChoose }) {
  if (!one) return html`<div class="card soft" aria-live="polite"><p>Click a number: its equation and the numbers it is made of light up.</p></div>`;
  const parts = one.of.map((id) => found.get(id)).filter((part) => part && part.value !== null);
  return html`<div class="card" aria-live="polite"><p class="name">${one.row}${one.column ? html` <span class="soft">${one.column}</span>` : ""}</p>
    ${one.equation && html`<p class="line">= ${one.equation}</p>`}${one.numbers && html`<p class="line">= ${one.numbers}</p>`}
    <p class="line value">= <span data-value>${brief(one.value)}</span></p>
    ${parts.length > 0 && html`<p class="small soft">made of</p><ul>${parts.slice(0, 12).map((part) => html`<li key=${part.id}><button type="button" onClick=${() => onChoose(part.id)}>${part.column ? `${part.column}, ${part.row}` : part.row}</button> ${brief(part.value)}</li>`)}${parts.length > 12 && html`<li class="soft">and ${parts.length - 12} more</li>`}</ul>`}</div>`;
}

export default function Step({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const asked = {};
  for (const name of OPTIONS) if (/^\d+$/.test(options[name] ?? "")) asked[name] = Number(options[name]);
  if (asked.token === undefined && asked.rank === undefined) asked.rank = 1; // after the text: the likeliest
  const body = (more) => ({ model: model.name, text, ...asked, ...more, stamp: undefined });
  const answer = useAsk(...(model ? [PATH, body()] : [null]), model?.stamp);
  const data = answer.values?.data;
  const pick = options.number ?? null;
  const set = (part, push) => change({ options: part }, push);
  const found = useMemo(() => {
    const all = new Map();
    for (const part of data?.parts ?? []) for (const row of part.rows) row.numbers.forEach((one, i) => all.set(one.id, { ...one, row: row.name, column: part.columns[i] }));
    return all;
  }, [data]);
  const one = found.get(pick) ?? null;
  const lit = useMemo(() => new Set(one?.of ?? []), [one]);
  const count = data?.tokens.length ?? 0;
  const at = data ? data.number - 1 : 0;
  useEffect(() => { // so that the next and the previous token are there at once
    if (!data || answer.waiting) return undefined;
    const ended = new AbortController();
    (async () => {
      for (const near of [data.number + 1, data.number - 1]) {
        if (near >= 1 && near <= count) await askOnce(PATH, body({ token: near }), { signal: ended.signal }).catch(() => null);
      }
    })();
    return () => ended.abort();
  }, [data, answer.waiting]);
  const go = (i) => set({ token: i + 1 === count ? null : i + 1, rank: null });
  const card = html`<${Card} found=${found} one=${one} onChoose=${(id) => set({ number: id })} />`; // beside the numbers, or below them where there is no room
  const flags = Object.entries(asked).map(([name, value]) => [name, value]);
  return html`<h1>Step by step</h1>
    <p class="soft">One prediction with its real numbers, from what was read to the probability of the next token. Every number opens its formula.</p>
    <${TextBox} rows=${2} value=${text} onChange=${(value) => change({ text: value, options: { token: null, rank: null } })} />
    <div class="controls" data-unsaved>
      <${Choice} label="model" value=${model?.name} choices=${models.map((each) => [each.name, each.name])} onChange=${(name) => change({ models: [name], options: { layer: null, head: null, unit: null, rank: null, number: null } })} />
      ${data?.layers?.length > 1 && html`<${Choice} label="layer" value=${String(data.layer)} choices=${data.layers.map((name, i) => [String(i), String(i)])} onChange=${(i) => set({ layer: i })} />`}
      ${data?.heads > 1 && html`<${Choice} label="head" value=${String(data.head)} choices=${[...Array(data.heads).keys()].map((i) => [String(i), String(i)])} onChange=${(i) => set({ head: i })} />`}
      ${data?.units > 1 && html`<${Slider} label=${data.family === "gpt" ? "number of the head" : "unit"} min="0" max=${data.units - 1} value=${data.unit} onChange=${(i) => set({ unit: i })} />`}
    </div>
    ${!model && html`<p class="soft">There is no language model here.</p>`}
    <${Said} answer=${answer} />
    ${data && html`<div class="walk" data-unsaved><button type="button" disabled=${at === 0} onClick=${() => go(at - 1)}>‹ previous</button>
        <span class="where">token ${data.number} of ${count}</span><button type="button" disabled=${at === count - 1} onClick=${() => go(at + 1)}>next ›</button></div>
      <${Tokens} tokens=${data.tokens} joiner=${data.joiner} at=${at} onPick=${go} />
      <p class="answer">${FAMILIES[data.family] ? html`<b>${model.name}</b> is ${FAMILIES[data.family]}. ` : ""}It gives <code>${seen(data.token)}</code> the probability${" "}
        <b data-probability>${brief(data.probability)}</b>, which is ${number(data.bits, 2)} bits, rank ${data.rank.toLocaleString("en")}${data.token === data.came ? "; it is what came" : ""}.</p>
      <div class="stepped"><div>
        ${data.parts.map((part, i) => html`<${Part} key=${part.title} ...${{ part, i, lit, chosen: pick, card, onChoose: (id) => set({ number: id }) }} />`)}
        ${data.parts.length === 0 && html`<p class="soft">${answer.values.summary.at(-1)}</p>`}
        <section class="part" aria-label="What comes next"><h2><span class="ordinal" aria-hidden="true">${data.parts.length + 1}</span>What comes next</h2>
          <p class="soft">The same for every token; the five likeliest. Click one to see where its probability comes from.</p>
          <${Bars} label="the likeliest next tokens" whole=${Math.max(data.next[0]?.[1] ?? 1, 0.05)} rows=${data.next.map(([name, share], i) => ({ key: i, name: seen(name), value: share, title: "explain this one", onClick: () => set({ rank: i + 1 }) }))} />
          ${asked.rank && at < count - 1 && html`<p><button type="button" data-unsaved onClick=${() => set({ rank: null })}>explain what came: ${seen(data.came)}</button></p>`}
          ${at === count - 1 && html`<p class="small"><a href=${written({ view: "next", models: [model.name], text })}>The same on the board</a></p>`}</section>
      </div><aside aria-label="The chosen number">${card}</aside></div>
      ${answer.values.summary.slice(1).map((line) => html`<p class="soft">${line}</p>`)}`}
    ${model && html`<${Signature} view="step" models=${[model]} text=${text}
      terminal=${[command("inspect prediction", [model.path, text], flags.map(([name, value]) => ` --${name} ${value}`).join(""))]}
      python=${["import seqloom", `seqloom.inspect.prediction(seqloom.load(${inPython(model.path)}), ${inPython(text)}${flags.map(([name, value]) => `, ${name}=${value}`).join("")}).data`]} />`}`;
}
