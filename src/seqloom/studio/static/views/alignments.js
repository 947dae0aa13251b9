// A translation: which source token each of its tokens comes from, and the search that found it, step by step.
import { html, useMemo } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { Arcs, MapOf, Tokens, largest, unpacked } from "../parts/maps.js";
import { Bars, Folded, Said, Table, number, share } from "../parts/shown.js";
import { Signature, command, inPython } from "../parts/signature.js";
import { Switch, usePointed } from "./attention.js";

const TOP = 5;
const [WIDE, HIGH] = [104, 46]; // pixels of a place in the tree
const short = (token) => ([...token].length > 9 ? `${[...token].slice(0, 8).join("")}…` : token);

// Places of the tree: {x, y, token, probability, best, becomes, from} of all that the search took up.
function placed(steps) {
  const nodes = [], open = new Map([["0 1", { x: 0, y: 0 }]]);
  steps.forEach((step, at) => {
    let last = 0;
    for (const one of step.hypotheses) for (const candidate of one.candidates) if (candidate.becomes === "open") last = Math.max(last, candidate.number);
    for (const one of step.hypotheses) {
      for (const candidate of one.candidates.filter((each) => each.becomes !== "dropped")) {
        const y = candidate.becomes === "open" ? candidate.number - 1 : last++;
        const node = { x: at + 1, y, from: open.get(`${at} ${one.number}`), step: at + 1, ...candidate };
        nodes.push(node);
        if (candidate.becomes === "open") open.set(`${at + 1} ${candidate.number}`, node);
      }
    }
  });
  return nodes;
}

function Tree({ steps, at, onAt }) {
  const nodes = useMemo(() => placed(steps), [steps]);
  const deep = 1 + Math.max(0, ...nodes.map((node) => node.y));
  const left = ({ x }) => 12 + x * WIDE - 68, middle = ({ y }) => 26 + y * HIGH;
  const width = 12 + (steps.length + 1) * WIDE - 60;
  return html`<div class="wide" tabindex="0" role="region" aria-label="the hypotheses of the search; the numbers are below"><svg class="tree" width=${width} height=${deep * HIGH + 12} role="img" aria-label=${`a tree of ${steps.length} steps`}>
    ${at !== null && html`<rect class="column" x=${left({ x: at + 1 }) - 6} y="2" width=${WIDE - 10} height=${deep * HIGH + 8} rx="8" />`}
    ${nodes.map((node, i) => html`<path key=${`p${i}`} class=${node.best ? "best" : ""} d=${`M${node.from.x ? left(node.from) + 82 : 8},${middle(node.from)} C${left(node) - 10},${middle(node.from)} ${left(node) - 14},${middle(node)} ${left(node)},${middle(node)}`} />`)}
    <circle cx="8" cy=${middle({ y: 0 })} r="4" />
    ${nodes.map((node, i) => html`<g key=${`n${i}`} class=${`node ${node.best ? "best" : ""} ${node.becomes === "open" ? "" : "leaf"}`} transform=${`translate(${left(node)},${middle(node) - 16})`} onClick=${() => onAt(node.step - 1)}>
      <rect width="82" height="32" rx="6" /><text x="41" y="14" text-anchor="middle">${short(node.token)}</text><text class="p" x="41" y="27" text-anchor="middle">${number(node.probability)}${node.becomes === "open" ? "" : ` ${node.becomes}`}</text></g>`)}</svg></div>`;
}

function Step({ step }) {
  return html`<div class="columns steps" aria-live="polite">${step.hypotheses.map((one) => html`<section class="column" key=${one.number} data-hypothesis=${one.number}>
    <header><h3>${one.best ? "★ " : ""}${one.tokens.length ? one.tokens.slice(-6).join(" ") : "(nothing yet)"}</h3><span class="soft small">${number(one.log_prob, 2)} nats</span></header>
    <${Bars} label=${`what may follow in hypothesis ${one.number}`} shown=${number} rows=${one.candidates.map((candidate) => ({ key: candidate.token, name: short(candidate.token), value: candidate.probability, ghost: candidate.probability, cut: candidate.becomes === "dropped", title: candidate.becomes }))} />
    ${one.looks_at.length > 0 && html`<p class="soft small">looks at ${one.looks_at.map((look) => `${look.token} ${number(look.weight, 2)}`).join(", ")}</p>`}</section>`)}</div>
    ${step.ended.map((one, i) => html`<p class="small" key=${i}>${one.finished ? "Ended" : "Cut off"}: <b>${one.text || "(nothing)"}</b>, score ${number(one.score, 4)}</p>`)}`;
}

export default function Alignments({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const beams = Math.max(1, Math.min(8, Number(options.beams ?? 4) || 4));
  const set = (part) => change({ options: part });
  const body = model && { model: model.name, stamp: model.stamp };
  const search = useAsk(...(body && text.trim() ? ["/studio/search", { ...body, text, beams, top: TOP }] : [null]));
  const found = search.values;
  const target = options.target ?? null;
  const read = found ? [text, target ?? found.translation] : null;
  const aligned = useAsk(...(read ? ["/studio/attention", { ...body, text: read, layer: "alignment" }] : [null]));
  const shown = aligned.error ? null : aligned.values;
  const map = useMemo(() => (shown ? unpacked(shown.weights, shown.shape, 16) : null), [shown]);
  const [pointed, setAt] = usePointed(options.at, change, `${model?.name} ${text} ${target} ${beams}`);
  const at = pointed !== null && pointed < Math.max(found?.steps.length ?? 0, shown?.steps.length ?? 0) ? pointed : null;
  const row = map && at !== null && at < map.rows ? map.row(at) : null;
  const top = Math.max(0.02, ...(row ?? [0]));
  const step = found?.steps[at === null ? 0 : Math.min(at, found.steps.length - 1)];
  const load = model ? `seqloom.load(${inPython(model.path)})` : "";
  return html`<h1>Alignments</h1>
    <p class="soft">A translation, the source token behind each of its tokens, and the hypotheses among which it was found.</p>
    <${TextBox} label="Source" rows=${2} value=${text} onChange=${(value) => change({ text: value, options: { at: null } })} />
    <${TextBox} label="Target (empty: the model's own)" rows=${1} value=${target ?? ""} onChange=${(value) => set({ target: value || null, at: null })} />
    <div class="controls" data-unsaved><${Choice} label="model" value=${model?.name} choices=${models.map((each) => [each.name, each.name])} onChange=${(name) => change({ models: [name], options: { at: null } })} />
      <${Slider} label="beams" min="1" max="8" value=${beams} onChange=${(value) => set({ beams: value === 4 ? null : value, at: null })} />
      ${found && found.steps.length > 1 && html`<${Slider} label="step" min="1" max=${found.steps.length} value=${Math.min(found.steps.length, (at ?? 0) + 1)} onChange=${(value) => setAt(value - 1)} />`}</div>
    ${models.length === 0 && html`<p class="soft">No translator is among these models; seqloom fit transformer makes one of pairs.</p>`}
    <${Said} answer=${search} />
    ${found && html`<p class="translation"><b data-translation>${found.translation || "(nothing)"}</b> <span class="soft">score <span data-score>${number(found.score, 4)}</span>, ${number(found.log_prob, 2)} nats${found.finished ? "" : ", cut off"}</span></p>`}
    ${aligned.error ? html`<p class="soft">${aligned.error}</p>` : html`<${Said} answer=${aligned} />`}
    ${shown && map && html`<div class="twin"><div>
        <p class="small soft">${target ? "The target" : "The translation"} comes from ...</p>
        <${Tokens} names=${shown.steps} colour=${() => "transparent"} at=${at !== null && at < shown.steps.length ? at : null} onAt=${setAt} label="the translation; choose a token" />
        <p class="small soft">... the source.</p>
        <${Tokens} names=${shown.keys} colour=${(_, i) => share(row?.[i] ?? 0, top)} at=${null} lead=${false} label="the source, coloured by what is looked at" />
        <div class="detail" aria-live="polite">${row ? html`<p><code>${shown.steps[at]}</code> looks at</p><p>${largest(row, shown.keys)}</p>` : html`<span class="soft">Point at a token of the translation, or go through it with the arrow keys.</span>`}</div>
      </div><div>
        <${Switch} label="picture" value=${options.as ?? "map"} choices=${[["map", "Map"], ["lines", "Lines"]]} onChange=${(value) => set({ as: value === "map" ? null : value })} />
        ${(options.as ?? "map") === "map" ? html`<${MapOf} map=${map} steps=${shown.steps} keys=${shown.keys} size=${shown.size} at=${row ? at : null} onAt=${setAt} label=${`alignment of ${shown.steps.length} target and ${shown.keys.length} source tokens`} />`
          : html`<${Arcs} map=${map} steps=${shown.steps} keys=${shown.keys} itself=${false} at=${row ? at : null} onAt=${setAt} label="lines from each target token to the source tokens that it looks at most" />`}
        <p class="small soft">Mean over all heads that look from the target to the source; darkest ${number(map.most)}.</p></div></div>
      ${shown.size === 1 && map.rows <= 128 && html`<${Folded} title="The weights"><${Table} label="alignment" columns=${[{ title: "looks", of: (line) => line.name }, ...shown.keys.map((name, x) => ({ title: name, of: (line) => number(map.of(line.y, x)) }))]} rows=${shown.steps.map((name, y) => ({ name: `${y + 1} ${name}`, y }))} /><//>`}`}
    ${found && html`<h2>The search</h2><p class="soft">Each column is a step. The ${beams === 1 ? "likeliest continuation goes" : `${beams} likeliest continuations of all hypotheses go`} on; below a token stands its probability. The marked path became the translation.</p>
      <${Tree} steps=${found.steps} at=${at !== null && at < found.steps.length ? at : null} onAt=${setAt} />
      <h3 class="stephead">Step ${step.step}: what each hypothesis might write</h3><${Step} step=${step} />
      <${Folded} title="All steps"><${Table} label="all candidates" columns=${[{ title: "step", of: (line) => line.step }, { title: "after", of: (line) => line.after }, { title: "token", of: (line) => line.token }, { title: "probability", of: (line) => number(line.probability), sort: (line) => line.probability }, { title: "becomes", of: (line) => line.becomes }]}
        rows=${found.steps.flatMap((each) => each.hypotheses.flatMap((one) => one.candidates.map((candidate) => ({ ...candidate, name: `${each.step} ${one.number} ${candidate.token}`, step: each.step, after: one.tokens.slice(-4).join(" ") || "-" })))).slice(0, 1500)} /><//>`}
    ${model && html`<${Signature} view="alignments" models=${[model]} text=${text}
      terminal=${[command("inspect trace", [model.path, text], ` --beams ${beams} --top ${TOP}`), ...(read && shown ? [command("inspect alignment", [model.path, ...read])] : [])]}
      python=${["import seqloom", `seqloom.inspect.trace(${load}, ${inPython(text)}, beams=${beams}, top=${TOP}).data`, ...(read && shown ? [`seqloom.inspect.alignment(${load}, ${read.map(inPython).join(", ")}).data`] : [])]} />`}`;
}
