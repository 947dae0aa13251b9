// Gates, cell and hidden states of a recurrent network along a text; one unit of it; where else it is like that.
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { Lanes, Traces } from "../parts/lanes.js";
import { Coloured, Folded, Said, Table, number, percent, twoSided, visible } from "../parts/shown.js";
import { Signature, command, inPython } from "../parts/signature.js";

const SIGNED = new Set(["gates.g", "gates.n", "c", "h", "state"]);
const ROWS = 24; // units that are shown first
const LIKE = 8; // places where a unit is alike
const SORTS = {
  memory: ["the longest memory first", (a, b) => b.half_life - a.half_life],
  open: ["most often open first", (a, b) => b.open - a.open],
  closed: ["most often closed first", (a, b) => b.closed - a.closed],
  unit: ["by number", (a, b) => a.unit - b.unit],
};
const short = (name) => name.replace("gates.", "");
const steps = (value) => (value >= 1e4 ? value.toExponential(1) : value >= 100 ? value.toFixed(0) : value.toFixed(1));
const layerName = (name) => {
  const found = /^(.*?)\.?layers\.(\d+)(\.reverse)?$/.exec(name);
  const place = found && { recurrent: "", encoder: "", "encoder.stack": "", "sentences.encoder.stack": "sentences, ", decoder: "decoder, " }[found[1]];
  return found ? `${place ?? `${found[1]}, `}layer ${found[2]}${found[3] ? ", from right to left" : ""}` : name;
};

// What is known of one unit, in a sentence.
function About({ row, data }) {
  const fires = row.fires_on.filter(([token]) => token).map(([token, value]) => `${visible(token)} (${value > 0 ? "+" : ""}${number(value, 2)})`);
  return html`<p data-about>Half of what it holds is left after <b>${steps(row.half_life)}</b> steps. ${data.gated ? "The gate that keeps" : "Its state"} is open at ${percent(row.open)} of the tokens and closed at ${percent(row.closed)}.
    ${fires.length > 0 && html` Farthest from its mean of ${number(row.mean, 2)} it is at ${fires.map((one, i) => html`${i ? ", " : ""}<code>${one}</code>`)}.`}</p>`;
}

function Unit({ model, data, row, values, text, options, comparison, set }) {
  const [at, setAt] = useState(null);
  const by = values.has(options.by) ? options.by : "state";
  const colours = values.get(by);
  const scale = Math.max(1, ...colours.map(Math.abs));
  const pieces = useMemo(() => data.steps.map((step, i) => ({ text: step === "</s>" ? "" : step + (i + 1 < data.steps.length ? data.joiner : "") })), [data]);
  const traces = useMemo(() => [...values].filter(([name]) => name !== "state").map(([name, list]) => {
    const most = name === "c" ? Math.max(1, Math.ceil(Math.max(...list.map(Math.abs)))) : 1;
    return { name: short(name), title: data.lanes[name].title, values: list, low: SIGNED.has(name) ? -most : 0, high: most };
  }), [values, data]);
  const like = /^\d+$/.test(options.like ?? "") && Number(options.like) < data.steps.length ? Number(options.like) : null;
  useEffect(() => setAt(null), [data, row.unit]);
  const colour = SIGNED.has(by) ? (_, i) => twoSided(colours[i], scale) : (_, i) => twoSided(-colours[i], 1);
  return html`<section aria-label=${`unit ${row.unit}`}><h2>Unit ${row.unit}</h2><${About} row=${row} data=${data} />
    <div class="controls" data-unsaved><${Choice} label="the text is coloured by" value=${by} choices=${[...values.keys()].map((name) => [name, name === "state" ? data.followed : data.lanes[name].title])} onChange=${(name) => set({ by: name === "state" ? null : name })} /></div>
    <p class="legend">${SIGNED.has(by) ? html`<span><i style=${{ backgroundColor: twoSided(1, 1) }}></i>above zero</span><span><i style=${{ backgroundColor: twoSided(-1, 1) }}></i>below</span>` : html`<span><i style=${{ backgroundColor: twoSided(-0.02, 1) }}></i>closed</span><span><i style=${{ backgroundColor: twoSided(-1, 1) }}></i>open</span>`}</p>
    <${Coloured} label=${`the text, coloured by unit ${row.unit}`} pieces=${pieces} colour=${colour} at=${at ?? like} onAt=${setAt} onPick=${data.searchable ? (i) => set({ like: i }) : undefined} />
    <div class="detail" aria-live="polite" data-value-at>${at === null ? html`<span class="soft">Point at a token${data.searchable ? "; click it to see where else this unit is like that" : ""}.</span>` : html`<code>${visible(data.steps[at])}</code> ${[...values].map(([name, list]) => html`<span class="pair">${name === "state" ? data.followed : short(name)} ${number(list[at], 3)}</span>`)}`}</div>
    <h3 class="spaced">Its lanes</h3>
    <${Traces} lanes=${traces} at=${at ?? like} label=${`gates and states of unit ${row.unit} along the text`} />
    <${Folded}><${Table} label=${`unit ${row.unit} along the text`} columns=${[{ title: "token", of: (one) => visible(one.token) }, ...traces.map((lane) => ({ title: lane.name, of: (one) => number(lane.values[one.i], 3) }))]} rows=${data.steps.map((token, i) => ({ name: i, i, token }))} /><//>
    ${like !== null && data.searchable && html`<${Like} ...${{ model, data, row, text, options, comparison, set, like }} />`}</section>`;
}

const HELD = { own: "as it is", 0: "held at 0", 1: "held at 1", mean: "held at its mean" };
const KEEPS = { lstm: "f", gru: "z" };

// What a gate is worth: the cost of the text with it held. All gates and values come in one answer.
// Which part is held: all layers, one, or a unit of it, as the library's options say it.
function heldPart(data, options, unit) {
  const scope = options.over === "unit" && unit === null ? "layer" : ["layer", "unit"].includes(options.over) ? options.over : "all";
  const layer = Math.max(0, data.layers.indexOf(data.layer));
  return [scope, { ...(scope === "all" ? {} : { layer }), ...(scope === "unit" ? { unit } : {}) }];
}

const flagged = (values) => Object.entries(values).map(([name, value]) => ` --${name} ${value}`).join("");
const given = (values) => Object.entries(values).map(([name, value]) => `, ${name}=${value}`).join("");

function Clamp({ model, data, text, options, set, unit }) {
  const gates = Object.keys(data.lanes).filter((name) => name.startsWith("gates.")).map(short);
  const [gate, value] = (options.hold ?? "").split("=");
  const chosen = gates.includes(gate) ? gate : KEEPS[data.kind] ?? gates[0];
  const held = value in HELD ? value : "own";
  const [scope, part] = heldPart(data, options, unit);
  const answer = useAsk("/studio/inspect/clamp", { model: model.name, text, ...part }, model.stamp);
  const found = answer.values?.data;
  const row = found?.rows.find((one) => one.gate === chosen && one.value === held);
  const more = useMemo(() => { const costs = found?.costs[`${chosen}=${held}`]; return costs ? costs.map((cost, i) => cost - found.own[i]) : found?.own.map(() => 0); }, [found, chosen, held]);
  const [at, setAt] = useState(null);
  const pieces = useMemo(() => (found?.tokens ?? []).map((token, i) => ({ text: token === "</s>" ? "" : token + (i + 1 < found.tokens.length ? data.joiner : "") })), [found, data]);
  const hold = (name, how) => set({ hold: how === "own" && name === (KEEPS[data.kind] ?? gates[0]) ? null : `${name}=${how}` });
  return html`<section aria-label="holding a gate"><h2>What is a gate worth?</h2>
    <p class="soft">Hold a gate and see what the text costs then. Held at 1, a forget gate forgets nothing; held at 0, everything.</p>
    <div class="controls" data-unsaved>
      <${Choice} label="gate" value=${chosen} choices=${gates.map((name) => [name, data.lanes[`gates.${name}`].title])} onChange=${(name) => hold(name, held)} />
      <fieldset class="picker"><legend>is</legend>${Object.entries(HELD).sort(([a], [b]) => (a === "own" ? -1 : b === "own" ? 1 : 0)).map(([how, title]) => html`<button key=${how} type="button" aria-pressed=${String(how === held)} onClick=${() => hold(chosen, how)}>${title}</button>`)}</fieldset>
      <${Choice} label="in" value=${scope} choices=${[["all", "all layers"], ...(data.layers.length > 1 ? [["layer", layerName(data.layer)]] : []), ...(unit === null ? [] : [["unit", `unit ${unit} alone`]])]} onChange=${(over) => set({ over: over === "all" ? null : over })} />
    </div>
    <${Said} answer=${answer} />
    ${found && html`<p><span class="big" data-held>${number(row ? row.bits : found.bits)}</span> bits a token${row ? html`, <b data-more>${row.more >= 0 ? "+" : ""}${number(row.more)}</b> against its own ${number(found.bits)}` : html` <span class="soft">as it is</span>`}</p>
      ${row && html`<p class="legend"><span><i style=${{ backgroundColor: twoSided(6, 8) }}></i>costs more</span><span><i style=${{ backgroundColor: twoSided(-6, 8) }}></i>costs less</span></p>
        <${Coloured} label="the text, coloured by what the held gate costs" pieces=${pieces} colour=${(_, i) => twoSided(more[i] ?? 0, 4)} at=${at} onAt=${setAt} />
        <div class="detail" aria-live="polite">${at === null ? html`<span class="soft">Point at a token.</span>` : html`<code>${visible(found.tokens[at] ?? "")}</code> <span class="pair">${number(found.own[at], 2)} bits as it is</span><span class="pair">${number(found.own[at] + more[at], 2)} with the gate held</span>`}</div>`}
      <${Folded} title="All gates and values"><${Table} label="gates held" columns=${[{ title: "gate", of: (one) => one.name }, { title: "bits a token", of: (one) => number(one.bits) }, { title: "more", of: (one) => number(one.more) }, { title: "all together", of: (one) => number(one.total, 1) }]} rows=${found.rows.map((one) => ({ ...one, name: `${one.gate} = ${one.value}` }))} /><//>`}</section>`;
}

// Where else in a text the unit is as it is here.
function Like({ model, data, row, text, options, comparison, set, like }) {
  const heldOut = comparison?.held_out ?? "";
  const where = options.in === "text" || !heldOut ? "text" : "held";
  const body = { model: model.name, text, unit: row.unit, at: like, count: LIKE };
  if (data.number !== null) body.layer = data.number;
  if (where === "held") body.corpus = { name: "held-out.txt", content: heldOut };
  const answer = useAsk("/studio/inspect/similar", body, model.stamp);
  const found = answer.values?.data;
  return html`<section aria-label="where else"><h3 class="spaced">Where else unit ${row.unit} is as after <code>${visible(data.steps[like])}</code></h3>
    <div class="controls" data-unsaved><${Choice} label="look in" value=${where} choices=${[...(heldOut ? [["held", "the held-out text"]] : []), ["text", "this text"]]} onChange=${(value) => set({ in: value === "text" ? "text" : null })} />
      <button type="button" onClick=${() => set({ like: null, in: null })}>close</button></div>
    <${Said} answer=${answer} />
    ${found && html`<ol class="places">${found.rows.map((place) => html`<li key=${`${place.line} ${place.step}`}><span class="soft small">${number(place.value, 2)}</span><code class="before">${place.before.slice(0, -1).map(visible).join(data.joiner)}</code><code><b>${visible(place.before.at(-1) ?? "")}</b>${place.after.map(visible).join(data.joiner)}</code></li>`)}</ol>
      <p class="soft small">${answer.values.summary.at(-1)}</p>`}</section>`;
}

export default function Gates({ models, chosen, text, options, comparison, change }) {
  const model = chosen[0];
  const set = (part, push) => change({ options: part }, push);
  const whole = (name) => (/^\d+$/.test(options[name] ?? "") ? Number(options[name]) : null);
  const [layer, unit, shownRows] = [whole("layer"), whole("unit"), whole("rows") ?? ROWS];
  const body = model ? { model: model.name, text, ...(layer === null ? {} : { layer }) } : null;
  const answer = useAsk(...(body ? ["/studio/lanes", body] : [null]), model?.stamp);
  const first = answer.values;
  const missing = first && unit !== null && first.rows.some((row) => row.unit === unit) && !first.units.includes(unit);
  const more = useAsk(...(missing ? ["/studio/lanes", { ...body, unit }] : [null]), model?.stamp);
  const found = missing && more.values ? more.values : first;
  const data = useMemo(() => found && { ...found, number: layer, searchable: model.task === "language model" }, [found, layer, model]);
  const sort = SORTS[options.sort] ? options.sort : "memory";
  const [at, setAt] = useState(null);
  useEffect(() => setAt(null), [found]);
  const place = useMemo(() => new Map((data?.units ?? []).map((one, i) => [one, i])), [data]);
  const rows = useMemo(() => {
    if (!data) return [];
    const there = data.rows.filter((row) => place.has(row.unit)).sort(SORTS[sort][1]);
    const kept = there.slice(0, Math.max(1, shownRows));
    const own = there.find((row) => row.unit === unit);
    return own && !kept.includes(own) ? [...kept, own] : kept;
  }, [data, place, sort, shownRows, unit]);
  const lanes = useMemo(() => Object.entries(data?.lanes ?? {}).filter(([name]) => name !== "state").map(([name, lane]) => {
    const values = rows.map((row) => lane.values[place.get(row.unit)]);
    const scale = name === "c" ? Math.max(1, ...values.flat().map(Math.abs)) : 1;
    return { name, title: scale > 1 ? `${lane.title} (darkest: ${number(scale, 1)})` : lane.title, signed: SIGNED.has(name), values: scale > 1 ? values.map((line) => line.map((value) => value / scale)) : values };
  }), [data, rows, place]);
  const row = data && unit !== null ? data.rows.find((one) => one.unit === unit) : null;
  const own = useMemo(() => row && place.has(row.unit) ? new Map(Object.entries(data.lanes).map(([name, lane]) => [name, lane.values[place.get(row.unit)]])) : null, [data, row, place]);
  const pointed = at && rows[at[0]];
  const flag = layer === null ? "" : ` --layer ${layer}`;
  const clamps = data && KEEPS[data.kind] && data.searchable && (model.views === null || model.views.includes("clamp"));
  const over = clamps && heldPart(data, options, row ? unit : null)[1];
  const alike = row && options.in === "text" && /^\d+$/.test(options.like ?? "") && { ...(layer === null ? {} : { layer }), unit, at: Number(options.like), count: LIKE };
  return html`<h1>Gates and states</h1>
    <p class="soft">How a recurrent network reads: a row is a unit, a column a token. Units that keep their value longest stand at the top.</p>
    <${TextBox} rows=${3} value=${text} onChange=${(value) => change({ text: value, options: { like: null } })} />
    <div class="controls" data-unsaved>
      <${Choice} label="model" value=${model?.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name], options: { layer: null, unit: null, by: null, like: null, hold: null, over: null } })} />
      ${data?.layers.length > 1 && html`<${Choice} label="layer" value=${String(Math.max(0, data.layers.indexOf(data.layer)))} choices=${data.layers.map((name, i) => [String(i), layerName(name)])} onChange=${(i) => set({ layer: i, unit: null, like: null })} />`}
      <${Choice} label="order" value=${sort} choices=${Object.entries(SORTS).map(([name, [title]]) => [name, title])} onChange=${(name) => set({ sort: name === "memory" ? null : name })} />
      ${data && html`<${Slider} label="units" min="1" max=${data.units.length} value=${Math.min(shownRows, data.units.length)} onChange=${(n) => set({ rows: n === ROWS ? null : n })} />`}
    </div>
    ${!model && html`<p class="soft">There is no recurrent network here: \`seqloom fit lstm\` trains one.</p>`}
    <${Said} answer=${answer} />
    ${data && html`
      <p class="legend"><span><i style=${{ backgroundColor: "rgb(var(--cool) / .06)" }}></i>gate closed</span><span><i style=${{ backgroundColor: "rgb(var(--cool))" }}></i>gate open</span><span><i style=${{ backgroundColor: "rgb(var(--hot))" }}></i>state above zero</span><span><i style=${{ backgroundColor: "rgb(var(--cool))" }}></i>below</span></p>
      <${Lanes} label="gates and states along the text" lanes=${lanes} steps=${data.steps} rows=${rows} at=${at} chosen=${rows.findIndex((one) => one.unit === unit)} onAt=${setAt} onPick=${(i) => set({ unit: rows[i].unit, like: null }, true)} />
      <div class="detail" aria-live="polite" data-pointed>${pointed ? html`<code>${visible(data.steps[at[1]])}</code> unit ${pointed.unit}: ${Object.entries(data.lanes).filter(([name]) => name !== "state").map(([name, lane]) => html`<span class="pair">${short(name)} ${number(lane.values[place.get(pointed.unit)][at[1]], 3)}</span>`)}` : html`<span class="soft">Point at a lane to read its numbers; click a row to look at that unit alone.</span>`}</div>
      ${data.units.length < data.rows.length && html`<p class="soft small">Of ${data.rows.length.toLocaleString("en")} units, the ${data.units.length} that remember longest are here; any of them can be chosen in the table.</p>`}
      ${row && own && html`<${Unit} ...${{ model, data, row, values: own, text, options, comparison, set }} />`}
      ${clamps && html`<${Clamp} key=${model.name} ...${{ model, data, text, options, set, unit: row ? unit : null }} />`}
      <h2>All units</h2>
      <p class="soft">${row ? "" : "Choose a unit to see its lanes and the text coloured by it. "}Half-life is after how many steps half of a value is left.</p>
      <div class="tall"><${Table} label="units" best=${unit} columns=${[
        { title: "unit", of: (one) => html`<button type="button" data-unit=${one.unit} aria-pressed=${String(one.unit === unit)} onClick=${() => set({ unit: one.unit, like: null }, true)}>${one.unit}</button>`, sort: (one) => one.unit },
        { title: "half-life", of: (one) => steps(one.half_life), sort: (one) => -one.half_life },
        { title: "closed", of: (one) => percent(one.closed), sort: (one) => -one.closed },
        { title: "open", of: (one) => percent(one.open), sort: (one) => -one.open },
        { title: "mean", of: (one) => number(one.mean, 2), sort: (one) => one.mean },
        { title: "farthest from its mean at", text: true, of: (one) => one.fires_on.map(([token]) => visible(token)).join("  ") },
      ]} rows=${data.rows.map((one) => ({ ...one, name: one.unit }))} /></div>
      <${Folded} title="How open and how saturated each gate is"><${Table} label="ranges" columns=${[
        { title: "", of: (one) => one.name }, ...["mean", "lowest", "5 %", "95 %", "highest"].map((key) => ({ title: key, of: (one) => number(one[key], 3) })),
        { title: "closed", of: (one) => percent(one.closed) }, { title: "open", of: (one) => percent(one.open) },
      ]} rows=${data.ranges} /><//>
      ${data.said.map((line) => html`<p class="soft">${line}</p>`)}`}
    ${model && html`<${Signature} view="gates" models=${[model]} text=${text}
      terminal=${[command("inspect units", [model.path, text], flag), command("inspect gates", [model.path, text], `${flag}${unit === null ? "" : ` --unit ${unit}`}`), ...(clamps ? [command("inspect clamp", [model.path, text], flagged(over))] : []), ...(alike ? [command("inspect similar", [model.path, text], flagged(alike))] : [])]}
      python=${["import seqloom", `model = seqloom.load(${inPython(model.path)})`, `seqloom.inspect.units(model, ${inPython(text)}${layer === null ? "" : `, layer=${layer}`}).data`, `seqloom.inspect.gates(model, ${inPython(text)}${layer === null ? "" : `, layer=${layer}`}${unit === null ? "" : `, unit=${unit}`}).data`,
        ...(clamps ? [`seqloom.inspect.clamp(model, ${inPython(text)}${given(over)}).data`] : []), ...(alike ? [`seqloom.inspect.similar(model, ${inPython(text)}${given(alike)}).data`] : [])]} />`}`;
}
