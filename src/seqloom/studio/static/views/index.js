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
];
