// Attention: every head beside the others, one head on the text, as a map and as arcs, and what the text costs
// without some heads.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, TextBox } from "../parts/controls.js";
import { Arcs, MapOf, Small, Tokens, largest, unpacked } from "../parts/maps.js";
import { Coloured, Folded, Said, Table, number, share, twoSided, visible } from "../parts/shown.js";
import { Signature, command, inPython, inShell } from "../parts/signature.js";

const BY = [["entropy", "entropy"], ["distance", "distance"], ["cost", "cost without it, bits a token"]];
const SEEN = { "previous": "the token before", "next": "the token after", "itself": "the token itself", "first": "the first token", "same word": "the same word elsewhere", "diagonal": "the neighbourhood", "diffuse": "everything alike", "mixed": "no one pattern" };

export const Switch = ({ label, value, choices, onChange }) => html`<div class="switch" role="group" aria-label=${label}>${choices.map(([one, text]) => html`<button
  type="button" key=${one} aria-pressed=${String(one === value)} onClick=${() => onChange(one)}>${text}</button>`)}</div>`;

// What is pointed at now, written into the address after a pause.
export function usePointed(option, change, key) {
  const told = /^\d+$/.test(option ?? "") ? Number(option) : null;
  const [at, setAt] = useState(told);
  const timer = useRef(0);
  const before = useRef(key);
  useEffect(() => setAt(told), [told]);
  useEffect(() => {
    if (before.current !== key) setAt(null);
    before.current = key;
  }, [key]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return [at, (value) => {
    setAt(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change({ options: { at: value } }), 400);
  }];
}

const mean = (rows, key) => rows.reduce((sum, row) => sum + row[key], 0) / Math.max(rows.length, 1);

function Grid({ found, maps, costs, by, layer, head, off, mode, onPick, onToggle }) {
  const box = useRef(null);
  const layers = found.layers.map((name, i) => ({ name, i, rows: found.rows.filter((row) => row.layer === name) }));
  const gone = (i, one) => off.has(String(i)) || off.has(`${i}.${one}`);
  const most = Math.max(0.01, ...Object.values(costs ?? {}).map(Math.abs));
  const pick = (i, one) => (mode === "off" && found.removable.includes(found.layers[i]) ? onToggle(`${i}.${one}`) : onPick(i, one));
  const key = (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const from = event.target.dataset;
    if (event.key === "x" && from.head !== undefined && found.removable.includes(found.layers[from.layer])) onToggle(`${from.layer}.${from.head}`);
    if (!step || from.head === undefined) return;
    const next = box.current.querySelector(`[data-layer="${Number(from.layer) + step[0]}"][data-head="${Number(from.head) + step[1]}"]`);
    event.preventDefault();
    if (!next) return;
    next.focus();
    onPick(Number(next.dataset.layer), Number(next.dataset.head));
  };
  let count = 0;
  return html`<div class="grid" ref=${box} role="group" aria-label="every head" aria-description="arrow keys go from head to head, x switches one off" onKeyDown=${key}>
    ${layers.map(({ name, i, rows }) => html`<div class="layer" key=${name}>
      <div class="about"><b>${name.replace(".attention", "").replaceAll(".", " ")}</b>entropy ${number(mean(rows, "entropy"), 2)} bits${" "}<br />distance ${number(mean(rows, "distance"), 1)}
        ${found.removable.includes(name) && html`${" "}<br /><button type="button" aria-pressed=${String(off.has(String(i)))} onClick=${() => onToggle(String(i))}>layer off</button>`}</div>
      <div class="heads">${rows.map((row) => {
        const map = maps[count++], is = i === layer && row.head === head, cost = costs?.[`${name} ${row.head}`], tinted = by === "cost" && cost !== undefined;
        const value = by === "cost" ? (cost === undefined ? "" : `${cost > 0 ? "+" : ""}${number(cost, 3)}`) : by === "distance" ? `${number(row.distance, 1)} away` : `${number(row.entropy, 2)} bits`;
        return html`<button type="button" key=${row.head} class=${`head${gone(i, row.head) ? " off" : ""}${tinted ? " tinted" : ""}`} tabindex=${is ? 0 : -1} aria-pressed=${String(is)} data-layer=${i} data-head=${row.head}
          style=${tinted ? { backgroundColor: twoSided(cost, most) } : {}} onClick=${() => pick(i, row.head)}>
          ${map && html`<${Small} map=${map} />`}<span class="said">${`${name}, head ${row.head}${gone(i, row.head) ? ", switched off" : ""}: `}</span><b>${row.pattern}</b>${" "}<span data-value>${value}</span></button>`;
      })}</div></div>`)}</div>`;
}

function Cost({ answer, off, names, task, onClear }) {
  const [at, setAt] = useState(null);
  const data = answer.values?.data;
  const rows = data?.rows ?? [];
  useEffect(() => setAt(null), [answer.values]);
  const most = Math.max(0.5, ...rows.map((row) => Math.abs(row.cost)));
  const glued = task === "language model";
  return html`<section class=${`cost ${answer.waiting ? "stale" : ""}`} aria-label="what it costs"><h2>What it costs to switch ${off.size > 1 ? "these" : "this"} off</h2>
    <p>Off: ${names.join(", ")}. <button type="button" onClick=${onClear}>All on again</button></p>
    <${Said} answer=${answer} />
    ${data && data.cost !== undefined && html`<p><span class="big" data-cost>${data.cost > 0 ? "+" : ""}${number(data.cost, 2)}</span> bits: <span data-without>${number(data["bits without"], 2)}</span> without, ${number(data.bits, 2)} with everything.</p>`}
    ${answer.values?.summary.slice(data?.changed === undefined ? 1 : 0).map((line) => html`<p key=${line}>${line}</p>`)}
    ${rows.length > 1 && html`<p class="legend"><span><i style=${{ backgroundColor: twoSided(4, 4) }}></i>${task === "tagger" ? "its tag changes" : "dearer without"}</span>${task !== "tagger" && html`<span><i style=${{ backgroundColor: twoSided(-4, 4) }}></i>cheaper without</span>`}</p>
      <div class=${`tokens ${glued ? "" : "spaced"}`}><${Coloured} label="the text, coloured by what it costs" pieces=${rows.map((row) => ({ text: row.token }))} colour=${(_, i) => twoSided(rows[i].cost, most)} at=${at} onAt=${setAt} /></div>
      <p class="small soft" aria-live="polite">${at === null || !rows[at] ? "Point at a token." : rows[at].tag !== undefined ? `${visible(rows[at].token)}: ${rows[at].tag}, without ${rows[at]["tag without"]}` : `${visible(rows[at].token)}: ${number(rows[at].bits, 2)} bits, without ${number(rows[at]["bits without"], 2)}`}</p>
      <${Folded}><${Table} label="cost of each token" rows=${rows.slice(0, 1000)} columns=${rows[0].tag !== undefined
        ? [{ title: "word", of: (row) => row.token }, { title: "tag", of: (row) => row.tag }, { title: "without", of: (row) => row["tag without"] }]
        : [{ title: "token", of: (row) => visible(row.token) }, { title: "bits", of: (row) => number(row.bits, 2), sort: (row) => row.bits }, { title: "without", of: (row) => number(row["bits without"], 2) }, { title: "cost", of: (row) => number(row.cost, 3), sort: (row) => row.cost }]} /><//>`}</section>`;
}

export default function Attention({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const pairs = model?.task === "translator" || model?.task === "answerer";
  const read = pairs && options.target ? [text, options.target] : text;
  const set = (part) => change({ options: part });
  const body = model && { model: model.name, text: read, stamp: model.stamp };
  const answer = useAsk(...(body ? ["/studio/heads", body] : [null]));
  const found = answer.values;
  const maps = useMemo(() => found?.maps.map((one) => unpacked(one.shades, one.shape, 8)) ?? [], [found]);
  const first = useMemo(() => found?.rows.find((row) => (pairs ? row.layer.includes("cross") : !["mixed", "diffuse"].includes(row.pattern))) ?? found?.rows[0], [found]);
  const count = found?.layers.length ?? 0;
  const layer = Math.max(0, Math.min(count - 1, options.layer !== undefined ? Number(options.layer) || 0 : found?.layers.indexOf(first?.layer) ?? 0));
  const here = found?.rows.filter((row) => row.layer === found.layers[layer]) ?? [];
  const all = options.head === "mean";
  const head = all ? null : Math.max(0, Math.min(here.length - 1, options.head !== undefined ? Number(options.head) || 0 : options.layer !== undefined ? 0 : first?.head ?? 0));
  const one = useAsk(...(found && here.length ? ["/studio/attention", { ...body, layer, ...(all ? {} : { head }) }] : [null]));
  const shown = one.values;
  const map = useMemo(() => (shown ? unpacked(shown.weights, shown.shape, 16) : null), [shown]);
  const itself = shown && !shown.layer.includes("cross");
  const [pointed, setAt] = usePointed(options.at, change, `${model?.name} ${JSON.stringify(read)}`);
  const at = shown && pointed !== null && pointed < shown.steps.length ? pointed : null;
  const exact = useAsk(...(shown?.size > 1 && at !== null ? ["/studio/attention", { ...body, layer, ...(all ? {} : { head }), step: at }] : [null]));
  const row = at === null || !map ? null : shown.size > 1 ? (exact.values?.step === at ? exact.values.row : null) : map.row(at);
  const average = useMemo(() => {
    if (!map || shown.size > 1) return null;
    const sums = new Array(map.columns).fill(0);
    for (let y = 0; y < map.rows; y++) map.row(y).forEach((weight, x) => (sums[x] += weight / map.rows));
    return sums;
  }, [map]);
  const off = useMemo(() => new Set((options.off ?? "").split(",").filter((name) => /^\d+(\.\d+)?$/.test(name))), [options.off]);
  const list = [...off].sort();
  const clamped = useAsk(...(found?.removable.length && off.size ? ["/studio/inspect/without", { model: model.name, text: read, off: list }] : [null]), model?.stamp);
  const lines = model?.task === "language model" || model?.task === "masked language model";
  const by = options.by === "cost" && !(lines && found?.removable.length) ? "entropy" : options.by ?? "entropy";
  const removal = useAsk(...(by === "cost" && found ? ["/studio/inspect/ablation", { model: model.name, data: { name: "text.txt", content: text } }] : [null]), model?.stamp);
  const costs = useMemo(() => removal.values && Object.fromEntries(removal.values.data.rows.filter((part) => /^\d+$/.test(part.part)).map((part) => [`${part.layer} ${part.part}`, part.bits_cost])), [removal.values]);
  const toggle = (name) => {
    const next = new Set(off);
    if (!next.delete(name)) next.add(name);
    set({ off: [...next].sort().join(",") || null });
  };
  const tint = (values) => {
    const top = Math.max(0.02, ...(values ?? [0]));
    return (_, i) => share(values?.[i] ?? 0, top);
  };
  const which = all ? `mean of ${here.length} heads` : `head ${head}`;
  const pattern = all ? "" : here.find((line) => line.head === head)?.pattern ?? "";
  const stripe = pattern === "stripe" ? `mostly at ${visible(here.find((line) => line.head === head).stripe_token)}` : SEEN[pattern];
  const quoted = [text, ...(Array.isArray(read) ? [read[1]] : [])];
  const python = quoted.length > 1 ? `(${quoted.map(inPython).join(", ")})` : inPython(text);
  const given = model ? [model.path, ...quoted] : [], load = model ? `seqloom.load(${inPython(model.path)}), ${python}` : "";
  const chosenHead = all ? "" : `, head=${head}`;
  return html`<h1>Attention</h1>
    <p class="soft">Where each token looks. Every head has a small map: what looks runs down, what is looked at runs across. Choose one, then point at a token.</p>
    <${TextBox} label=${pairs ? "Source" : "Text"} rows=${2} value=${text} onChange=${(value) => change({ text: value, options: { at: null } })} />
    ${pairs && html`<${TextBox} label="Target (empty: the model's own)" rows=${1} value=${options.target ?? ""} onChange=${(value) => set({ target: value || null, at: null })} />`}
    <div class="controls" data-unsaved>
      <${Choice} label="model" value=${model?.name} choices=${models.map((each) => [each.name, each.name])} onChange=${(name) => change({ models: [name], options: { layer: null, head: null, at: null, off: null } })} />
      <${Choice} label="below each head" value=${by} choices=${BY.filter(([name]) => name !== "cost" || (lines && found?.removable.length))} onChange=${(value) => set({ by: value === "entropy" ? null : value })} />
      ${found?.removable.length > 0 && html`<div><span class="small soft">a click on a head</span><br /><${Switch} label="a click on a head" value=${options.mode ?? "look"} choices=${[["look", "looks at it"], ["off", "switches it off"]]} onChange=${(value) => set({ mode: value === "look" ? null : value })} /></div>`}
    </div>
    ${models.length === 0 && html`<p class="soft">None of these models has attention; gpt, transformer, and classifiers and taggers with a Transformer do.</p>`}
    <${Said} answer=${answer} />
    ${found && html`<div class="desk"><div class="every"><${Grid} found=${found} maps=${maps} costs=${costs} by=${by} layer=${layer} head=${head} off=${off} mode=${options.mode} onPick=${(i, j) => set({ layer: i, head: j })} onToggle=${toggle} />
      ${by === "cost" && html`<${Said} answer=${removal} />`}
      ${found.said.map((line) => html`<p class="soft" key=${line}>${line}</p>`)}
      <${Folded} title=${`All ${found.rows.length} heads in numbers`}><${Table} label="every head" rows=${found.rows.map((line) => ({ ...line, name: `${line.layer} ${line.head}` }))} columns=${[{ title: "head", of: (line) => line.name }, { title: "pattern", of: (line) => line.pattern },
        { title: "entropy", of: (line) => number(line.entropy), sort: (line) => line.entropy }, { title: "of at most", of: (line) => number(line.largest_entropy) }, { title: "distance", of: (line) => number(line.distance, 2), sort: (line) => line.distance },
        ...["previous", "next", "first", "same_word", "diagonal", "stripe"].map((name) => ({ title: name.replace("_", " "), of: (line) => (line[name] === undefined ? "-" : number(line[name], 2)), sort: (line) => line[name] ?? -1 }))]} /><//></div><div class="one">
    ${off.size > 0 && found?.removable.length > 0 && html`<${Cost} answer=${clamped} off=${off} task=${model.task} onClear=${() => set({ off: null })}
      names=${list.map((name) => (name.includes(".") ? `layer ${name.replace(".", ", head ")}` : `all of layer ${name}`))} />`}
      <h2>${found.layers[layer]?.replaceAll(".", " ")}, ${which}${stripe ? html`<span class="soft">: ${stripe}</span>` : ""}</h2>
      <div class="controls" data-unsaved>${here.length > 1 && html`<${Switch} label="which weights" value=${all ? "mean" : "head"} choices=${[["head", "this head"], ["mean", "mean of the layer"]]} onChange=${(value) => set({ head: value === "mean" ? "mean" : null, layer })} />`}
        <${Switch} label="picture" value=${options.as ?? "map"} choices=${[["map", "Map"], ["arcs", "Arcs"]]} onChange=${(value) => set({ as: value === "map" ? null : value })} />
        ${!all && found.removable.includes(found.layers[layer]) && html`<button type="button" aria-pressed=${String(off.has(`${layer}.${head}`))} onClick=${() => toggle(`${layer}.${head}`)}>switch this head off</button>`}</div>
      <${Said} answer=${one} />
    ${shown && map && html`
      ${shown.said.filter((line) => !found.said.includes(line)).map((line) => html`<p class="soft" key=${line}>${line}</p>`)}
      <div class=${one.waiting ? "stale" : ""}>
        ${itself ? html`<${Tokens} names=${shown.keys} colour=${tint(at === null ? average : row)} at=${at} onAt=${setAt} label="the text, coloured by what is looked at" />`
          : html`<p class="small soft">The target looks ...</p><${Tokens} names=${shown.steps} colour=${() => "transparent"} at=${at} onAt=${setAt} label="the target; choose a token" />
            <p class="small soft">... at the source.</p><${Tokens} names=${shown.keys} colour=${tint(at === null ? average : row)} at=${null} lead=${false} label="the source, coloured by what is looked at" />`}
        <div class="detail" aria-live="polite">${at === null ? html`<span class="soft">Coloured by how much all tokens look at each. Point at a token, or go through the text with the arrow keys, to see where it looks.</span>`
          : row === null ? "One moment ..." : html`<p><code>${visible(shown.steps[at])}</code>, token ${at + 1}, looks at</p><p>${largest(row, shown.keys)}</p>`}</div>
        ${(options.as ?? "map") === "map"
          ? html`<${MapOf} map=${map} steps=${shown.steps} keys=${shown.keys} size=${shown.size} at=${at} onAt=${setAt} label=${`weights of ${shown.layer}, ${which}: ${shown.steps.length} tokens look at ${shown.keys.length}`} />
            <p class="small soft">Darkest: ${number(map.most)}${shown.size > 1 ? `; a dot is the largest weight of ${shown.size} × ${shown.size} tokens` : ""}.</p>`
          : html`<${Arcs} map=${map} steps=${shown.steps} keys=${shown.keys} itself=${itself} at=${at} onAt=${setAt} label=${`arcs from each token to those that it looks at most${itself ? ": back at the right, ahead at the left" : ""}`} />`}
      </div>
      ${shown.size === 1 && map.rows <= 128 && html`<${Folded} title="The weights"><${Table} label="weights" columns=${[{ title: "looks", of: (line) => line.name }, ...shown.keys.map((name, x) => ({ title: visible(name), of: (line) => number(map.of(line.y, x)) }))]} rows=${shown.steps.map((name, y) => ({ name: `${y + 1} ${visible(name)}`, y }))} /><//>`}`}</div></div>`}
    ${model && html`<${Signature} view="attention" models=${[model]} text=${text}
      terminal=${[command("inspect heads", given), command("inspect attention", given, ` --layer ${layer}${all ? "" : ` --head ${head}`}`), ...(off.size ? [command("inspect without", given, ` --off ${list.join(",")}`)] : []), ...(by === "cost" ? [`printf %s ${inShell(text)} > text.txt && seqloom inspect ablation ${inShell(model.path)} text.txt --json`] : [])]}
      python=${["import seqloom", `seqloom.inspect.heads(${load}).data["rows"]`, `seqloom.inspect.attention(${load}, layer=${layer}${chosenHead}).data`, ...(off.size ? [`seqloom.inspect.without(${load}, off=${JSON.stringify(list)}).data`] : []), ...(by === "cost" ? [`seqloom.inspect.ablation(seqloom.load(${inPython(model.path)}), ${inPython(text)}).data`] : [])]} />`}`;
}
