// The n-gram explorer: where one probability comes from, what each order has seen after its context, the lines of a
// text behind it, and what another discount would do.
import { html, useMemo, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { FileBox } from "../parts/files.js";
import { None } from "../parts/none.js";
import { Axes, path, useWidth } from "../parts/plots.js";
import { Bars, Folded, Said, Table, number, visible } from "../parts/shown.js";
import { Signature, command, inPython, inShell } from "../parts/signature.js";

const BUNDLED = "data:tinyshakespeare"; // the text that comes with seqloom
const ROWS = 8;
const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const part = (value, digits = 4) => (value === null || value === undefined ? "–" : value.toFixed(digits));

// Which order gave how much: one bar in parts, the longest order darkest.
function Stack({ orders, shares, label }) {
  const total = shares.reduce((sum, share) => sum + Math.max(share, 0), 0) || 1;
  return html`<div class="stack" role="img" aria-label=${label}>${orders.map((order, i) => html`<span key=${order} class=${`order-${Math.min(i, 5)}`} style=${{ width: `${(100 * Math.max(shares[i], 0)) / total}%` }}>${shares[i] / total > 0.07 ? `${order}-gram ${Math.round((100 * shares[i]) / total)}%` : ""}</span>`)}</div>`;
}

function Curve({ rows, own, at, unit }) {
  const [place, width] = useWidth();
  const bits = [...rows.map((row) => row.bits), own.bits];
  const [low, high] = [Math.min(...bits), Math.max(...bits)];
  const room = (high - low) * 0.08 || 0.01;
  return html`<div ref=${place}><${Axes} width=${width} height=${200} x=${[0, 1]} y=${[low - room, high + room]} label=${`held-out bits for each ${unit} by discount`} xLabel="discount" yLabel=${`bits per ${unit}`}>${(across, up) => html`
    <line class="own" x1=${across(0)} x2=${across(1)} y1=${up(own.bits)} y2=${up(own.bits)} /><text x=${across(0) + 4} y=${up(own.bits) - 5}>${own.smoothing}</text>
    <path class="line" d=${path(rows.map((row) => [across(row.discount), up(row.bits)]))} />
    ${at && html`<circle class="here" cx=${across(at.discount)} cy=${up(at.bits)} r="6" />`}`}<//></div>`;
}

function Discount({ model, text, at, options, set, corpus }) {
  const answer = useAsk("/studio/inspect/discounts", { model: model.name, text, ...(corpus ? { corpus } : {}) }, model.stamp);
  const found = answer.values?.data;
  const step = Math.max(0, Math.min(found?.rows.length ?? 100, Number(options.d ?? 0)));
  const row = found && step ? found.rows[step - 1] : null;
  const shares = found ? (row ? found.shares[step - 1] : found.own_shares)[at] : null;
  return html`<h2>If every count lost the same</h2>
    <p class="soft">${found ? `Counted anew in eight tenths of ${corpus?.name ?? "the text that comes with seqloom"}, measured on another tenth. ` : ""}A small discount trusts what was seen, a large one leaves more to shorter contexts.</p>
    <${Said} answer=${answer} />
    ${found && html`<div class="controls" data-unsaved><${Slider} label="discount" min="0" max=${found.rows.length} value=${step} shown=${(i) => (i ? found.rows[i - 1].discount.toFixed(2) : "by the counts")} onChange=${(i) => set({ d: i || null })} />
      <button type="button" onClick=${() => set({ d: found.rows.findIndex((one) => one.discount === found.best) + 1 })}>Best of these</button></div>
      <p><span class="big" data-held>${number(row ? row.bits : found.own.bits, 4)}</span> bits per ${found.unit} of held-out text <span class="soft">${row ? `(${row.bits >= found.own.bits ? "+" : "−"}${Math.abs(row.bits - found.own.bits).toFixed(4)} against ${found.own.smoothing})` : `with ${found.own.smoothing}`}</span></p>
      ${shares ? html`<p>p(<code>${found.tokens[at]}</code>) = <strong data-p>${part(shares.reduce((sum, one) => sum + one, 0), 5)}</strong></p><${Stack} orders=${found.orders} shares=${shares} label="what each order adds with this discount" />` : html`<p class="soft">The shares are told of the first ${found.tokens.length} tokens.</p>`}
      <${Curve} rows=${found.rows} own=${found.own} at=${row} unit=${found.unit} />
      <${Folded}><${Table} label="bits by discount" columns=${[{ title: "discount", of: (one) => one.discount.toFixed(2) }, { title: `bits per ${found.unit}`, of: (one) => number(one.bits, 4), sort: (one) => one.bits },
        ...found.orders.map((order, i) => ({ title: `${order}-grams`, of: (one) => part(shares && found.shares[one.i][at]?.[i], 5) }))]} rows=${found.rows.map((one, i) => ({ ...one, name: i, i }))} /><//>`}`;
}

export default function Ngrams({ models, chosen, text, options, change }) {
  const [file, setFile] = useState(null); // a text to look in; files are not in the address
  const model = chosen[0];
  const set = (part) => change({ options: part });
  const corpus = file ?? (options.lines === "none" ? null : BUNDLED);
  const asked = { model: model?.name, text, continuations: ROWS, ...(options.token ? { token: Number(options.token) } : {}), ...(corpus ? { corpus } : {}) };
  const answer = useAsk(...(model ? ["/studio/inspect/backoff", asked] : [null]), model?.stamp);
  const found = answer.values?.data;
  const rows = useMemo(() => found?.rows.map((row) => ({ ...row, name: row.order })) ?? [], [found]);
  if (!model) return html`<${None} title="n-grams" what="n-gram model" command="seqloom fit ngram text.txt -o model" />`;
  const where = file ? file.name : corpus;
  const push = (next) => change({ text: found.before + next, options: { token: null } }, true);
  const columns = [
    { title: "order", of: (row) => row.order }, { title: "n-gram", of: (row) => row.ngram }, { title: "count", of: (row) => whole(row.count) }, { title: "of", of: (row) => whole(row.total) },
    { title: "kinds", of: (row) => whole(row.continuations) }, { title: "discount", of: (row) => part(row.discount, 3) }, { title: "back-off weight", of: (row) => (row.known_context && row.order > 1 ? part(row.weight, 3) : "–") },
    { title: "own part", of: (row) => part(row.own, 5) }, { title: "share", of: (row) => part(row.share, 5), sort: (row) => row.share },
  ];
  return html`<h1>n-grams</h1>
    <p class="soft">An n-gram model counts. Choose a token: each order of contexts adds a share to its probability.</p>
    <${TextBox} rows=${2} value=${text} onChange=${(value) => change({ text: value, options: { token: null } })} />
    <div class="controls" data-unsaved><${Choice} label="model" value=${model.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name] })} /></div>
    <${Said} answer=${answer} />
    ${found && html`<div class="tokens" role="group" aria-label="tokens">${found.tokens.slice(0, 300).map((token, i) => html`<button key=${i} type="button" aria-pressed=${String(i + 1 === found.number)} aria-label=${`token ${i + 1}: ${token}`} onClick=${() => set({ token: i + 1 })}>${token}</button>`)}</div>
      <p><span class="big" data-p-model>${part(found.probability, 5)}</span> <span class="soft">${answer.values.summary[0]}</span></p>
      <${Stack} orders=${found.rows.map((row) => row.order)} shares=${found.rows.map((row) => row.share)} label="what each order adds" />
      <${Table} label="parts of the probability" columns=${columns} rows=${rows} />
      ${answer.values.summary.slice(1).map((line) => html`<p class="soft small">${line}</p>`)}
      <h2>What may follow, by order</h2><p class="soft">A click goes on with that token. Counts stand behind the bars where the model tells them.</p>
      <div class="columns tight">${found.continuations.filter((one) => one.known > 0).map((one) => html`<section class="column" key=${one.order} aria-label=${`order ${one.order}`}>
        <header><h3>${one.context ? html`after <code>${one.context}</code>` : "after anything"}</h3><span class="soft small">${one.known === 1 ? "1 kind" : `${whole(one.known)} kinds`}${one.total === null ? "" : ` of ${whole(one.total)}`}</span></header>
        <${Bars} label=${`after ${one.context || "anything"}`} whole=${Math.max(one.tokens[0].probability, 0.05)} rows=${one.tokens.map((row) => ({ key: row.token + row.text, name: row.token, title: `${row.count === null ? "" : `counted ${whole(row.count)} times; `}go on with ${visible(row.text)}`, value: row.probability, onClick: () => push(row.text) }))} /></section>`)}</div>
      <h2>The lines behind it</h2>
      <${FileBox} label=${file ? `${file.name}: open another` : "Look in a text of your own"} accept=".txt" onText=${(content, name) => setFile({ name, content })}>
        ${found.places ? html`<p class="soft">${found.places.count ? html`<code>${found.places.ngram}</code> occurs ${found.places.count === 1 ? "once" : `${whole(found.places.count)} times`} in ${file?.name ?? "the text that comes with seqloom"}.` : html`<code>${found.places.ngram}</code> does not occur in ${file?.name ?? "the text that comes with seqloom"}.`}</p>
        <ol class="behind">${found.places.lines.map((line, i) => html`<li key=${i}><small>${found.places.kind} ${whole(line.unit)}</small> <q>${line.text.slice(0, line.at[0])}<mark>${line.text.slice(...line.at)}</mark>${line.text.slice(line.at[1])}</q></li>`)}</ol>` : null}<//>
      <${Discount} model=${model} text=${text} at=${found.number - 1} options=${options} set=${set} corpus=${file} />`}
    <${Signature} view="ngrams" models=${[model]} text=${text}
      terminal=${[command("inspect backoff", [model.path, text], ` --token ${found?.number ?? 1} --continuations ${ROWS}${where ? ` --corpus ${inShell(where)}` : ""}`), command("inspect discounts", [model.path, text], file ? ` --corpus ${inShell(file.name)}` : "")]}
      python=${["import seqloom", `model = seqloom.load(${inPython(model.path)})`, `seqloom.inspect.backoff(model, ${inPython(text)}, token=${found?.number ?? 1}, continuations=${ROWS}${where ? `, corpus=${inPython(where)}` : ""}).data`, `seqloom.inspect.discounts(model, ${inPython(text)}${file ? `, corpus=${inPython(file.name)}` : ""}).data`]} />`;
}
