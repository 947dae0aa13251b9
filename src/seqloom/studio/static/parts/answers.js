// Answers of the server's verbs, whatever their task: plain values of JSON as tables, bars and words with tags;
// and the options of a verb, made of their JSON Schema.
import { html } from "./html.js";
import { useAsk } from "./ask.js";
import { Bars, Coloured, Folded, Said, Table, number, twoSided } from "./shown.js";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isPlain = (value) => value === null || typeof value !== "object";
export const plain = (value) => (value === null || value === undefined ? "–" : value === true ? "yes" : value === false ? "no"
  : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(5))) : String(value));

// Lists of the same length that belong together, such as words and their tags.
export function together(answer) {
  const lists = Object.entries(answer).filter(([, value]) => Array.isArray(value) && value.length > 0 && value.every(isPlain));
  const length = lists[0]?.[1].length;
  return lists.length > 1 && lists.every(([, value]) => value.length === length) ? lists : [];
}

export function Words({ lists, at = null, onPick }) {
  const Tag = onPick ? "button" : "span";
  return html`<span class="words">${lists[0][1].map((word, i) => html`<${Tag} key=${i} type=${onPick ? "button" : undefined} aria-pressed=${onPick ? String(i === at) : undefined}
    onClick=${onPick && (() => onPick(i))}>${plain(word)}${lists.slice(1).map(([name, list]) => html`<small title=${name}>${plain(list[i])}</small>`)}</${Tag}>`)}</span>`;
}

// One value, as briefly as a table's cell wants it.
function brief(value) {
  if (isPlain(value)) return plain(value);
  if (Array.isArray(value)) {
    if (value.every(isPlain)) return value.map(plain).join(", ");
    const [name] = Object.keys(value[0]);
    return value.slice(0, 3).map((one) => plain(isPlain(one[name]) ? one[name] : JSON.stringify(one))).join(", ") + (value.length > 3 ? " ..." : "");
  }
  return Object.entries(value).slice(0, 3).map(([name, one]) => `${name} ${brief(one)}`).join(", ");
}

// The table: a row for each input; `at`: the one that is looked at.
export function Answers({ inputs, results, at, onAt, most = 200 }) {
  const rows = results.slice(0, most);
  const echoes = (name) => rows.every((row, i) => row[name] === undefined || row[name] === inputs[i]);
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !echoes(name));
  const paired = rows.map(together);
  const pairs = new Set(paired.flatMap((lists) => lists.map(([name]) => name)));
  const shown = names.filter((name) => !pairs.has(name));
  return html`<div class="wide" tabindex="0" role="region" aria-label="answers"><table class="numbers answers"><thead><tr><th scope="col">row</th>
    ${pairs.size > 0 ? html`<th scope="col">${[...pairs].join(", ")}</th>` : html`<th scope="col">input</th>`}${shown.map((name) => html`<th scope="col">${name.replaceAll("_", " ")}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${i} class=${i === at ? "best" : ""}>
      <th scope="row"><button type="button" aria-pressed=${String(i === at)} onClick=${() => onAt(i)}>${i + 1}</button></th>
      <td class="text">${pairs.size > 0 ? paired[i].length > 0 && html`<${Words} lists=${paired[i]} />` : typeof inputs[i] === "string" ? inputs[i] : brief(inputs[i])}</td>
      ${shown.map((name) => html`<td class=${typeof row[name] === "number" ? "" : "text"}>${brief(row[name] ?? null)}</td>`)}</tr>`)}</tbody></table></div>
    ${results.length > most && html`<p class="soft small">The first ${most} of ${results.length.toLocaleString("en")} rows; the download has all.</p>`}`;
}

// All of one answer: bars of shares, tables of lists, the rest as text.
export function Whole({ answer }) {
  return Object.entries(answer).map(([name, value]) => {
    const title = name.replaceAll("_", " ");
    if (isObject(value) && Object.values(value).every((one) => typeof one === "number")) {
      const rows = Object.entries(value).sort((a, b) => b[1] - a[1]).slice(0, 20).map(([key, share]) => ({ name: key, value: share }));
      const shares = rows.every((row) => row.value >= 0 && row.value <= 1);
      return shares && rows.length > 0 ? html`<h3 class="apart">${title}</h3><${Bars} rows=${rows} label=${title} />` : null;
    }
    if (Array.isArray(value) && value.length > 0 && value.every(isObject)) {
      const columns = [{ title: "", of: (row) => row.i + 1 }, ...Object.keys(value[0]).map((key) => ({ title: key.replaceAll("_", " "), of: (row) => brief(row.one[key] ?? null) }))];
      return html`<h3 class="apart">${title}</h3><${Table} label=${title} columns=${columns} rows=${value.slice(0, 200).map((one, i) => ({ name: i, i, one }))} />`;
    }
    return null;
  });
}

// What spoke for an answer: the words coloured, the largest terms as bars.
export function Explained({ model, text, options }) {
  const answer = useAsk("/studio/inspect/explanation", { model: model.name, text, ...options }, model.stamp);
  const found = answer.values?.data.explanations[0];
  if (!found) return html`<${Said} answer=${answer} />`;
  const most = Math.max(...found.tokens.map(([, value]) => Math.abs(value)), 1e-9);
  const pieces = found.tokens.map(([token, value]) => ({ text: `${token} `, value }));
  const largest = Math.max(...found.shares.map((one) => Math.abs(one.nats)), 1e-9);
  return html`<h2>What spoke for ${plain(found.label)}, and what for ${plain(found.against)}</h2>
    <p><span class="big" data-odds>${number(found.log_odds, 3)}</span> ${found.unit === "nats" ? "nats of log-odds" : ""} <span class="soft">${answer.values.summary[0]}</span></p>
    <p class="legend"><span><i style=${{ backgroundColor: twoSided(1, 1.2) }}></i>for ${plain(found.label)}</span><span><i style=${{ backgroundColor: twoSided(-1, 1.2) }}></i>for ${plain(found.against)}</span></p>
    <${Coloured} label="words, coloured by what they added" pieces=${pieces} colour=${(piece) => twoSided(piece.value, 1.5 * most)} at=${null} onAt=${() => null} />
    <ul class="leans" aria-label="largest terms">${found.shares.map((one, i) => html`<li key=${i}><span class="name">${one.feature}</span>
      <span class="track" aria-hidden="true"><span class=${one.nats > 0 ? "right" : "left"} style=${{ width: `${(50 * Math.abs(one.nats)) / largest}%` }}></span></span>
      <span class="value">${one.nats > 0 ? "+" : ""}${number(one.nats, 3)}</span></li>`)}</ul>
    <${Folded}><${Table} label="what each token added" columns=${[{ title: "token", of: (row) => row.token }, { title: found.unit, of: (row) => number(row.value, 4), sort: (row) => row.value }]}
      rows=${found.tokens.map(([token, value], i) => ({ name: i, token, value }))} /><//>`;
}

// The options of a verb: fields of a form, by JSON Schema.
export function Options({ schema, values, onChange }) {
  return Object.entries(schema).map(([name, one]) => {
    const title = name.replaceAll("_", " ");
    const value = values[name];
    if (one.type === "boolean") return html`<label class="tick" key=${name} title=${one.description}><input type="checkbox" checked=${value ?? one.default ?? false}
      onChange=${(event) => onChange(name, event.target.checked === (one.default ?? false) ? undefined : event.target.checked)} /> ${title}</label>`;
    if (one.enum) return html`<label key=${name} title=${one.description}>${title}<br /><select value=${value ?? one.default} onChange=${(event) => onChange(name, event.target.value === one.default ? undefined : event.target.value)}>
      ${one.enum.map((word) => html`<option value=${word} selected=${word === (value ?? one.default)}>${word}</option>`)}</select></label>`;
    const isNumber = one.type === "integer" || one.type === "number";
    if (!isNumber && one.type !== "string" && one.type !== "array") return null;
    const read = (text) => (text === "" ? undefined : isNumber ? Number(text) : one.type === "array" ? text.split(",").map((part) => part.trim()) : text);
    return html`<label class="field" key=${name} title=${one.description}>${title}<br /><input type=${isNumber ? "number" : "text"} min=${one.minimum} max=${one.maximum} step=${one.type === "integer" ? 1 : "any"}
      value=${Array.isArray(value) ? value.join(", ") : value ?? ""} placeholder=${one.default ?? ""} onChange=${(event) => onChange(name, read(event.target.value))} /></label>`;
  });
}
