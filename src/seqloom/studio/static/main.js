// The frame: which models there are, which view is open, and the state in the address.
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./parts/html.js";
import { ask, forget } from "./parts/ask.js";
import { change, useAddress, written } from "./parts/address.js";
import { GROUPS, VIEWS } from "./views/index.js";

const EVERY = 5000; // milliseconds between two looks at the shelf
const START = 4; // models that are shown first

// The models, looked at again and again: [{models, training, comparison}, a line that says what changed, error].
function useShelf() {
  const [shelf, setShelf] = useState(null);
  const [news, setNews] = useState("");
  const [error, setError] = useState("");
  const before = useRef(null);
  useEffect(() => {
    let timer = 0, gone = false;
    const look = async () => {
      clearTimeout(timer);
      try {
        const found = await ask("/studio/models");
        if (gone) return;
        const old = before.current;
        const said = old === null ? [] : changes(old.models, found.models);
        const grown = old === null || said.length > 0 || old.training?.running !== found.training?.running;
        if (said.length) {
          forget();
          setNews(said.join(" "));
        }
        if (grown) {
          const comparison = await ask("/studio/comparison");
          before.current = found;
          if (!gone) setShelf({ ...found, comparison });
        } else if (opened(old) !== opened(found)) { // labels and views of models are known now
          before.current = found;
          setShelf((now) => ({ ...now, models: found.models }));
        } else if (found.training?.running) setShelf((now) => ({ ...now, training: found.training }));
        setError("");
      } catch (failed) {
        if (!gone) setError(failed.message);
      }
      if (!gone) timer = setTimeout(look, before.current?.training?.running ? 1000 : EVERY);
    };
    look();
    const visible = () => document.visibilityState === "visible" && look();
    document.addEventListener("visibilitychange", visible);
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, []);
  return [shelf, news, error];
}

const opened = (found) => found.models.filter((model) => model.open).length;

function changes(old, now) {
  const stamps = new Map(now.map((model) => [model.name, model.stamp]));
  const names = new Set(old.map((model) => model.name));
  return [
    ...old.filter((model) => !stamps.has(model.name)).map((model) => `${model.name} was removed from ${model.path}.`),
    ...old.filter((model) => stamps.has(model.name) && stamps.get(model.name) !== model.stamp).map((model) => `${model.name} was replaced; the new one is shown.`),
    ...now.filter((model) => !names.has(model.name)).map((model) => `${model.name} has come.`),
  ];
}

const loaded = new Map();
function useView(entry) {
  const [, redraw] = useState(0);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    let gone = false;
    setFailed("");
    if (!loaded.has(entry.name)) {
      Promise.all([entry.load(), entry.style && styled(entry.style)]).then(([module]) => {
        loaded.set(entry.name, module.default);
        redraw((n) => n + 1);
      }, () => gone || setFailed(`The view ${entry.title} could not be loaded; load the page again.`));
    }
    return () => (gone = true);
  }, [entry]);
  return [loaded.get(entry.name), failed];
}

function styled(file) { // a view's own style, there before the view is
  return new Promise((resolve, reject) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `/studio/static/views/${file}` });
    link.onload = resolve;
    link.onerror = reject;
    document.head.append(link);
  });
}

// The menu: a column beside the view where there is room, else behind a button.
function Menu({ entry, state }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => setOpen(false), [entry]);
  const key = (event) => {
    if (event.key === "Escape" && open) {
      setOpen(false);
      box.current.querySelector("button.menu").focus();
    }
  };
  const link = (view) => html`<li key=${view.name}><a href=${written({ view: view.name, models: state.models, text: state.text })}
    aria-current=${view === entry ? "page" : undefined} onClick=${() => setOpen(false)}>${view.title}</a></li>`;
  return html`<header class="top" ref=${box} onKeyDown=${key}>
    <button type="button" class="skip" onClick=${() => document.querySelector("main").focus()}>To the view</button>
    <a class="brand" href="#compare">seqloom studio</a><span class="here">${entry.title}</span>
    <button type="button" class="menu" aria-expanded=${String(open)} aria-controls="views" onClick=${() => setOpen(!open)}>Views</button>
    <nav id="views" aria-label="Views" class=${open ? "open" : ""}>${Object.entries(GROUPS).map(([group, title]) => {
      const views = VIEWS.filter((view) => view.group === group);
      return views.length > 0 && html`<div key=${group} class="group">${title && html`<p id=${`group-${group}`}>${title}</p>`}
        <ul aria-labelledby=${title ? `group-${group}` : undefined}>${views.map(link)}</ul></div>`;
    })}</nav></header>`;
}

function App() {
  const state = useAddress();
  const [shelf, news, error] = useShelf();
  const entry = VIEWS.find((view) => view.name === state.view) ?? VIEWS[0];
  const [View, failed] = useView(entry);
  const all = shelf?.models ?? [];
  const models = useMemo(() => all.filter(entry.fits), [all, entry]);
  const named = state.models.map((name) => models.find((model) => model.name === name)).filter(Boolean);
  const first = useMemo(() => chosenFirst(models, shelf?.comparison), [models, shelf]);
  const missing = shelf ? state.models.filter((name) => !all.some((model) => model.name === name)) : [];
  const chosen = named.length || missing.length ? named : first; // those of another view may not fit this one
  const heldOut = shelf?.comparison.held_out ?? "";
  const text = state.text ?? (entry.start ? entry.start(heldOut) : heldOut);
  const training = shelf?.training;
  useEffect(() => {
    document.title = `${entry.title} · seqloom studio`;
  }, [entry]);
  useLayoutEffect(() => {
    if ((shelf && View) || error || failed) reveal();
  }, [shelf, View, error, failed]);
  useEffect(() => { // Alt and a digit open a view
    const key = (event) => {
      const view = event.altKey && !event.ctrlKey && !event.metaKey && VIEWS[Number(event.key) - 1];
      if (view) {
        event.preventDefault();
        change({ view: view.name }, true);
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  return html`<${Menu} entry=${entry} state=${state} />
    <main tabindex="-1">
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${news && html`<p class="note" role="status">${news}</p>`}
      ${training && (training.running || training.error) && html`<section aria-label="Training"><p role="status">${training.error
        ? html`<span class="error">The small set could not be trained: ${training.error}</span>`
        : `No models yet: a small set is trained on the bundled text, ${training.done} of ${training.of} are there. ${training.said}`}</p>
        ${training.running && html`<progress max=${training.of} value=${training.done} aria-label="models trained"></progress>`}</section>`}
      ${missing.map((name) => html`<p class="error" role="alert">There is no model ${name} here; it may have been removed.</p>`)}
      ${failed && html`<p class="error" role="alert">${failed}</p>`}
      ${shelf && View ? html`<${View} ...${{ models, all, chosen, text, heldOut, options: state.options, comparison: shelf.comparison, views: VIEWS, change }} />` : html`<p class="wait" role="status">One moment ...</p>`}
    </main>`;
}

// Some models of different kinds, the best of the comparison among them.
function chosenFirst(models, comparison) {
  const order = (comparison?.rungs ?? []).map((row) => row.model);
  const sorted = [...models].sort((a, b) => order.indexOf(b.name) - order.indexOf(a.name));
  const kinds = new Map();
  for (const model of sorted) if (model.family !== "calibration" && !kinds.has(`${model.kind} ${model.tokenizer}`)) kinds.set(`${model.kind} ${model.tokenizer}`, model);
  const best = models.find((model) => model.name === comparison?.best);
  return [...new Set([best, ...kinds.values()].filter(Boolean))].slice(0, START);
}

const root = Object.assign(document.createElement("div"), { id: "app" });
const fromServer = document.getElementById("app");
function reveal() { // what the server wrote stays until the view is ready
  if (!root.isConnected) fromServer.replaceWith(root);
}
render(html`<${App} />`, root);
