// The models of a comparison in order, and some of them to begin with.
const START = 4; // models that are shown first

export const form = (pattern, value) => { // Python's formats of the library's columns: .3f, .1%, ,.2f
  if (typeof value !== "number" || !Number.isFinite(value)) return value === undefined || value === null ? "-" : String(value);
  const [, comma, digits, kind] = /^(,?)\.?(\d*)([f%d]?)$/.exec(pattern ?? ".3f") ?? ["", "", "3", "f"];
  if (kind === "%") return `${(100 * value).toFixed(Number(digits || 0))}%`;
  return comma ? value.toLocaleString("en", { minimumFractionDigits: Number(digits || 0), maximumFractionDigits: Number(digits || 0) }) : value.toFixed(Number(digits || 0));
};

// Rows of a comparison from the worst to the best.
export function ordered(comparison) {
  const rows = (comparison?.rungs ?? []).map((row) => ({ ...row, name: row.name ?? row.model }));
  const sign = comparison?.lower_is_better === false ? 1 : -1;
  const value = (row) => (typeof row[comparison.measure] === "number" ? row[comparison.measure] : -sign * Infinity);
  return rows.sort((a, b) => sign * (value(a) - value(b)) || 0);
}

// The models among `models` in that order, those of no comparison last.
export function ladder(models, comparison) {
  const names = ordered(comparison).map((row) => row.model);
  const known = new Map(models.map((model) => [model.name, model]));
  const found = names.map((name) => known.get(name)).filter(Boolean);
  return found.length ? found : models;
}

// Some models of different kinds: the best of the comparison, then the best n-gram, recurrent network, Transformer, and others.
const KINDS = [["ngram"], ["lstm", "gru", "rnn"], ["gpt"], ["hmm"], ["nplm"]];
export function chosenFirst(models, comparison) {
  const able = models.filter((model) => model.family !== "calibration");
  const rungs = ladder(able, comparison).reverse();
  const ranked = ordered(comparison).some((row) => rungs.some((model) => model.name === row.model));
  const best = KINDS.map((kinds) => rungs.find((model) => kinds.includes(model.kind) && model.task === "language model"));
  return [...new Set([ranked && rungs[0], ...best, ...rungs, models[0]].filter(Boolean))].slice(0, START);
}

export const modelOf = (comparison, rung) => comparison?.rungs.find((row) => row.name === rung)?.model ?? rung;
