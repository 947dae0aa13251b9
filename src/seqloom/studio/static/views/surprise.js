// A text coloured by what it costs a model, the difference of two, and a slider over all models: learning cools it.
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { askOnce, useAsk } from "../parts/ask.js";
import { written } from "../parts/address.js";
import { Check, Choice, Slider, TextBox } from "../parts/controls.js";
import { ladder } from "../parts/ladder.js";
import { Coloured, Folded, Legend, Said, Table, heat, number, percent, twoSided, visible } from "../parts/shown.js";
import { Signature, command, inPython } from "../parts/signature.js";

const TOP = 5, PICKS = 5;
const question = (model, text) => ["/studio/passage", { model: model.name, text, top: TOP, stamp: model.stamp }];

function Detail({ piece, before, models }) {
  if (!piece) return html`<div class="detail soft">Point at a piece of the text, or go through it with the arrow keys.</div>`;
  return html`<div class="detail" aria-live="polite"><code>${visible(piece.text)}</code> costs ${number(piece.bits, 2)} bits${piece.weight > 1 ? `, ${number(piece.bits / piece.weight, 2)} a byte` : ""}.
    ${piece.tokens.map((token) => html`<div>${piece.tokens.length > 1 ? html`<code>${token.token}</code> ` : ""}rank ${token.rank.toLocaleString("en")}; expected
      ${token.alternatives.map(([text, share], i) => html`${i ? ", " : " "}<code>${visible(text)}</code> ${percent(share)}`)}</div>`)}
    <a href=${written({ view: "next", models, text: before })}>What comes next here?</a></div>`;
}

export default function Surprise({ models, all, chosen, text, options, comparison, change }) {
  const [at, setAt] = useState(null);
  const [picked, setPicked] = useState(new Set());
  const [open, setOpen] = useState(false);
  const rungs = useMemo(() => ladder(models, comparison), [models, comparison]);
  const model = chosen[0];
  const other = models.find((one) => one.name === options.other && one !== model) ?? null;
  const answer = useAsk(...(model && !other ? question(model, text) : [null]));
  const compared = useAsk(...(model && other ? ["/studio/inspect/difference", { model: model.name, other: other.name, text }] : [null]), `${model?.stamp} ${other?.stamp}`);
  useEffect(() => { // the whole ladder, so that the slider moves at once
    const ended = new AbortController();
    (async () => {
      for (const one of rungs) {
        if (ended.signal.aborted) return;
        await askOnce(...question(one, text), { signal: ended.signal }).catch(() => null);
      }
    })();
    return () => ended.abort();
  }, [rungs, text]);
  useEffect(() => setAt(null), [text, model?.name, other?.name]);
  const first = options.guess === "1" && !other, hidden = first && !open;
  useEffect(() => { // a new text is a new riddle
    setOpen(false);
    setPicked(new Set());
  }, [text, model?.name, first]);
  const pick = (i) => setPicked((old) => new Set(old.has(i) ? [...old].filter((one) => one !== i) : [...old, i].slice(-PICKS)));

  const found = answer.values;
  const places = useMemo(() => (compared.values ? [...compared.values.data.rows].sort((a, b) => a.number - b.number) : null), [compared.values]);
  const largest = compared.values?.data.rows.slice(0, 12) ?? [];
  const step = Math.max(0, rungs.indexOf(model));
  const pieces = other ? places : found?.pieces;
  const costliest = useMemo(() => new Set((found?.pieces ?? []).map((piece, i) => [piece.bits, i]).sort((a, b) => b[0] - a[0]).slice(0, PICKS).map(([, i]) => i)), [found]);
  const colour = hidden ? () => "" : other ? (piece) => twoSided(piece.difference ?? 0, 8) : (piece) => heat((piece.bits ?? 99) / Math.max(1, piece.weight));
  const before = (i) => pieces.slice(0, i).map((piece) => piece.text).join("");
  const perByte = found && found.bytes ? found.bits / found.bytes : null;
  const names = rungs.map((one) => [one.name, one.name]);
  return html`<h1>Surprise</h1>
    <p class="soft">Red costs much, pale little. Drag the slider from the simplest model to the best: what it learns is what cools.</p>
    <${TextBox} rows=${4} value=${text} onChange=${(value) => change({ text: value })} />
    <div class="controls" data-unsaved>
      ${rungs.length > 1 && html`<${Slider} label="model" min="0" max=${rungs.length - 1} value=${step} shown=${(i) => rungs[i].name} onChange=${(i) => change({ models: [rungs[i].name] })} />`}
      <${Choice} label="model" value=${model?.name} choices=${names} onChange=${(name) => change({ models: [name] })} />
      <${Choice} label="less" value=${other?.name ?? ""} choices=${[["", "nothing"], ...names.filter(([name]) => name !== model?.name)]} onChange=${(name) => change({ options: { other: name || null } })} />
      ${!other && html`<${Check} label="guess first" value=${first} onChange=${(v) => change({ options: { guess: v ? 1 : null } })} />`}
    </div>
    ${!model && html`<p class="soft">There is no language model here; <code>seqloom compare</code> trains some.</p>`}
    ${hidden && html`<p>Which ${PICKS} pieces cost ${model?.name} most? Click them, then <button class="primary" type="button" onClick=${() => setOpen(true)}>Show</button> <span class="soft">(${picked.size} picked)</span></p>`}
    ${first && open && html`<p class="note" data-guessed>Of the ${picked.size} that you picked, ${[...picked].filter((i) => costliest.has(i)).length} are among the ${Math.min(PICKS, found?.pieces.length ?? PICKS)} that cost most.</p>`}
    ${!other && !hidden && found && html`<p><span class="big" data-bits>${number(perByte ?? found.bits / Math.max(1, found.pieces.length))}</span> bits per ${perByte === null ? "token" : "byte"} <span class="soft">with ${model.name}</span></p>`}
    ${other && compared.values && html`<p>${compared.values.summary[0]}</p>`}
    <${Said} answer=${other ? compared : answer} />
    ${pieces && html`
      ${other ? html`<p class="legend"><span><i style=${{ backgroundColor: twoSided(6, 8) }}></i>cheaper for ${model.name}</span><span><i style=${{ backgroundColor: twoSided(-6, 8) }}></i>cheaper for ${other.name}</span></p>` : html`<${Legend} unit=${perByte === null ? "bits per token" : "bits per byte"} />`}
      <${Coloured} label="the text, coloured by its cost" pieces=${pieces} colour=${colour} at=${at} onAt=${setAt} picked=${first ? picked : null} onPick=${hidden ? pick : undefined} />
      ${other
        ? html`<div class="detail" aria-live="polite">${at === null || !pieces[at] ? html`<span class="soft">Point at a place of the text.</span>` : html`<code>${visible(pieces[at].text)}</code>: ${number(pieces[at].bits, 2)} bits for ${model.name}, ${number(pieces[at]["bits of other"], 2)} for ${other.name}. <a href=${written({ view: "next", models: [model.name, other.name], text: before(at) })}>What comes next here?</a>`}</div>
          <h2>Largest disagreements</h2><ol class="lists">${largest.map((row) => html`<li key=${row.number}><button type="button" onClick=${() => { setAt(row.number - 1); document.querySelector(`.coloured [data-i="${row.number - 1}"]`)?.scrollIntoView({ block: "center" }); }}>${visible(row.text)}</button> ${row.difference > 0 ? "+" : ""}${number(row.difference, 2)} bits</li>`)}</ol>`
        : !hidden && html`<${Detail} piece=${at === null ? null : pieces[at]} before=${at === null ? "" : before(at)} models=${[model.name]} />
          <${Folded}><${Table} label="cost of each piece" columns=${[{ title: "piece", of: (row) => visible(row.text) }, { title: "bits", of: (row) => number(row.bits, 2), sort: (row) => row.bits }, { title: "rank", of: (row) => row.tokens.map((one) => one.rank).join(" ") }]} rows=${pieces.slice(0, 2000)} /><//>`}
      ${(found?.said ?? []).map((line) => html`<p class="soft">${line}</p>`)}`}
    ${model && html`<${Signature} view="surprise" models=${[model, other].filter(Boolean)} text=${text}
      terminal=${[other ? command("inspect difference", [model.path, other.path, text]) : command("inspect surprisal", [model.path, text], ` --top ${TOP}`)]}
      python=${["import seqloom", other ? `seqloom.inspect.difference(seqloom.load(${inPython(model.path)}), seqloom.load(${inPython(other.path)}), ${inPython(text)}).data` : `seqloom.inspect.surprisal(seqloom.load(${inPython(model.path)}), ${inPython(text)}, top=${TOP}).data`]} />`}`;
}
