// The trellis of a hidden Markov model: what it believed of its state then (rings) and afterwards (discs), the likeliest
// path, and tables that may be changed; every number is computed again by the library.
import { html } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { None } from "../parts/none.js";
import { Axes, path as drawn, ticks, useWidth } from "../parts/plots.js";
import { Folded, Said, Table, number, percent, visible } from "../parts/shown.js";
import { Signature, command, inPython, inShell } from "../parts/signature.js";

const [COLUMN, ROW, RADIUS, LEFT, TOP] = [62, 44, 15, 132, 30];
const COLUMNS = 18, MOST_ROWS = 10, LIKELY = 0.02; // tokens of the picture, states, and from which share on these
const short = (name, most = 17) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function Trellis({ found, first, rows }) {
  const [place, room] = useWidth();
  const drawn = found.tokens.slice(first, first + COLUMNS);
  const left = room < 520 ? 84 : LEFT;
  const step = Math.max(COLUMN * 0.7, Math.min(92, (room - left - 30) / Math.max(1, drawn.length)));
  const [width, height] = [left + drawn.length * step + 8, TOP + rows.length * ROW + 6];
  const x = (t) => left + (t - first + 0.5) * step;
  const y = (state) => TOP + (rows.indexOf(state) + 0.5) * ROW;
  const path = found.path.map((name) => found.states.indexOf(name));
  const size = (share) => RADIUS * Math.sqrt(Math.max(0, share));
  return html`<div ref=${place}></div><div class="wide" tabindex="0" role="region" aria-label="trellis"><svg class="trellis" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img"
      aria-label=${`states of ${drawn.length} tokens; the table below has the numbers`}>
    ${drawn.map((token, i) => html`<text key=${`t${i}`} x=${x(first + i)} y="16" text-anchor="middle" class="token">${short(visible(token), 9)}</text>`)}
    ${rows.map((state) => html`<g key=${`s${state}`}><line class="grid" x1=${left} x2=${width} y1=${y(state)} y2=${y(state)} /><text x="4" y=${y(state) + 4}>${short(found.states[state], room < 520 ? 11 : 17)}<title>${found.states[state]}</title></text></g>`)}
    ${found.moves.filter(([, from, to]) => rows.includes(from) && rows.includes(to)).map(([t, from, to, share]) => html`<line key=${`${t} ${from} ${to}`} class=${path[t] === from && path[t + 1] === to ? "move way" : "move"} x1=${x(t)} y1=${y(from)} x2=${x(t + 1)} y2=${y(to)} stroke-width=${0.5 + 5 * share} />`)}
    ${drawn.map((token, i) => rows.map((state) => {
      const [then, later] = [found.filter[first + i][state], found.smoothing[first + i][state]];
      return html`<g key=${`${i} ${state}`}><title>${`${visible(token)}, ${found.states[state]}: ${percent(then)} then, ${percent(later)} given everything`}</title>
        ${later >= 0.004 && html`<circle class=${path[first + i] === state ? "disc way" : "disc"} cx=${x(first + i)} cy=${y(state)} r=${size(later)} />`}
        ${then >= 0.004 && html`<circle class="ring" cx=${x(first + i)} cy=${y(state)} r=${size(then)} />`}</g>`;
    }))}</svg></div>
    <p class="legend"><span><i class="dot disc"></i>given the whole text</span><span><i class="dot ring"></i>given the tokens so far</span><span><i class="dot way"></i>on the likeliest path</span></p>`;
}

const written = (share) => (share === 0 || share >= 0.0005 ? share.toFixed(3) : share.toExponential(0)); // small ones are not nothing

// A table of numbers to be changed: rows and columns are [key, name]; `value(row, column)`, `changed(row, column)`.
function Editable({ label, corner, rows, columns, value, changed, onSet }) {
  const set = (row, column) => (event) => {
    const given = Number(event.target.value);
    if (event.target.value !== "" && given >= 0 && given <= 1) onSet(row, column, given);
    else event.target.value = written(value(row, column));
  };
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table class="numbers cells"><caption>${label}</caption><thead><tr><th scope="col">${corner}</th>${columns.map(([key, name]) => html`<th scope="col" key=${key} title=${name}>${short(name, 8)}</th>`)}</tr></thead>
    <tbody>${rows.map(([row, name]) => html`<tr key=${row}><th scope="row" title=${name}>${short(name)}</th>${columns.map(([column, other]) => html`<td key=${column}><input type="number" min="0" max="1" step="0.01"
      aria-label=${`${label}: ${name}, ${other}`} class=${changed(row, column) ? "changed" : ""} value=${written(value(row, column))} onChange=${set(row, column)} /></td>`)}</tr>`)}</tbody></table></div>`;
}

function Forgetting({ distances }) {
  const [place, width] = useWidth();
  const many = Math.max(2, distances.length);
  return html`<div ref=${place}><${Axes} width=${width} height=${180} x=${[1, many]} y=${[0, 1]} label="distance of two beliefs that began apart, token by token" xLabel="token" yLabel="distance"
      xTicks=${ticks(1, many, Math.min(many, 12)).filter(Number.isInteger).map((t) => [t, String(t)])}>${(across, up) => html`<path class="line" d=${drawn(distances.map((value, t) => [across(t + 1), up(value)]))} />
      ${distances.length <= 60 && distances.map((value, t) => html`<circle key=${t} class="here" cx=${across(t + 1)} cy=${up(value)} r="4"><title>${number(value, 4)}</title></circle>`)}`}<//></div>
    <${Folded}><${Table} label="distance of two beliefs" columns=${[{ title: "token", of: (row) => row.name }, { title: "distance", of: (row) => number(row.value, 5) }]} rows=${distances.slice(0, 500).map((value, t) => ({ name: t + 1, value }))} /><//>`;
}

function read(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

function Tables({ found, rows, edits, set }) {
  const states = rows.map((state) => [String(state), found.states[state]]);
  const words = found.tables.words.map((word) => [word, visible(word)]);
  const keep = (next) => set({ edits: Object.keys(next).length ? JSON.stringify(next) : null });
  const cell = (name) => (row, column, given) => keep({ ...edits, [name]: { ...edits[name], [row]: { ...edits[name]?.[row], [column]: given } } });
  const place = new Map(found.tables.words.map((word, i) => [word, i]));
  return html`<h2>The tables</h2>
    <p class="soft">Change a cell and press Enter: it stays, the rest of its row is scaled so that the row sums to one, and the library computes the trellis again. Emissions are shown of the words of this text.</p>
    ${Object.keys(edits).length > 0 && html`<p data-unsaved><button type="button" onClick=${() => keep({})}>As the model learned them</button></p>`}
    <${Editable} label="start" corner="" rows=${[["start", "the first state"]]} columns=${states} value=${(row, column) => found.tables.start[column]} changed=${(row, column) => edits.start?.[column] !== undefined}
      onSet=${(row, column, given) => keep({ ...edits, start: { ...edits.start, [column]: given } })} />
    <${Editable} label="transitions" corner="from, to" rows=${states} columns=${states} value=${(row, column) => found.tables.transitions[row][column]} changed=${(row, column) => edits.transitions?.[row]?.[column] !== undefined} onSet=${cell("transitions")} />
    <${Editable} label="emissions" corner="state, word" rows=${states} columns=${words} value=${(row, column) => found.tables.emissions[row][place.get(column)]} changed=${(row, column) => edits.emissions?.[row]?.[column] !== undefined} onSet=${cell("emissions")} />`;
}

export default function TrellisView({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const set = (part) => change({ options: part });
  const edits = read(options.edits);
  const isChanged = Object.keys(edits).length > 0;
  const ofLanguage = model?.task === "language model";
  const asked = (first, tables) => (model ? ["/studio/inspect/trellis", { model: model.name, text, first, ...(tables ? { tables: { name: "tables.json", content: JSON.stringify(edits) } } : {}) }] : [null]);
  const first = Math.max(1, Number(options.first ?? 1) || 1);
  const answer = useAsk(...asked(first, isChanged && ofLanguage), model?.stamp);
  const found = answer.values?.data;
  if (!model) return html`<${None} title="Hidden states" what="hidden Markov model" command="seqloom fit hmm text.txt -o model" />`;
  const begin = Math.min(first, Math.max(1, (found?.tokens.length ?? 1) - COLUMNS + 1)) - 1;
  const shown = found ? found.states.map((_, state) => state) : [];
  const span = found ? found.tokens.slice(begin, begin + COLUMNS).map((_, i) => begin + i) : [];
  const best = (state) => Math.max(...span.map((t) => Math.max(found.filter[t][state], found.smoothing[t][state])));
  const rows = options.states === "all" ? shown : shown.filter((state) => best(state) >= LIKELY).sort((a, b) => best(b) - best(a)).slice(0, MOST_ROWS).sort((a, b) => a - b);
  const line = (more) => command("inspect trellis", [model.path, text], `${first > 1 ? ` --first ${first}` : ""}${more}`);
  return html`<h1>Hidden states</h1>
    <p class="soft">Behind each token the model supposes a state that nobody sees. A ring is what it believed when it had read so far, a disc what it believes once it has read everything.</p>
    <${TextBox} rows=${2} value=${text} onChange=${(value) => change({ text: value, options: { first: null } })} />
    <div class="controls" data-unsaved><${Choice} label="model" value=${model.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name], options: { edits: null, first: null } })} />
      ${found && found.tokens.length > COLUMNS && html`<${Slider} label="from token" min="1" max=${found.tokens.length - COLUMNS + 1} value=${begin + 1} onChange=${(value) => set({ first: value > 1 ? value : null })} />`}
      ${found && found.states.length > rows.length - (options.states === "all" ? 1 : 0) && found.states.length <= 64 && html`<label class="tick"><input type="checkbox" checked=${options.states === "all"} onChange=${(event) => set({ states: event.target.checked ? "all" : null })} /> all ${found.states.length} states</label>`}</div>
    <${Said} answer=${answer} />
    ${answer.error && isChanged && html`<p><button type="button" onClick=${() => set({ edits: null })}>As the model learned them</button></p>`}
    ${found && html`<p><span class="big" data-log-prob>${number(found.log_prob, 3)}</span> nats: the log-probability of the text${ofLanguage ? "" : ", up to a constant"}${isChanged && ofLanguage ? " with these tables" : ""}; the likeliest path has <strong data-path-share>${percent(found.path_share)}</strong> of it.</p>
      <${Trellis} found=${found} first=${begin} rows=${rows} />
      ${rows.length < found.states.length && html`<p class="soft small">${rows.length} of ${found.states.length} states are drawn, those that are likely somewhere here.</p>`}
      ${answer.values.summary.filter((said) => !said.startsWith("In the picture") && !said.startsWith("The picture")).map((said) => html`<p class="soft small">${said}</p>`)}
      <${Folded}><${Table} label="states, token by token" columns=${[{ title: "token", of: (row) => `${row.number} ${visible(row.token)}` }, { title: "then", of: (row) => row.filter }, { title: "p", of: (row) => number(row.filter_probability, 4) }, { title: "given everything", of: (row) => row.smoothing }, { title: "p", of: (row) => number(row.smoothing_probability, 4) }, { title: "likeliest path", of: (row) => row.path }]}
        rows=${found.rows.slice(0, 500).map((row) => ({ ...row, name: row.number }))} /><//>
      ${found.tables && html`<${Tables} found=${found} rows=${rows} edits=${edits} set=${set} />`}
      <h2>Forgetting</h2><p class="soft">Begun in another state, how different is the belief after each token? 1 is as different as can be, 0 the same.</p>
      <${Forgetting} distances=${found.forgetting} />`}
    <${Signature} view="trellis" models=${[model]} text=${text}
      terminal=${isChanged && ofLanguage ? [`printf %s ${inShell(JSON.stringify(edits))} > tables.json`, line(" --tables tables.json")] : [line("")]}
      python=${["import pathlib, seqloom", ...(isChanged && ofLanguage ? [`pathlib.Path("tables.json").write_text(${inPython(JSON.stringify(edits))})`] : []), `seqloom.inspect.trellis(seqloom.load(${inPython(model.path)}), ${inPython(text)}${first > 1 ? `, first=${first}` : ""}${isChanged && ofLanguage ? ', tables="tables.json"' : ""}).data`].map((one, i) => (i || isChanged ? one : "import seqloom"))} />`;
}
