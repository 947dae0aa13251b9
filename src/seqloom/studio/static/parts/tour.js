// The guided tour: ten stops with the reader's own models, each one paragraph, one control, one number to watch. Where
// it is, is in the address (tour=3); a stop whose model is not here says so.
import { html, useEffect, useState } from "./html.js";
import { change } from "./address.js";
import { chosenFirst, ladder } from "./ladder.js";

const kind = (...kinds) => ({ models, comparison }) => ladder(models, comparison).filter((model) => kinds.includes(model.kind)).at(-1);
const ngram = kind("ngram"), gated = kind("lstm", "gru"), recurrent = kind("lstm", "gru", "rnn"), looking = kind("gpt");
const short = ({ models, comparison }) => { // the n-gram of the shortest memory that is worth asking
  const found = ladder(models, comparison).filter((model) => model.kind === "ngram");
  return found.find((model) => /-3$/.test(model.name)) ?? found[0];
};
const long = (shelf) => recurrent(shelf) ?? looking(shelf);
const NEAR = "the king of ", FAR = ["The queen was old and grey. Long live the ", "The sea was cold and grey. Long live the "];
const LINE = "the old man and the sea and the old man";

// models: shelf => names, or a sentence that says what is missing; go: text and options; does: buttons of the control.
const needs = (what, ...finders) => (shelf) => {
  const found = finders.map((find) => find(shelf));
  return found.every(Boolean) ? [...new Set(found.map((model) => model.name))] : `No ${what} is among these models; seqloom compare trains one.`;
};
const best = (shelf) => chosenFirst(shelf.models, shelf.comparison)[0];
const worst = (shelf) => ladder(shelf.models, shelf.comparison)[0];
export const STOPS = [
  { view: "compare", title: "What learning is", models: needs("language model", worst),
    says: "Every character of these held-out lines is coloured by what it costs: red where the model did not expect it. The first model expects nothing in particular, so each byte costs it the same. All that better models know cools the text.",
    do: "Drag the slider from left to right, or press Learn.", watch: ["[data-bits]", "bits per byte"] },
  { view: "compare", title: "What stays red", models: needs("language model", best), options: { at: 4 },
    says: "Even the best model pays for what nobody can know: the first letter of a name, the turn of a sentence. Once a word has begun, its rest is cheap. So information sits at the beginnings of words.",
    do: "Click a red piece, then one behind it in the same word.", watch: [".place .bars .value", "for the likeliest character"] },
  { view: "next", title: "One prompt, several minds", models: (shelf) => needs("language model", best)(shelf), several: true, text: NEAR, options: { by: "characters" },
    says: "A language model answers one question: what comes next? Here several answer it for the same words, in the same unit, the next character. Entropy, in bits, says how undecided each of them is.",
    do: "Lower the temperature: all become surer of what they preferred anyway.", watch: ["[data-entropy]", "bits of entropy"] },
  { view: "next", title: "Why the trigram forgets", models: needs("n-gram", short, long), text: FAR[0], options: { by: "characters" },
    says: "An n-gram looks at the last few tokens and at nothing before. Change the beginning of the prompt, far from its end: the n-gram's numbers do not move in any digit, since what changed is outside its window. A network with a state has read it.",
    does: [["queen", { text: FAR[0] }], ["sea", { text: FAR[1] }]], watch: ["[data-entropy]", "bits for the n-gram: they stay"] },
  { view: "surprise", title: "Where they disagree", models: needs("n-gram and network", long, ngram), other: true,
    says: "Two models with like totals are surprised at different places. Red is cheaper for the first, blue for the second. N-grams win where they have seen the very words; networks where a like sentence would do.",
    do: "Click the largest disagreements below the text.", watch: [".lists li", "at the largest"] },
  { view: "gates", title: "What the forget gate does", models: needs("LSTM or GRU", gated), text: `${LINE}\n`,
    says: "Each unit of the state has a gate that says how much of it is kept at each token. A unit whose gate stays near one remembers for many tokens, one that is often shut only the last. Units are sorted by how long half of what they hold lasts.",
    do: "Click the first unit of the table, then the last.", watch: ["[data-about] b, .tall tbody td", "steps until half is left in that unit"] },
  { view: "reach", title: "Where the gradient dies", models: (shelf) => needs("recurrent network", recurrent)(shelf), every: ["rnn", "gru", "lstm", "gpt"], options: { gain: 1.5 },
    says: "A network learns that an early word matters only if the gradient comes back to it. In a plain RNN it shrinks at each step, so the past gets no share of the blame. Gates leave it a way; attention takes it there at once.",
    do: "Below, among fresh cells, move the gain.", watch: ["[data-left] b", "of a change is left in a plain RNN after 100 steps"] },
  { view: "attention", title: "How attention looks back", models: needs("Transformer", looking), text: LINE,
    says: "A Transformer has no state that is handed on. At each token every head weighs all tokens before it and takes a mix. Some heads look at the token before, some at where the same word stood, some at nothing in particular.",
    do: "Go from head to head with the arrow keys.", watch: [".head[aria-pressed=true] [data-value]", "of entropy: how many tokens the head looks at"] },
  { view: "step", title: "One prediction, every number", models: needs("network", long), text: NEAR.trim(),
    says: "Nothing is hidden: these are the numbers by which this model, with its own weights, arrives at one probability. Each follows from those that light up when it is chosen.",
    do: "Choose a number and follow it back to the input.", watch: ["[data-probability]", "the probability"] },
  { view: "step", title: "The same without a network", models: needs("n-gram", ngram), text: NEAR.trim(),
    says: "An n-gram arrives at its probability by counting: how often was this seen after that, what is taken off for what was never seen, and what shorter contexts say. Compare the last line with the network's.",
    do: "Go to another token with next and previous.", watch: ["[data-probability]", "the probability"] },
];

export const stopOf = (options) => (/^\d+$/.test(options.tour ?? "") && STOPS[Number(options.tour) - 1] ? Number(options.tour) : null);

export function stopState(number, shelf, views) {
  const stop = STOPS[number - 1];
  if (!views.some((view) => view.name === stop.view)) return { missing: "This page has no such view." };
  const found = stop.models(shelf);
  if (typeof found === "string") return { missing: found };
  let models = found;
  if (stop.several) models = chosenFirst(shelf.models, shelf.comparison).map((model) => model.name);
  if (stop.every) models = [...new Set([...stop.every.map((name) => kind(name)(shelf)?.name).filter(Boolean)])];
  const options = { ...(stop.options ?? {}), tour: number };
  if (stop.other) [models, options.other] = [[found[0]], found[1]];
  return { view: stop.view, models, text: stop.text ?? null, options };
}

// The number that a stop is about, as the view shows it.
function Watch({ selector, says, view }) {
  const [value, setValue] = useState("");
  useEffect(() => {
    const look = () => setValue(document.querySelector(`.shown ${selector}`)?.textContent.trim().slice(0, 60) ?? "");
    const seen = new MutationObserver(look);
    seen.observe(document.body, { subtree: true, childList: true, characterData: true });
    look();
    return () => seen.disconnect();
  }, [selector, view]);
  return html`<p class="watch">Watch: <span class="big" data-watched>${value || "…"}</span> ${says}</p>`;
}

export function Tour({ number, shelf, views, state }) {
  const stop = STOPS[number - 1], there = stopState(number, shelf, views);
  const go = (to, push = true) => {
    const next = stopState(to, shelf, views);
    change(next.missing ? { options: cleared(state.options, { tour: to }) } : { ...next, options: cleared(state.options, next.options) }, push);
  };
  useEffect(() => { // a link to a stop without its state
    if (!there.missing && (state.view !== there.view || !state.models.length)) go(number, false);
  }, [number, there.view]);
  return html`<section class="tour" aria-label="Guided tour" data-unsaved><header><h2>${number}. ${stop.title}</h2><span class="soft small">stop ${number} of ${STOPS.length}</span></header>
    ${there.missing ? html`<p class="note" role="status">${there.missing}</p>` : html`<p>${stop.says}</p>
      <p><strong>Do:</strong> ${stop.do ?? "Change the beginning: "}${(stop.does ?? []).map(([name, part]) => html`<button type="button" aria-pressed=${String(state.text === part.text)} onClick=${() => change(part)}>${name}</button> `)}</p>
      <${Watch} selector=${stop.watch[0]} says=${stop.watch[1]} view=${`${number} ${state.view}`} />`}
    <p class="tools"><button type="button" disabled=${number === 1} onClick=${() => go(number - 1)}>‹ Back</button>
      <button type="button" class="primary" disabled=${number === STOPS.length} onClick=${() => go(number + 1)}>Next ›</button>
      <button type="button" class="quiet" onClick=${() => change({ options: { tour: null } }, true)}>End the tour</button></p></section>`;
}

// Options of the view before are left behind.
const cleared = (old, next) => ({ ...Object.fromEntries(Object.keys(old).filter((key) => key !== "c").map((key) => [key, null])), ...next });
