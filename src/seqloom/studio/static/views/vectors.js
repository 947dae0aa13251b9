// Vectors of words, or of the lines of a text: a plane, neighbours, analogies, similarity, and how far words lean.
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { None } from "../parts/none.js";
import { useWidth } from "../parts/plots.js";
import { Bars, Folded, Said, Table, number } from "../parts/shown.js";
import { Signature, command, inPython, inShell } from "../parts/signature.js";

const NEAR = 12;
const cosine = (value) => value.toFixed(3);
const short = (name) => (name.length > 28 ? `${name.slice(0, 27)}…` : name);

// Points with names where there is room: `marked` are words by what they are; `arrows`: pairs of words.
function Plane({ words, marked, arrows, close, onPick, label }) {
  const [place, width] = useWidth();
  const [over, setOver] = useState(null);
  const height = Math.round(Math.min(520, Math.max(300, width * 0.6)));
  const spots = useMemo(() => {
    const near = close ? words.filter((one) => marked.has(one.word)) : words;
    const [xs, ys] = [near.map((one) => one.x), near.map((one) => one.y)];
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const inside = words.filter((one) => one.x >= left && one.x <= right && one.y >= low && one.y <= high);
    const at = new Map(inside.map((one) => [one.word, { word: one.word, x: 24 + ((one.x - left) / (right - left || 1)) * (width - 90), y: height - 18 - ((one.y - low) / (high - low || 1)) * (height - 36) }]));
    const taken = [];
    const rank = (word) => ["near", "part", "found", "one"].indexOf(marked.get(word));
    const order = [...inside].sort((a, b) => rank(b.word) - rank(a.word));
    for (const { word } of order) {
      const spot = at.get(word);
      const box = [spot.x + 5, spot.y - 9, spot.x + 11 + 6.9 * short(word).length, spot.y + 6];
      spot.left = box[2] > width; // no room on the right
      if (spot.left) [box[0], box[2]] = [spot.x - 11 - 6.9 * short(word).length, spot.x - 5];
      const must = ["one", "part", "found"].includes(marked.get(word));
      spot.named = must || !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
      if (spot.named) taken.push(box);
    }
    return at;
  }, [words, width, height, marked, close]);
  const shown = over !== null && spots.get(over);
  const spotOf = (event) => event.target.dataset?.word ?? null;
  return html`<div ref=${place}><svg class="plane" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}
      onPointerOver=${(event) => setOver(spotOf(event))} onPointerLeave=${() => setOver(null)} onClick=${(event) => spotOf(event) !== null && onPick(spotOf(event))}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${arrows.filter(([from, to]) => spots.has(from) && spots.has(to)).map(([from, to], i) => html`<line key=${i} class="arrow" x1=${spots.get(from).x} y1=${spots.get(from).y} x2=${spots.get(to).x} y2=${spots.get(to).y} marker-end="url(#tip)" />`)}
    ${[...spots.values()].map((spot) => html`<g key=${spot.word} class=${marked.get(spot.word) ?? ""}><circle cx=${spot.x} cy=${spot.y} r=${marked.has(spot.word) ? 4.5 : 3} data-word=${spot.word} /><circle class="reach" cx=${spot.x} cy=${spot.y} r="9" data-word=${spot.word} />
      ${spot.named && html`<text x=${spot.x + (spot.left ? -7 : 7)} y=${spot.y + 4} text-anchor=${spot.left ? "end" : "start"}>${short(spot.word)}</text>`}</g>`)}
    ${shown && !shown.named && html`<text class="over" x=${Math.min(shown.x + 7, width - 7 * short(shown.word).length)} y=${shown.y - 7}>${short(shown.word)}</text>`}</svg></div>`;
}

function Word({ label, value, onChange, list, broad }) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  return html`<label class=${broad ? "field broad" : "field"}>${label}<br /><input type="text" list=${list} value=${draft} onInput=${(event) => setDraft(event.target.value)} onChange=${(event) => onChange(event.target.value.trim())} /></label>`;
}

// Bars to both sides of a middle.
const Leans = ({ leans, ends }) => {
  const most = Math.max(...leans.map(([, value]) => Math.abs(value)), 1e-9);
  return html`<p class="legend"><span>← ${ends[1]}</span><span>${ends[0]} →</span></p><ul class="leans" aria-label=${`leaning towards ${ends[0]} or ${ends[1]}`}>${leans.map(([word, value]) => html`<li key=${word}><span class="name">${word}</span>
    <span class="track" aria-hidden="true"><span class=${value > 0 ? "right" : "left"} style=${{ width: `${(50 * Math.abs(value)) / most}%` }}></span></span><span class="value">${value > 0 ? "+" : ""}${cosine(value)}</span></li>`)}</ul>`;
};

export default function Vectors({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const set = (part) => change({ options: part });
  const ofTexts = model?.task === "sentence vectors";
  const [a, b, c] = [options.a ?? "", options.b ?? "", options.c ?? ""];
  const top = Math.max(10, Math.min(1000, Number(options.top ?? 200)));
  const method = options.method === "tsne" ? "tsne" : "pca";
  const lines = useMemo(() => [...new Set(text.split("\n").filter((line) => line.trim()))], [text]);
  const question = a && b && c && !ofTexts;
  const analogy = useAsk(...(question ? ["/analogy", { model: model.name, inputs: [[a, b, c]], number: 8 }] : [null]), model?.stamp);
  const answers = question ? analogy.values?.results[0].answers ?? [] : [];
  const word = options.w ?? (ofTexts ? lines[0] : "") ?? "";
  const nearest = useAsk(...(model && word ? ["/nearest", { model: model.name, inputs: [word], number: NEAR, ...(ofTexts ? { among: lines.filter((line) => line !== word) } : {}) }] : [null]), model?.stamp);
  const near = word && (!ofTexts || lines.includes(word)) ? nearest.values?.results[0].nearest ?? [] : [];
  const extra = ofTexts ? [] : [...new Set([word, a, b, c, answers[0]?.text, ...near.map((one) => one.text)].filter(Boolean))];
  const mapped = useAsk(...(model && (!ofTexts || lines.length > 1) ? ["/studio/plane", { model: model.name, method, ...(ofTexts ? { text } : { top, words: extra }) }] : [null]), model?.stamp);
  const words = mapped.values?.words ?? [];
  const [pairA, pairB] = [options.from ?? "", options.to ?? ""];
  const leaned = (options.lean ?? "").split(/[\s,]+/).filter(Boolean);
  const lean = useAsk(...(model && !ofTexts && pairA && pairB && leaned.length ? ["/studio/leaning", { model: model.name, pair: [pairA, pairB], words: leaned }] : [null]), model?.stamp);
  const two = options.u && options.v;
  const alike = useAsk(...(model && two ? ["/similarity", { model: model.name, inputs: [[options.u, options.v]] }] : [null]), model?.stamp);
  const marked = useMemo(() => new Map([...near.map((one) => [one.text, "near"]), ...(answers[0] ? [[a, "part"], [b, "part"], [c, "part"], [answers[0].text, "found"]] : []), ...(word ? [[word, "one"]] : [])]), [near, answers, word, a, b, c]);
  if (!model) return html`<${None} title="Vectors" what="model of word or sentence vectors" command="seqloom fit word2vec text.txt -o model" />`;
  const pick = (next) => set({ w: next });
  const load = `seqloom.load(${inPython(model.path)})`;
  return html`<h1>Vectors</h1>
    <p class="soft">${ofTexts ? "Each line of the text is a point; near means alike." : "Words that stand in like places get like vectors. Click a word for its neighbours; ask what is to one word as a second is to a third."}</p>
    <div class="controls"><${Choice} label="model" value=${model.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name] })} />
      ${!ofTexts && html`<${Word} key="w" label="word" list="known" value=${word} onChange=${(value) => set({ w: value || null })} />`}
      ${!ofTexts && html`<${Slider} label="frequent words drawn" min="10" max="1000" step="10" value=${top} onChange=${(value) => set({ top: value === 200 ? null : value })} />`}
      <${Choice} label="plane" value=${method} choices=${[["pca", "principal components"], ["tsne", "t-SNE"]]} onChange=${(value) => set({ method: value === "pca" ? null : value })} />
      ${marked.size > 1 && html`<label class="tick"><input type="checkbox" checked=${options.close === "1"} onChange=${(event) => set({ close: event.target.checked ? "1" : null })} /> closer</label>`}</div>
    ${!ofTexts && html`<datalist id="known">${words.slice(0, 300).map((one) => html`<option key=${one.word} value=${one.word}></option>`)}</datalist>`}
    ${ofTexts && html`<${TextBox} label="Lines" rows=${5} value=${text} onChange=${(value) => change({ text: value, options: { w: null } })} />`}
    <${Said} answer=${mapped} />
    ${mapped.values?.unknown.map((one) => html`<p class="error" role="alert" key=${one}>The model has no vector of ${one}.</p>`)}
    ${words.length > 1 && html`<${Plane} words=${words} marked=${marked} arrows=${answers[0] ? [[a, b], [c, answers[0].text]] : []} close=${options.close === "1" && marked.size > 1} onPick=${pick} label=${`${words.length} points; neighbours are listed below`} />
      <p class="soft small">${mapped.values.summary[0]}. Far apart here is far apart; near here may still be far in the other directions.</p>`}
    <div class="columns">
      <section class="column long" aria-label="neighbours"><h2>${word ? html`Near <code>${short(word)}</code>` : "Near"}</h2>
        ${!word && html`<p class="soft">Click a word of the plane, or write one.</p>`}<${Said} answer=${word ? nearest : {}} />
        ${near.length > 0 && html`<${Bars} label=${`nearest to ${word}`} shown=${cosine} rows=${near.map((one) => ({ key: one.text, name: short(one.text), title: one.text, value: Math.max(0, one.cosine), onClick: () => pick(one.text) }))} />`}</section>
      ${!ofTexts && html`<section class="column" aria-label="analogy"><h2>a is to b as c is to ...</h2>
        <div class="controls" data-unsaved><${Word} label="a" list="known" value=${a} onChange=${(value) => set({ a: value || null })} /><${Word} label="b" list="known" value=${b} onChange=${(value) => set({ b: value || null })} /><${Word} label="c" list="known" value=${c} onChange=${(value) => set({ c: value || null })} /></div>
        ${!question && html`<p class="soft">Such as man, king, woman: the words nearest to b − a + c.</p>`}<${Said} answer=${question ? analogy : {}} />
        ${answers.length > 0 && html`<${Bars} label="answers" shown=${cosine} rows=${answers.map((one) => ({ key: one.text, name: short(one.text), value: Math.max(0, one.score), onClick: () => pick(one.text) }))} />`}</section>`}
      <section class="column" aria-label="similarity"><h2>How alike are two ${ofTexts ? "texts" : "words"}?</h2>
        <div class="controls" data-unsaved><${Word} label="one" list="known" value=${options.u ?? ""} onChange=${(value) => set({ u: value || null })} /><${Word} label="the other" list="known" value=${options.v ?? ""} onChange=${(value) => set({ v: value || null })} /></div>
        <${Said} answer=${two ? alike : {}} />${two && alike.values && html`<p><span class="big" data-cosine>${cosine(alike.values.results[0].cosine)}</span> <span class="soft">the cosine of their vectors</span></p>`}</section>
      ${!ofTexts && html`<section class="column" aria-label="leaning"><h2>Which way do words lean?</h2>
        <div class="controls" data-unsaved><${Word} label="one end" list="known" value=${pairB} onChange=${(value) => set({ to: value || null })} /><${Word} label="other end" list="known" value=${pairA} onChange=${(value) => set({ from: value || null })} /><${Word} label="words" broad value=${options.lean ?? ""} onChange=${(value) => set({ lean: value || null })} /></div>
        ${!(pairA && pairB && leaned.length) && html`<p class="soft">Such as from she to he, and some professions: the cosine of each word with that direction.</p>`}
        <${Said} answer=${pairA && pairB && leaned.length ? lean : {}} />
        ${lean.values && html`<${Leans} ends=${[pairA, pairB]} leans=${Object.entries(lean.values.leans).map(([name, values]) => [name, values[0]])} />`}</section>`}
    </div>
    <${Folded} title="The points"><${Table} label="points" columns=${[{ title: ofTexts ? "line" : "word", of: (row) => short(row.word) }, { title: "x", of: (row) => number(row.x), sort: (row) => row.x }, { title: "y", of: (row) => number(row.y), sort: (row) => row.y }]} rows=${words.slice(0, 1000).map((one) => ({ ...one, name: one.word }))} /><//>
    <${Signature} view="vectors" models=${[model]} text=${ofTexts ? text : null} seed=${method === "tsne" ? 0 : null}
      terminal=${[...(word && !ofTexts ? [command("nearest", [model.path, word], ` -n ${NEAR}`)] : []), ...(question ? [command("analogy", [model.path, a, b, c])] : []), `curl -s ${location.origin}/studio/plane -d ${inShell(JSON.stringify({ model: model.name, method, ...(ofTexts ? { text } : { top, words: extra }) }))}`]}
      python=${["import seqloom", `model = ${load}`, ...(ofTexts ? (lines.length > 1 ? [`seqloom.inspect.word_map(model, ${inPython(lines)}, method=${inPython(method)}).data`] : []) : [`from seqloom.views.word_vectors import first_words${lean.values ? ", leaning_along" : ""}`, `seqloom.inspect.word_map(model, {"asked": ${inPython(extra)}, "": first_words(model, ${top})}, method=${inPython(method)}).data`]),
        ...(word && !ofTexts ? [`model.nearest(${inPython(word)}, ${NEAR})`] : []), ...(question ? [`model.analogy(${inPython(a)}, ${inPython(b)}, ${inPython(c)}, 8)`] : []), ...(word && ofTexts ? [`model.nearest(${inPython(word)}, ${NEAR}, among=[${lines.filter((line) => line !== word).map(inPython).join(", ")}])`] : []), ...(two ? [`model.similarity(${inPython(options.u)}, ${inPython(options.v)})`] : []), ...(lean.values ? [`leaning_along(model, [(${inPython(pairA)}, ${inPython(pairB)})], ${inPython(leaned)}).data`] : [])]} />`;
}
