// The playground: text that a model writes as it is drawn, a conversation, or the answers of any verb of its task to
// lines of text, with what spoke for an answer.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { stream } from "../parts/stream.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { Answers, Explained, Options, Whole, together, Words } from "../parts/answers.js";
import { FileBox, take } from "../parts/files.js";
import { Said } from "../parts/shown.js";
import { Signature, command, inPython, inShell } from "../parts/signature.js";

const MOST_LINES = 1000; // of a question; a server takes a few more

const curl = (path, body) => `curl -s ${location.origin}${path} -d ${inShell(JSON.stringify(body))}`;
const object = (text, otherwise) => {
  try {
    return JSON.parse(text) ?? otherwise;
  } catch {
    return otherwise;
  }
};

// What of the address says how to draw: [the fields of a request, flags of `seqloom generate`, arguments in Python].
function drawing(options) {
  const values = { temperature: Number(options.temp ?? 1), top_k: Number(options.k ?? 0), top_p: Number(options.p ?? 1), max_tokens: Number(options.max ?? 100), seed: Number(options.seed ?? 0) };
  if (!values.top_k) delete values.top_k;
  if (values.top_p === 1) delete values.top_p;
  return [values, Object.entries(values).map(([name, value]) => `--${name.replace("_", "-")} ${value}`).join(" "), Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", ")];
}

function Drawing({ options, set }) {
  const [values] = drawing(options);
  const kept = (name, usual) => (value) => set({ [name]: value === usual ? null : value });
  return html`<div class="controls" data-unsaved>
    <${Slider} label="temperature" min="0.05" max="3" step="0.05" value=${values.temperature} shown=${(v) => v.toFixed(2)} onChange=${kept("temp", 1)} />
    <${Slider} label="top-k" min="0" max="100" value=${values.top_k ?? 0} shown=${(v) => (v ? String(v) : "all")} onChange=${kept("k", 0)} />
    <${Slider} label="top-p" min="0.01" max="1" step="0.01" value=${values.top_p ?? 1} shown=${(v) => v.toFixed(2)} onChange=${kept("p", 1)} />
    <${Slider} label="tokens at most" min="1" max="1000" value=${values.max_tokens} onChange=${kept("max", 100)} />
    <label class="field">seed<br /><input type="number" min="0" max="2147483647" value=${values.seed} onChange=${(event) => kept("seed", 0)(Math.max(0, Math.trunc(Number(event.target.value)) || 0))} /></label>
  </div>`;
}

// What is being written: [{text, running, error, tokens, seconds}, begin(path, body), stop()].
function useWriting() {
  const [state, setState] = useState({ text: "", running: false, error: "", tokens: null, asked: null });
  const ended = useRef(null);
  const stop = () => ended.current?.abort();
  const begin = async (path, body) => {
    stop();
    const mine = (ended.current = new AbortController());
    const began = performance.now();
    let now = { text: "", running: true, error: "", tokens: null, asked: body };
    const told = (part) => {
      now = { ...now, ...part };
      if (ended.current === mine) setState(now);
    };
    told({});
    try {
      for await (const event of stream(path, { ...body, stream: true, stream_options: { include_usage: true } }, mine.signal)) {
        const one = event.choices[0];
        if (one) told({ text: now.text + (one.text ?? one.delta?.content ?? "") });
        if (event.usage) told({ tokens: event.usage.completion_tokens, seconds: (performance.now() - began) / 1000 });
      }
      told({ running: false });
    } catch (error) {
      told({ running: false, error: error.name === "AbortError" ? "" : error.message, stopped: error.name === "AbortError" });
    }
    return now;
  };
  useEffect(() => stop, []);
  return [state, begin, stop];
}

const Rate = ({ state }) => html`<p class="soft small" role="status">${state.running ? "writing ..." : state.stopped ? "stopped" : state.tokens === null ? "" : `${state.tokens.toLocaleString("en")} tokens in ${state.seconds.toFixed(2)} s`}</p>`;

function Write({ model, text, options, change, set }) {
  const [state, begin, stop] = useWriting();
  const [values, flags, given] = drawing(options);
  const body = { model: model.name, prompt: text, ...values };
  const same = state.asked !== null && JSON.stringify(state.asked) === JSON.stringify(body);
  useEffect(() => { // a link to a written text writes it again
    if (options.run) begin("/v1/completions", body);
  }, [model.name]);
  const go = () => {
    set({ run: "1" });
    begin("/v1/completions", body);
  };
  return html`<${TextBox} label="Prompt" rows=${3} value=${text} onChange=${(value) => change({ text: value })} />
    <${Drawing} options=${options} set=${set} />
    <p class="go" data-unsaved>${state.running ? html`<button type="button" class="first" onClick=${stop}>Stop</button>` : html`<button type="button" class="first" onClick=${go}>Write</button>`}
      <button type="button" onClick=${() => { set({ seed: values.seed + 1, run: "1" }); begin("/v1/completions", { ...body, seed: values.seed + 1 }); }}>Another</button></p>
    ${state.error && html`<p class="error" role="alert">${state.error}</p>`}
    ${state.asked && html`<div class="written" aria-label="what was written" role="group" tabindex="0"><span class="soft">${state.asked.prompt}</span><span data-written>${state.text}</span>${state.running && html`<span class="caret" aria-hidden="true">▍</span>`}</div>
      <${Rate} state=${state} />${!same && html`<p class="soft small">The prompt or the options have changed since.</p>`}`}
    <${Signature} view="play" models=${[model]} text=${text} seed=${values.seed}
      terminal=${[`seqloom generate ${flags} ${text.startsWith("-") ? "-- " : ""}${inShell(model.path)} ${inShell(text)}`, curl("/v1/completions", body)]}
      python=${["import seqloom", `seqloom.load(${inPython(model.path)}).generate(${inPython(text)}, ${given})`]} />`;
}

function Chat({ model, options, set }) {
  const [state, begin, stop] = useWriting();
  const [draft, setDraft] = useState("");
  const said = useMemo(() => [object(options.said ?? "[]", [])].flat().filter((one) => typeof one?.content === "string"), [options.said]);
  const [values] = drawing(options);
  const keep = (messages) => set({ said: messages.length ? JSON.stringify(messages) : null });
  const send = async (event) => {
    event.preventDefault();
    if (!draft.trim() || state.running) return;
    const messages = [...said, { role: "user", content: draft }];
    setDraft("");
    keep(messages);
    const done = await begin("/v1/chat/completions", { model: model.name, messages, ...values });
    if (done.text) keep([...messages, { role: "assistant", content: done.text }]);
  };
  const messages = said.at(-1)?.role === "assistant" || !state.asked ? said : [...said, { role: "assistant", content: state.text }];
  return html`<${Drawing} options=${options} set=${set} />
    <div class="talk" role="log" aria-label="conversation" tabindex="0">${messages.length === 0 && html`<p class="soft">Say something.</p>`}
      ${messages.map((one, i) => html`<div key=${i} class=${`said ${one.role}`}><small>${one.role}</small>${one.content}</div>`)}</div>
    ${state.error && html`<p class="error" role="alert">${state.error}</p>`}<${Rate} state=${state} />
    <form class="say" onSubmit=${send} data-unsaved><input type="text" aria-label="Message" value=${draft} onInput=${(event) => setDraft(event.target.value)} />
      ${state.running ? html`<button type="button" class="first" onClick=${stop}>Stop</button>` : html`<button type="submit" class="first">Send</button>`}
      <button type="button" onClick=${() => keep([])}>Begin anew</button></form>
    <${Signature} view="play" models=${[model]} seed=${values.seed} terminal=${said.length ? [curl("/v1/chat/completions", { model: model.name, messages: said.at(-1).role === "assistant" ? said.slice(0, -1) : said, ...values })] : []} />`;
}

// Lines as inputs: JSON as it is, numbers of a verb that reads them, cells between tabs as a list, else the text.
export function inputsOf(text, verb) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  return lines.map((line) => {
    const value = /^[[{]/.test(line) ? object(line, null) : null;
    if (value !== null) return value;
    const numbers = line.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (verb.numbers && numbers.every(Number.isFinite)) return numbers;
    return line.includes("\t") ? line.split("\t") : line;
  });
}

// One number a line is one series.
const seriesOf = (text, verb) => (verb.numbers && /^[\s\d.,;eE+-]+$/.test(text) && text.trim().split("\n").every((line) => !/[\s,;]/.test(line.trim())) ? text.trim().split(/\s+/).join(",") : text);

function Ask({ model, verb, text, options, change, set, can }) {
  const asked = object(options.opt ?? "{}", {});
  const lines = useMemo(() => inputsOf(seriesOf(text, verb), verb), [text, verb]);
  const inputs = useMemo(() => lines.slice(0, MOST_LINES), [lines]);
  const body = { model: model.name, inputs, ...asked };
  const answer = useAsk(...(inputs.length ? [`/${verb.name}`, body] : [null]), model.stamp);
  const results = answer.values?.results ?? null;
  const at = Math.min(Math.max(0, Number(options.row ?? 1) - 1), Math.max(0, inputs.length - 1));
  const one = results?.[at];
  const word = Number(options.word ?? 1);
  const option = (name, value) => {
    const next = { ...asked, [name]: value };
    if (value === undefined || Number.isNaN(value)) delete next[name];
    set({ opt: Object.keys(next).length ? JSON.stringify(next) : null });
  };
  const lists = one ? together(one) : [];
  const explains = one && can.views?.includes("explanation") && verb.name !== "score" && (typeof inputs[at] === "string" || Array.isArray(inputs[at]));
  const place = model.task === "tagger" ? { word } : model.task === "translator" ? { step: word } : {};
  return html`<${FileBox} cut label="Open a file" accept=".txt,.tsv,.csv,.jsonl" onText=${(content) => change({ text: content })}>
      <${TextBox} label=${`One line, one input: ${verb.input}`} rows=${5} value=${text} onChange=${(value) => change({ text: value, options: { row: null, word: null } })} /><//>
    ${Object.keys(verb.options).length > 0 && html`<details class="more" open=${Object.keys(asked).length > 0}><summary>Options of ${verb.name}</summary><div class="controls" data-unsaved><${Options} schema=${verb.options} values=${asked} onChange=${option} /></div></details>`}
    ${inputs.length < lines.length && html`<p class="note" role="status">Of ${lines.length.toLocaleString("en")} lines, the first ${MOST_LINES.toLocaleString("en")} are asked.</p>`}
    <${Said} answer=${answer} />
    ${results && html`<${Answers} inputs=${inputs} results=${results} at=${at} onAt=${(i) => set({ row: i ? i + 1 : null, word: null })} />
      <p class="go" data-unsaved><button type="button" onClick=${() => take(`${verb.name}.jsonl`, results.map((found, i) => JSON.stringify({ row: i + 1, ...found })).join("\n") + "\n", "application/x-ndjson")}>Download the answers</button></p>`}
    ${one && html`<section aria-label=${`row ${at + 1}`}>${lists.length > 0 && html`<h2>Row ${at + 1}</h2><${Words} lists=${lists} at=${word - 1} onPick=${"word" in place ? (i) => set({ word: i ? i + 1 : null }) : undefined} />`}
      <${Whole} answer=${one} />
      ${"step" in place && explains && html`<div class="controls" data-unsaved><${Slider} label="token of the translation" min="1" max="40" value=${word} onChange=${(value) => set({ word: value > 1 ? value : null })} /></div>`}
      ${explains && html`<${Explained} model=${model} text=${inputs[at]} options=${place} />`}</section>`}
    <${Signature} view="play" models=${[model]} text=${text} python=${inputs.length ? ["import seqloom", "from seqloom.studio.playing import answers", `answers(seqloom.load(${inPython(model.path)}), ${inPython(verb.name)}, ${inPython(inputs)}${Object.entries(asked).map(([name, value]) => `, ${name}=${inPython(value)}`).join("")})`, ...(explains ? [`seqloom.inspect.explanation(seqloom.load(${inPython(model.path)}), ${inPython(inputs[at])}${Object.entries(place).map(([name, value]) => `, ${name}=${value}`).join("")}).data`] : [])] : []} terminal=${inputs.length ? [curl(`/${verb.name}`, body), ...(explains && typeof inputs[at] === "string" ? [command("inspect explanation", [model.path, inputs[at]], Object.entries(place).map(([name, value]) => ` --${name} ${value}`).join(""))] : [])] : []} />`;
}

export default function Play({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const opened = useAsk(...(model ? ["/studio/open", { model: model.name, stamp: model.stamp }] : [null]));
  const can = opened.values?.name === model?.name ? opened.values : null;
  const set = (part) => change({ options: part });
  const modes = can ? [...(can.writes ? [["write", "write"]] : []), ...(can.chats ? [["chat", "chat"]] : []), ...can.verbs.map((verb) => [verb.name, verb.name])] : [];
  const mode = modes.find(([name]) => name === options.do)?.[0] ?? modes[0]?.[0];
  const verb = can?.verbs.find((one) => one.name === mode);
  const props = { key: `${model?.name} ${mode}`, model, text, options, change, set, can, verb };
  return html`<h1>Playground</h1>
    <p class="soft">${verb ? verb.help : mode === "chat" ? "A conversation with the model, by its own template." : "The model goes on after your text, token by token. The same seed gives the same text."}</p>
    <div class="controls">
      ${models.length > 0 && html`<${Choice} label="model" value=${model?.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name], options: { do: null, opt: null, row: null, word: null, run: null, said: null } })} />`}
      ${modes.length > 1 && html`<fieldset class="picker"><legend>do</legend>${modes.map(([name, title]) => html`<button key=${name} type="button" aria-pressed=${String(name === mode)} onClick=${() => set({ do: name, opt: null, row: null })}>${title}</button>`)}</fieldset>`}
    </div>
    <${Said} answer=${opened} />
    ${mode === "write" ? html`<${Write} ...${props} />` : mode === "chat" ? html`<${Chat} ...${props} />` : verb ? html`<${Ask} ...${props} />`
      : (can || !model) && html`<p>${model ? `The page knows nothing to ask ${model.name}.` : "There is no model yet."}</p><${Signature} view="play" models=${model ? [model] : []} />`}`;
}
