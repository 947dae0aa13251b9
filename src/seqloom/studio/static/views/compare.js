// The comparison: its answer, held-out lines that cool from the worst model to the best, rungs with intervals, the
// front of size and quality, learning curves; and comparisons of one's own files.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { askOnce, useAsk, useAsked } from "../parts/ask.js";
import { written } from "../parts/address.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { Curves } from "../parts/curves.js";
import { chosenFirst, form, ladder, ordered } from "../parts/ladder.js";
import { Card, Rungs, bytes, ends } from "../parts/rungs.js";
import { Front } from "../parts/front.js";
import { Starter } from "../parts/starter.js";
import { Bars, Coloured, Legend, Said, Table, heat, number, visible } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

const CURVES = 8; // that are told apart by colour
const ROWS = 6, EVERY = 420; // bars of a model; milliseconds between two models of the walk
const question = (model, text) => ["/studio/passage", { model: model.name, text, top: 1, excerpt: true, stamp: model.stamp }];

// Which piece holds a character, and where a piece begins.
export function placed(pieces, offset) {
  let begin = 0;
  for (let i = 0; i < pieces.length; i++) {
    if (offset < begin + pieces[i].text.length) return [i, begin];
    begin += pieces[i].text.length;
  }
  return [null, begin];
}

function Place({ models, prompt, views, change }) {
  const answers = useAsked(models.map((model) => ["/studio/next", { model: model.name, text: prompt, stamp: model.stamp }]));
  const steps = views.find((view) => view.name === "step");
  const names = models.map((model) => model.name);
  return html`<section class="place" aria-label="Next characters at this place"><h2>After <q>${visible(prompt.split("\n").at(-1).slice(-24))}</q>
      <a href=${written({ view: "next", models: names, text: prompt, options: { by: "characters" } })}>on the board</a>
      <button type="button" class="quiet" data-unsaved onClick=${() => change({ options: { at: null } })}>close</button></h2>
    <div class="columns small">${models.map((model, i) => html`<section key=${model.name} class="column" data-model=${model.name}><header><h3>${model.name}</h3></header>
      <${Said} answer=${answers[i] ?? {}} />${answers[i]?.values && html`<${Bars} label=${`next characters by ${model.name}`} whole=${Math.max(0.05, Math.exp(answers[i].values.characters[0]?.[1] ?? 0))}
        rows=${answers[i].values.characters.slice(0, ROWS).map(([text, score], at) => ({ key: text, name: visible(text), value: Math.exp(score), ghost: 0,
          why: at === 0 && steps?.fits(model) ? written({ view: "step", models: [model.name], text: prompt }) : null }))} />`}</section>`)}</div></section>`;
}

// The slider from the worst model to the best, and the text that it cools.
function Cooling({ rungs, current, all, text, heldOut, options, comparison, views, change }) {
  const [at, setAt] = useState(null);
  const [walking, setWalking] = useState(false);
  const answer = useAsk(...question(current, text));
  const step = rungs.indexOf(current);
  const latest = useRef(step);
  latest.current = step;
  const go = (i) => change({ models: [rungs[i].name] });
  useEffect(() => { // the whole ladder, so that the slider moves at once
    const ended = new AbortController();
    (async () => {
      for (const one of rungs) if (!ended.signal.aborted) await askOnce(...question(one, text), { signal: ended.signal }).catch(() => null);
    })();
    return () => ended.abort();
  }, [rungs, text]);
  useEffect(() => {
    if (!walking) return undefined;
    const timer = setInterval(() => (latest.current + 1 < rungs.length ? go(latest.current + 1) : setWalking(false)), EVERY);
    return () => clearInterval(timer);
  }, [walking, rungs]);
  const found = answer.values;
  const picked = options.at === undefined ? null : Math.max(0, Math.min(text.length, Number(options.at) || 0));
  const [marked, begin] = found && picked !== null ? placed(found.pieces, picked) : [null, 0];
  const board = useMemo(() => [...new Set([current, ...chosenFirst(all.filter((model) => rungs.includes(model)), comparison)])].slice(0, 4), [current, rungs, comparison]);
  const pick = (i) => change({ options: { at: found.pieces.slice(0, i).reduce((sum, piece) => sum + piece.text.length, 0) } });
  const pointed = found?.pieces[at ?? marked];
  return html`<div class="controls" data-unsaved><${Slider} label=${`from ${rungs[0].name} to ${rungs.at(-1).name}`} min="0" max=${rungs.length - 1} value=${step} shown=${(i) => rungs[i].name} onChange=${(i) => (setWalking(false), go(i))} />
      <button type="button" onClick=${() => (go(0), setWalking(true))}>Learn ▸</button></div>
    ${found && html`<p class="reading"><span class="big" data-bits>${number(found.bytes ? found.bits / found.bytes : found.bits / Math.max(1, found.pieces.length))}</span> bits per ${found.bytes ? "byte" : "token"} of these lines <span class="soft">with ${found.model}</span></p>`}
    <${Said} answer=${answer} />
    ${found && html`<${Coloured} label="held-out lines, coloured by their cost" pieces=${found.pieces} at=${at ?? marked} onAt=${setAt} onPick=${pick}
        colour=${(piece) => heat((piece.bits ?? 99) / Math.max(1, piece.weight))} />
      <p class="legends"><${Legend} levels=${[1, 2, 4, 8]} unit=${found.bytes ? "bits per byte" : "bits"} /><span class="soft small">${pointed ? html`<code>${visible(pointed.text)}</code> ${number(pointed.bits, 1)} bits` : "Click a word that stays red."}</span></p>`}
    ${found && picked !== null && html`<${Place} models=${board} prompt=${text.slice(0, begin)} views=${views} change=${change} />`}
    <details data-unsaved><summary>Another text</summary><${TextBox} value=${text} onChange=${(value) => change({ text: value, options: { at: null } })} />
      ${text !== heldOut && html`<button type="button" onClick=${() => change({ text: null, options: { at: null } })}>The held-out lines again</button>`}</details>`;
}

// Curves of the models on the front and of the chosen one; of many, the others stay behind them.
function LessData({ comparison, at }) {
  const unit = comparison.size_unit ?? "", curve = Object.entries(comparison.curve ?? {}).filter(([, points]) => points.length > 1);
  if (!curve.length) return null;
  const first = [...new Set([at, comparison.best, ...(comparison.front ?? []).toReversed()])].filter((name) => curve.some(([one]) => one === name));
  const shown = curve.length > CURVES ? first.slice(0, CURVES) : curve.map(([name]) => name);
  const series = curve.sort(([a], [b]) => shown.includes(a) - shown.includes(b)).map(([name, points]) => ({ name, hue: Math.max(0, shown.indexOf(name)), faint: !shown.includes(name), dots: shown.includes(name), points: points.map((point) => [point[unit], point[comparison.measure]]) }));
  return html`<section><h2>With less data</h2><${Curves} series=${series} label="learning curves" xLabel=${`${unit} of training data`} yLabel=${comparison.measure_title} logX table height=${290} shown=${(value) => form(comparison.measure_form, value)} /></section>`;
}

export default function Compare({ comparison, comparisons, training, all, models, chosen, text, heldOut, options, views, change }) {
  const found = comparison ?? { rungs: [] };
  const measure = found.measure ?? "", shown = (value) => form(found.measure_form, value);
  const answer = (found.answer?.text ?? "").replace(/ To use the best:$/, "");
  const rows = useMemo(() => ordered(found), [comparison]);
  const known = new Map(all.map((model) => [model.name, model]));
  const rungs = useMemo(() => ladder(models.filter((model) => model.task === "language model"), found), [models, comparison]);
  const reads = found.is_text !== false && rungs.length > 0;
  const named = chosen[0] && rows.find((row) => row.model === chosen[0].name);
  const row = named ?? rows.find((one) => one.name === found.best) ?? rows.at(-1);
  const current = rungs.find((model) => model.name === row?.model) ?? rungs.find((model) => model === chosen[0]) ?? rungs.at(-1);
  const others = all.filter((model) => !rows.some((one) => one.model === model.name));
  const opened = text === heldOut ? null : text;
  const pick = (one) => known.has(one.model) && change({ models: [one.model] });
  const path = known.get(row?.model)?.path;
  const cells = [
    { title: "model", of: (one) => one.name }, { title: found.measure_title ?? measure.replaceAll("_", " "), of: (one) => shown(one[measure]), sort: (one) => one[measure] },
    { title: "interval", of: (one) => (ends(one) ? `${shown(one.interval[0])} to ${shown(one.interval[1])}` : "-") },
    { title: "against the best", of: (one) => (one.versus_best ? `${one.versus_best.difference > 0 ? "+" : ""}${shown(one.versus_best.difference)}` : "-"), sort: (one) => one.versus_best?.difference ?? 0 },
    ...(found.columns ?? []).map((one) => ({ title: one.heading, of: (line) => form(one.form, line[one.key]), sort: (line) => line[one.key] })),
    { title: "parameters", of: (one) => one.parameters?.toLocaleString("en") ?? "-", sort: (one) => one.parameters },
    { title: "size", of: (one) => bytes(one.disk), sort: (one) => one.disk },
    { title: "training", of: (one) => (one.train_seconds == null ? "-" : `${number(one.train_seconds, 1)} s`), sort: (one) => one.train_seconds },
    { title: "memory", of: (one) => bytes(one.peak_memory), sort: (one) => one.peak_memory },
  ];
  const figures = html`<${Front} rows=${rows} comparison=${found} at=${row?.name} onPick=${pick} /><${LessData} comparison=${found} at=${row?.name} />`;
  const spoken = reads ? current : known.get(row?.model);
  return html`<div class="headed"><h1>Compare</h1>
      ${(comparisons ?? []).length > 1 && html`<${Choice} label="comparison" value=${options.c ?? comparisons[0].name} onChange=${(name) => change({ models: [], text: null, options: { c: name === comparisons[0].name ? null : name, at: null } }, true)}
        choices=${comparisons.map((one) => [one.name, `${one.corpus}: ${one.models}`])} />`}</div>
    ${answer && html`<p class="answer">${answer}</p>`}
    ${found.running && !training?.running && html`<p class="note">This comparison was not finished; the same command goes on with it.</p>`}
    <div class=${rows.length ? "hero" : ""}>
      ${reads && html`<section aria-label="Held-out text"><${Cooling} ...${{ rungs, current, all, text, heldOut, options, comparison: found, views, change }} /></section>`}
      ${rows.length > 0 && html`<section aria-label="models compared"><${Rungs} rows=${rows} comparison=${found} at=${row?.name} onPick=${pick} />
        <${Card} row=${row} comparison=${found} model=${known.get(row?.model)} views=${views} text=${opened} /></section>`}
      ${!reads && rows.length > 0 && html`<div>${figures}</div>`}</div>
    ${!rows.length && !training?.running && html`<p class="soft">No comparison is among these models. Start one below, or run <code>seqloom compare</code>.</p>`}
    ${reads && html`<div class="pair">${figures}</div>`}
    ${rows.length > 0 && html`<details><summary>All columns</summary><${Table} label="all columns" columns=${cells} rows=${rows} best=${found.best} /></details>`}
    ${(found.skipped ?? []).length > 0 && html`<details><summary>${found.skipped.length} not trained</summary><ul>${found.skipped.map((one) => html`<li>${one.name}: ${one.reason}</li>`)}</ul></details>`}
    ${others.length > 0 && html`<details open=${!rows.length}><summary>${rows.length ? "Other models" : "Models"} (${others.length})</summary><${Table} label="models"
      columns=${[{ title: "model", of: (one) => one.name }, { title: "task", text: true, of: (one) => one.task }, { title: "kind", text: true, of: (one) => one.kind },
        { title: "open in", text: true, of: (one) => views.filter((view) => view.group !== "home" && view.group !== "learn" && view.fits(one)).map((view, i) => html`${i ? " · " : ""}<a href=${written({ view: view.name, models: [one.name] })}>${view.title}</a>`) }]}
      rows=${others} /></details>`}
    <${Starter} training=${training} />
    <${Signature} view="compare" models=${spoken ? [spoken] : []} text=${reads ? text : null}
      terminal=${current && reads ? [`curl -s ${location.origin}/studio/passage -d ${inShell(JSON.stringify({ model: current.name, text, top: 1, excerpt: true }))}`] : path ? [`seqloom info ${inShell(path)}`] : []}
      python=${current && reads ? ["import seqloom", "from seqloom.studio.following import coloured", `coloured(seqloom.load(${inPython(current.path)}), ${inPython(text)}, 1, excerpt=True)`] : path ? ["import seqloom", `seqloom.load(${inPython(path)})`] : []} />`;
}
