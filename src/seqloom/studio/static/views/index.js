// Every view: its name in the address, its title and its group in the menu, which models fit, and its file, loaded
// when first opened; `start` makes the text that it begins with of the held-out text and the comparison; `own`: its
// text is nothing for other views; `style` is a file of its own
// beside it, which holds while the view is open. A view's module has a default export: a component of {models, all, chosen, text, heldOut, options,
// comparison, comparisons, training, views, change}. A model's `views` are null until it was first opened.
export const language = (model) => model.task === "language model";
export const has = (name) => (model) => model.views === null || model.views.includes(name);
export const part = (name) => (model) => model.parts.includes(name); // of its network, known before it is opened
const fewLines = (text) => `${text.slice(0, 240).split("\n").slice(0, -1).join("\n") || text.slice(0, 240)}\n`;
export const firstLine = (text) => text.split("\n").find((line) => line.includes(" ")) ?? text;

export const GROUPS = { home: "", text: "One text", inside: "Inside a model", data: "Data and training", learn: "Learn" };

export const VIEWS = [
  { group: "home", name: "compare", title: "Compare", fits: () => true, start: (text, comparison) => comparison?.lines ?? text, load: () => import("./compare.js") },

  { group: "text", name: "next", title: "Next token", fits: language, start: firstLine, load: () => import("./next.js") },
  { group: "text", name: "surprise", title: "Surprise", fits: language, load: () => import("./surprise.js") },

  { group: "text", name: "play", title: "Playground", fits: () => true, start: firstLine, style: "play.css", load: () => import("./play.js") },
  { group: "inside", name: "ngrams", title: "n-grams", fits: (model) => model.kind === "ngram", start: firstLine, style: "play.css", load: () => import("./ngrams.js") },
  { group: "inside", name: "trellis", title: "Hidden states", fits: (model) => ["hmm", "hmm-tagger"].includes(model.kind), start: firstLine, style: "play.css", load: () => import("./trellis.js") },
  { group: "data", name: "vectors", title: "Vectors", fits: (model) => /^(word|sentence) vectors$/.test(model.task), style: "play.css", load: () => import("./vectors.js") },
  { group: "data", name: "series", title: "Series", own: true, fits: (model) => model.task === "forecaster", start: () => "", style: "play.css", load: () => import("./series.js") },

  { group: "inside", name: "step", title: "Step by step", fits: language, start: firstLine, style: "inside.css", load: () => import("./step.js") },
  { group: "inside", name: "gates", title: "Gates and states", fits: part("recurrent"), start: fewLines, style: "inside.css", load: () => import("./gates.js") },
  { group: "inside", name: "reach", title: "Gradient reach", fits: (model) => language(model) && (part("recurrent")(model) || part("attention")(model)), start: fewLines, style: "inside.css", load: () => import("./reach.js") },
  { group: "inside", name: "attention", title: "Attention", fits: part("attention"), start: firstLine, style: "attention.css", load: () => import("./attention.js") },
  { group: "inside", name: "alignments", title: "Alignments", fits: (model) => model.task === "translator", start: firstLine, style: "attention.css", load: () => import("./alignments.js") },
  { group: "data", name: "runs", title: "Runs", fits: () => false, // it looks at runs, saved or not
     style: "runs.css", load: () => import("./runs.js") },
  { group: "learn", name: "game", title: "Guess the text", fits: language, load: () => import("./game.js") },
];
