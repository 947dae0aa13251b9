// Every view: its name in the address, its title, which models fit, and its file, loaded when first opened;
// `start` makes the text that it begins with of the held-out text.
// A view's module has a default export: a component of {models, all, chosen, text, options, comparison, change}.
const language = (model) => model.task === "language model";
// const has = (name) => (model) => model.views === null || model.views.includes(name);

const firstLine = (text) => text.split("\n").find((line) => line.includes(" ")) ?? text;

export const VIEWS = [
  { name: "compare", title: "Compare", fits: () => true, load: () => import("./compare.js") },
  { name: "next", title: "Next token", fits: language, start: firstLine, load: () => import("./next.js") },
  { name: "surprise", title: "Surprise", fits: language, load: () => import("./surprise.js") },
  { name: "play", title: "Playground", fits: () => true, start: firstLine, load: () => import("./play.js") },
  { name: "ngrams", title: "n-grams", fits: (model) => model.kind === "ngram", start: firstLine, load: () => import("./ngrams.js") },
  { name: "trellis", title: "Hidden states", fits: (model) => ["hmm", "hmm-tagger"].includes(model.kind), start: firstLine, load: () => import("./trellis.js") },
  { name: "vectors", title: "Vectors", fits: (model) => /^(word|sentence) vectors$/.test(model.task), load: () => import("./vectors.js") },
  { name: "series", title: "Series", fits: (model) => model.task === "forecaster", start: () => "", load: () => import("./series.js") },
];
