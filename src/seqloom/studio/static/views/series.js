// Series: what came, what a forecaster expects with its bands, and the steps that it did not expect.
import { html, useMemo, useState } from "../parts/html.js";
import { useAsk } from "../parts/ask.js";
import { Choice, Slider, TextBox } from "../parts/controls.js";
import { FileBox, take } from "../parts/files.js";
import { None } from "../parts/none.js";
import { Axes, path, useWidth } from "../parts/plots.js";
import { Folded, Said, Table } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

const RATES = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3];
const USUAL = 2; // the place of the library's own rate
const BEFORE = 5; // horizons of history that are drawn before a forecast, unless all is
const short = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(5))));
const day = (time) => time.replace(/:00$/, "");

// One column of one series; `marks`: unusual steps by time.
function Chart({ name, history, ahead, marks, threshold }) {
  const [place, width] = useWidth();
  const [over, setOver] = useState(null);
  const times = [...new Set([...history.map((row) => row.time), ...ahead.map((row) => row.time)])];
  const at = new Map(times.map((time, i) => [time, i]));
  const values = [...history.map((row) => row.value), ...ahead.flatMap((row) => [row.forecast, row.low_95, row.high_95])].filter((value) => value !== null && Number.isFinite(value));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low) * 0.06 || 1;
  const came = new Map(history.map((row) => [row.time, row.value]));
  const expected = new Map(ahead.map((row) => [row.time, row]));
  const every = Math.max(1, Math.ceil(times.length / Math.max(2, Math.floor(width / 150))));
  const named = times.map((time, i) => [i, day(time)]).filter(([i]) => i % every === 0 && i < times.length - every / 3);
  const runs = history.reduce((lines, row) => { // gaps where values are missing
    if (row.value === null) lines.push([]);
    else lines.at(-1).push(row);
    return lines;
  }, [[]]);
  const key = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    setOver(Math.max(0, Math.min(times.length - 1, (over ?? times.length - ahead.length - 1) + step)));
  };
  const time = over === null ? null : times[over];
  const row = expected.get(time);
  const mark = marks.get(time);
  return html`<section class="chart" aria-label=${name}><h2>${name}</h2><div ref=${place} tabindex="0" role="group" aria-label=${`${name}, step by step`} aria-description="arrow keys go from step to step" onKeyDown=${key}>
    <${Axes} width=${width} height=${260} x=${[0, Math.max(1, times.length - 1)]} y=${[low - room, high + room]} xTicks=${named} onAt=${(step) => setOver(step === null ? null : Math.round(step))} label=${`${name}: ${history.length} steps and a forecast of ${ahead.length}`} xLabel="">${(across, up) => {
      const band = (share) => path([...ahead.map((one) => [across(at.get(one.time)), up(one[`high_${share}`])]), ...[...ahead].reverse().map((one) => [across(at.get(one.time)), up(one[`low_${share}`])])]) + "Z";
      return html`${ahead.length > 0 && html`<path class="band wide-band" d=${band(95)} /><path class="band" d=${band(80)} />`}
        ${runs.filter((one) => one.length).map((one, i) => html`<path key=${i} class="came" d=${path(one.map((step) => [across(at.get(step.time)), up(step.value)]))} />`)}
        ${ahead.length > 0 && html`<path class="line" d=${path(ahead.map((one) => [across(at.get(one.time)), up(one.forecast)]))} />`}
        ${[...marks.values()].filter((one) => at.has(one.time)).map((one) => html`<circle key=${one.time} class="mark" cx=${across(at.get(one.time))} cy=${up(one.value)} r="6" />`)}
        ${over !== null && html`<line class="cursor" x1=${across(over)} x2=${across(over)} y1=${up(high + room)} y2=${up(low - room)} />`}`;
    }}<//></div>
    <p class="detail" aria-live="polite">${time === null ? html`<span class="soft">Point at a step, or go through the steps with the arrow keys.</span>` : html`<strong>${day(time)}</strong>${came.has(time) ? ` came ${short(came.get(time))}` : ""}${row ? `; expected ${short(row.forecast)}, with 80% between ${short(row.low_80)} and ${short(row.high_80)}, with 95% between ${short(row.low_95)} and ${short(row.high_95)}` : ""}${mark ? `; unusual: expected ${short(mark.expected)}, score ${short(mark.score)} above ${short(threshold)}` : ""}`}</p></section>`;
}

export default function Series({ models, chosen, text, options, change }) {
  const model = chosen[0];
  const set = (part) => change({ options: part });
  const rate = RATES[Math.max(0, Math.min(RATES.length - 1, Number(options.rate ?? USUAL)))] ?? RATES[USUAL];
  const horizon = options.h ? Number(options.h) : null;
  const asked = { text, rate, ...(horizon ? { horizon } : {}), ...(options.since ? { since: options.since } : {}) };
  const answer = useAsk(...(model ? ["/studio/series", { model: model.name, ...asked }] : [null]), model?.stamp);
  const found = answer.values;
  const charts = useMemo(() => {
    if (!found) return [];
    const keys = [...new Set(found.history.map((row) => row.key))];
    return keys.flatMap((one) => found.columns.map((column) => {
      const ahead = found.forecast.filter((row) => row.key === one && row.column === column);
      let history = found.history.filter((row) => row.key === one).map((row) => ({ time: row.time, value: row.values[column] }));
      if (options.all !== "1") history = history.slice(-Math.max(BEFORE * ahead.length, 60));
      const marks = (found.anomalies?.anomalies ?? []).filter((row) => row.key === one && row.column === column);
      return { name: [one, column].filter(Boolean).join(": "), ahead, history, marks: new Map(marks.map((row) => [row.time, row])) };
    })).slice(0, 8);
  }, [found, options.all]);
  if (!model) return html`<${None} title="Series" what="forecaster" command="seqloom fit exponential-smoothing series.csv -o model" />`;
  const shown = found?.example ?? text;
  const times = found ? [...new Set(found.history.map((row) => row.time))] : [];
  const since = options.since ? times.indexOf(options.since) : times.length;
  const unusual = found?.anomalies?.anomalies ?? [];
  const file = "series.csv";
  const flags = `${horizon ? ` --horizon ${horizon}` : ""}${options.since ? ` --since ${inShell(options.since)}` : ""}`;
  const given = [horizon ? `horizon=${horizon}` : "", options.since ? `since=${inPython(options.since)}` : ""].filter(Boolean).map((one) => `, ${one}`).join("");
  return html`<h1>Series</h1>
    <p class="soft">What came, what ${model.name} expects next, and the steps that it did not expect. Drop a table with a column of times, or numbers alone, one a line.</p>
    <div class="controls"><${Choice} label="model" value=${model.name} choices=${models.map((one) => [one.name, one.name])} onChange=${(name) => change({ models: [name], options: { h: null, since: null } })} />
      ${found && found.horizon > 1 && html`<${Slider} label="steps ahead" min="1" max=${found.horizon} value=${horizon ?? found.horizon} onChange=${(value) => set({ h: value === found.horizon ? null : value })} />`}
      ${times.length > 3 && html`<${Slider} label="forecast begins at" min=${Math.max(1, Math.floor(times.length / 2))} max=${times.length} value=${since < 0 ? times.length : since} shown=${(i) => (i < times.length ? day(times[i]) : "the end")} onChange=${(i) => set({ since: times[i] ?? null })} />`}
      ${found?.anomalies && html`<${Slider} label="share of usual steps marked" min="0" max=${RATES.length - 1} value=${RATES.indexOf(rate)} shown=${(i) => `${RATES[i] * 100}%`} onChange=${(i) => set({ rate: i === USUAL ? null : i })} />`}
      ${found && html`<label class="tick"><input type="checkbox" checked=${options.all === "1"} onChange=${(event) => set({ all: event.target.checked ? "1" : null })} /> the whole series</label>`}</div>
    <${Said} answer=${answer} />
    ${found && html`${found.example && html`<p class="note">No series was given. This is a made-up wave with the mean${found.season > 1 ? `, the spread and the season of ${found.season} steps` : " and the spread"} that the model learned, and one step that does not belong.</p>`}
      ${found.said && html`<p class="soft">${found.said}</p>`}
      ${charts.map((chart) => html`<${Chart} key=${chart.name} ...${chart} threshold=${found.anomalies?.threshold} />`)}
      <p class="legend"><span><i class="stroke came"></i>what came</span><span><i class="stroke line"></i>forecast</span><span><i class="patch"></i>80%</span><span><i class="patch wide-band"></i>95%</span><span><i class="dot mark"></i>not as expected</span></p>
      ${found.anomalies && html`<p><span class="big" data-marked>${found.anomalies.marked.toLocaleString("en")}</span> of ${found.anomalies.steps.toLocaleString("en")} steps are further from what was expected one step before than usual <span class="soft">(score above ${short(found.anomalies.threshold)})</span></p>
        ${unusual.length > 0 && html`<${Table} label="steps that are not as expected" columns=${[{ title: "time", of: (row) => `${row.key ? `${row.key} ` : ""}${day(row.time)}` }, { title: "column", of: (row) => row.column }, { title: "came", of: (row) => short(row.value) }, { title: "expected", of: (row) => short(row.expected) }, { title: "score", of: (row) => short(row.score), sort: (row) => row.score }]}
          rows=${unusual.slice(0, 50).map((row, i) => ({ ...row, name: i }))} />`}`}
      <${Folded} title="The forecast in numbers"><${Table} label="forecast" columns=${[{ title: "time", of: (row) => `${row.key ? `${row.key} ` : ""}${day(row.time)}` }, { title: "column", of: (row) => row.column }, { title: "forecast", of: (row) => short(row.forecast) }, ...[80, 95].flatMap((share) => ["low", "high"].map((end) => ({ title: `${end} ${share}%`, of: (row) => short(row[`${end}_${share}`]) })))]}
        rows=${found.forecast.slice(0, 1000).map((row, i) => ({ ...row, name: i }))} /><//>`}
    <details class="more" open=${text !== ""}><summary>The series</summary><${FileBox} cut label="Open a table" accept=".csv,.tsv,.jsonl,.txt" onText=${(content) => change({ text: content, options: { since: null } })}>
      <${TextBox} label="A table or numbers" rows=${6} value=${shown} onChange=${(value) => change({ text: value, options: { since: null } })} /><//>
      <p class="go" data-unsaved><button type="button" onClick=${() => take(file, shown, "text/csv")}>Download ${file}</button>${text !== "" && html`<button type="button" onClick=${() => change({ text: "", options: { since: null } })}>The example</button>`}</p></details>
    <${Signature} view="series" models=${[model]} text=${shown}
      terminal=${[`seqloom forecast ${inShell(model.path)} ${file}${flags} --json`, `seqloom anomalies ${inShell(model.path)} ${file} --rate ${rate} --json`]}
      python=${["import pathlib, seqloom", "from seqloom.data.forecasting import read_series", `model, series = seqloom.load(${inPython(model.path)}), read_series("${file}")`, `model.forecast(series${given}).rows()`, `model.anomalies(series, rate=${rate}).rows()`].map((one, i) => (i ? one : "import seqloom"))} />`;
}
