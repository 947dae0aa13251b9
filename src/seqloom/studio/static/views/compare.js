// The comparison: the answer, a table with intervals, and links that open a model in the other views.
import { html, useState } from "../parts/html.js";
import { written } from "../parts/address.js";
import { Table, number } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

const bytes = (size) => (size >= 1e6 ? `${(size / 1e6).toFixed(1)} MB` : size >= 1e3 ? `${(size / 1e3).toFixed(0)} kB` : `${size ?? "-"}`);

export default function Compare({ comparison, all, views, text }) {
  const found = comparison ?? { rungs: [] };
  const measure = found.measure ?? "";
  const answer = (found.answer?.text ?? "").replace(/ To use the best:$/, "");
  const known = new Map(all.map((model) => [model.name, model]));
  const opens = (row) => {
    const model = known.get(row.model);
    if (!model) return "";
    const fitting = views.filter((view) => view.name !== "compare" && view.fits(model));
    return html`${fitting.map((view) => html`<a href=${written({ view: view.name, models: [model.name], text: text === found.held_out ? null : text })}>${view.title}</a> `)}`;
  };
  const columns = [
    { title: "model", of: (row) => row.name ?? row.model },
    { title: found.measure_title ?? measure.replaceAll("_", " "), of: (row) => number(row[measure]), sort: (row) => row[measure] },
    { title: "interval", of: (row) => (row.interval?.every?.(Number.isFinite) ? `${number(row.interval[0])} to ${number(row.interval[1])}` : "-") },
    { title: "parameters", of: (row) => row.parameters?.toLocaleString("en") ?? "-", sort: (row) => row.parameters },
    { title: "size", of: (row) => bytes(row.disk), sort: (row) => row.disk },
    { title: "training", of: (row) => (row.train_seconds == null ? "-" : `${number(row.train_seconds, 1)} s`), sort: (row) => row.train_seconds },
    { title: "open in", of: opens },
  ];
  const rungs = found.rungs.map((row) => ({ ...row, name: row.name ?? row.model }));
  const alone = all.filter((model) => !rungs.some((row) => row.model === model.name));
  const places = rungs.map((row) => known.get(row.model)).filter(Boolean);
  const best = places.find((model) => model.name === found.best) ?? places.at(-1);
  return html`<h1>Compare</h1>
    ${answer && html`<p class="answer">${answer}</p>`}
    ${rungs.length ? html`<${Table} label="models compared" columns=${columns} rows=${rungs} best=${found.best} />`
      : html`<p class="soft">No comparison is among these models; seqloom compare makes one.</p>`}
    ${alone.length > 0 && html`<h2>${rungs.length ? "Other models" : "Models"}</h2><${Table} label="models"
      columns=${[{ title: "model", of: (row) => row.name }, { title: "task", of: (row) => row.task }, { title: "kind", of: (row) => row.kind }, { title: "open in", of: opens }]}
      rows=${alone.map((model) => ({ ...model, model: model.name }))} />`}
    ${(found.skipped ?? []).length > 0 && html`<details><summary>${found.skipped.length} not trained</summary><ul>${found.skipped.map((one) => html`<li>${one.name}: ${one.reason}</li>`)}</ul></details>`}
    <${Signature} view="compare" models=${places} terminal=${best ? [`seqloom info ${inShell(best.path)}`] : []}
      python=${best ? ["import seqloom", `seqloom.load(${inPython(best.path)})`] : []} />`;
}
