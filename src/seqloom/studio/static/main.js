// The frame: which models there are, which view is open, and the state in the address.
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./parts/html.js";
import { ask, forget } from "./parts/ask.js";
import { change, useAddress, written } from "./parts/address.js";
import { chosenFirst } from "./parts/ladder.js";
import { Watched } from "./parts/starter.js";
import { Tour, stopOf, stopState } from "./parts/tour.js";
import { GROUPS, VIEWS } from "./views/index.js";

const EVERY = 5000; // milliseconds between two looks at the shelf
const WHOLE = ["c", "tour", "guess"]; // options that are not one view's alone

// The models, looked at again and again: [{models, comparisons, training, comparison}, a line that says what changed, error];
// `wanted`: the comparison that the address names.
function useShelf(wanted) {
  const [shelf, setShelf] = useState(null);
  const [news, setNews] = useState("");
  const [error, setError] = useState("");
  const before = useRef({ found: null, comparison: null, key: null });
  useEffect(() => {
    let timer = 0, gone = false;
    const look = async () => {
      clearTimeout(timer);
      try {
        const found = await ask("/studio/models");
        const { found: old, key: oldKey } = before.current;
        const said = old === null ? [] : changes(old.models, found.models, found.training?.running);
        if (said.some(([counts]) => counts)) forget();
        const lines = said.map(([, line]) => line).filter(Boolean);
        if (lines.length) setNews(lines.join(" "));
        const one = found.comparisons.find((line) => line.name === wanted) ?? found.comparisons[0];
        const key = `${one?.name} ${one?.stamp} ${found.models.map((model) => model.name)}`;
        let { comparison } = before.current;
        if (key !== oldKey) comparison = await ask(one ? `/studio/comparison/${encodeURIComponent(one.name)}` : "/studio/comparison");
        if (gone) return;
        const same = old !== null && key === oldKey && !said.length && opened(old) === opened(found) && JSON.stringify(old.training) === JSON.stringify(found.training);
        before.current = { found, comparison, key };
        if (!same) setShelf({ ...found, comparison });
        setError("");
      } catch (failed) {
        if (!gone) setError(failed.message);
      }
      if (!gone) timer = setTimeout(look, before.current.found?.training?.running ? 1000 : EVERY);
    };
    look();
    const visible = () => document.visibilityState === "visible" && look();
    document.addEventListener("visibilitychange", visible);
    addEventListener("shelfchange", look);
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
      removeEventListener("shelfchange", look);
    };
  }, [wanted]);
  return [shelf, news, error];
}

const opened = (found) => found.models.filter((model) => model.open).length;

// What changed: [whether answers that are kept are wrong now, a line for the reader]; rungs that come one after another
// are seen in the table.
function changes(old, now, training) {
  const stamps = new Map(now.map((model) => [model.name, model.stamp]));
  const names = new Set(old.map((model) => model.name));
  return [
    ...old.filter((model) => !stamps.has(model.name)).map((model) => [true, `${model.name} was removed from ${model.path}.`]),
    ...old.filter((model) => stamps.has(model.name) && stamps.get(model.name) !== model.stamp).map((model) => [true, `${model.name} was replaced and is opened anew.`]),
    ...now.filter((model) => !names.has(model.name)).map((model) => [false, training ? "" : `${model.name} has come.`]),
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
  if (loaded.has(entry.name)) dress(entry.style);
  return [loaded.get(entry.name), failed];
}

const styles = new Map(); // of views, by file
function styled(file) { // a view's own style, there before the view is
  if (!styles.has(file)) styles.set(file, new Promise((resolve, reject) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `/studio/static/views/${file}` });
    link.onload = () => resolve(link);
    link.onerror = reject;
    document.head.append(link);
  }));
  return styles.get(file);
}

// Only the style of the open view holds, so that views may use the same words.
function dress(file) {
  for (const link of document.querySelectorAll('link[href^="/studio/static/views/"]')) if (link.sheet) link.sheet.disabled = !link.href.endsWith(`/${file}`);
}

const shared = (entry, view, text) => (entry !== view && (entry.own || view.own) ? null : text);
const whole = (options) => Object.fromEntries(WHOLE.map((key) => [key, options[key]]));

// The menu: a column beside the view where there is room, else behind a button.
function Menu({ entry, state, tour }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => setOpen(false), [entry]);
  const key = (event) => {
    if (event.key === "Escape" && open) {
      setOpen(false);
      box.current.querySelector("button.menu").focus();
    }
  };
  const link = (view) => html`<li key=${view.name}><a href=${written({ view: view.name, models: state.models, text: shared(entry, view, state.text), options: whole(state.options) })}
    aria-current=${view === entry ? "page" : undefined} onClick=${() => setOpen(false)}>${view.title}</a></li>`;
  return html`<header class="top" ref=${box} onKeyDown=${key}>
    <button type="button" class="skip" onClick=${() => document.querySelector("main").focus()}>To the view</button>
    <a class="brand" href="#compare">seqloom studio</a><span class="here">${entry.title}</span>
    <button type="button" class="menu" aria-expanded=${String(open)} aria-controls="views" onClick=${() => setOpen(!open)}>Views</button>
    <nav id="views" aria-label="Views" class=${open ? "open" : ""}>${Object.entries(GROUPS).map(([group, title]) => {
      const views = VIEWS.filter((view) => view.group === group);
      return views.length > 0 && html`<div key=${group} class="group">${title && html`<p id=${`group-${group}`}>${title}</p>`}
        <ul aria-labelledby=${title ? `group-${group}` : undefined}>${group === "learn" && html`<li><a href=${written(tour.view ? tour : { view: "compare", options: { tour: 1 } })} aria-current=${stopOf(state.options) ? "step" : undefined} onClick=${() => setOpen(false)}>Guided tour</a></li>`}${views.map(link)}</ul></div>`;
    })}</nav></header>`;
}

function App() {
  const state = useAddress();
  const [shelf, news, error] = useShelf(state.options.c);
  const entry = VIEWS.find((view) => view.name === state.view) ?? VIEWS[0];
  const [View, failed] = useView(entry);
  const all = shelf?.models ?? [];
  const models = useMemo(() => all.filter(entry.fits), [all, entry]);
  const named = state.models.map((name) => models.find((model) => model.name === name)).filter(Boolean);
  const first = useMemo(() => chosenFirst(models, shelf?.comparison), [models, shelf]);
  const missing = shelf ? state.models.filter((name) => !all.some((model) => model.name === name)) : [];
  const chosen = named.length || missing.length ? named : first; // those of another view may not fit this one
  const kept = shelf?.comparison.held_out ?? "";
  const heldOut = useMemo(() => (entry.start ? entry.start(kept, shelf?.comparison) : kept), [entry, kept, shelf?.comparison.lines]); // what this view begins with
  const text = state.text ?? heldOut;
  const training = shelf?.training;
  const tour = stopOf(state.options);
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
        change({ view: view.name, text: shared(entry, view, state.text) }, true);
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [entry, state.text]);
  return html`<${Menu} entry=${entry} state=${state} tour=${shelf ? stopState(tour ?? 1, { models: all, comparison: shelf.comparison }, VIEWS) : {}} />
    <main tabindex="-1">
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${news && html`<p class="note" role="status">${news}</p>`}
      <${Watched} training=${training} />
      ${missing.map((name) => html`<p class="error" role="alert">There is no model ${name} here; it may have been removed.</p>`)}
      ${failed && html`<p class="error" role="alert">${failed}</p>`}
      ${shelf && tour && html`<${Tour} key=${tour} number=${tour} shelf=${{ models: all, comparison: shelf.comparison }} views=${VIEWS} state=${state} />`}
      ${shelf && View ? html`<div class="shown" key=${entry.name}><${View} ...${{ models, all, chosen, text, heldOut, options: state.options, comparison: shelf.comparison, comparisons: shelf.comparisons, training, views: VIEWS, change }} /></div>` : html`<p class="wait" role="status">One moment ...</p>`}
    </main>`;
}

const root = Object.assign(document.createElement("div"), { id: "app" });
const fromServer = document.getElementById("app");
function reveal() { // what the server wrote stays until the view is ready
  if (!root.isConnected) fromServer.replaceWith(root);
}
render(html`<${App} />`, root);
