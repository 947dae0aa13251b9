// Runs: how training goes or went, of one or several networks, while it is written, with the advice beside it.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { decoded } from "../parts/address.js";
import { ask, useAsk } from "../parts/ask.js";
import { Choice, Slider } from "../parts/controls.js";
import { Curves } from "../parts/curves.js";
import { Bars, Folded, Said, Table, number, percent } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

const [EVERY, SELDOM] = [2000, 6000]; // milliseconds between two looks at a log that is written, and at others
const [WRITERS, TOKENS] = [4, 200]; // models that write a sample, and how much
const X = { steps: "step", tokens: "tokens", seconds: "seconds" };

// Asked again and again while the page is seen; `act` returns how long to wait.
function useRepeated(act, key) {
  useEffect(() => {
    let timer = 0, gone = false;
    const look = async () => {
      clearTimeout(timer);
      const wait = document.visibilityState === "visible" ? await act(() => gone) : SELDOM;
      if (!gone) timer = setTimeout(look, wait);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [key]);
}

function useRunList() {
  const [runs, setRuns] = useState(null);
  useRepeated(async (gone) => {
    try {
      const found = await ask("/studio/runs");
      if (!gone()) setRuns((old) => (JSON.stringify(old) === JSON.stringify(found.runs) ? old : found.runs));
    } catch { /* the frame says that the server does not answer */ }
    return EVERY;
  }, "");
  return runs;
}

function useRuns(names, by) {
  const [state, setState] = useState({ values: null, error: null, waiting: true });
  const kept = useRef(null);
  const key = JSON.stringify([names, by]);
  useRepeated(async (gone) => {
    if (!names.length) return SELDOM;
    let wait = SELDOM;
    try {
      const stamp = kept.current?.key === key ? kept.current.values.stamp : undefined;
      const values = await ask("/studio/run", { runs: names, by, stamp });
      if (gone()) return wait;
      if (values.data !== undefined) {
        kept.current = { key, values };
        setState({ values, error: null, waiting: false });
      } else setState((old) => (old.error ? { ...old, error: null } : old));
      if (values.stamp.some((one) => one[1] === "training") || values.stamp.length < names.length) wait = EVERY;
    } catch (failed) {
      if (!gone()) setState((old) => ({ ...old, error: failed.message, waiting: false }));
      wait = EVERY;
    }
    return wait;
  }, key);
  return kept.current?.key === key || state.error ? state : { ...state, waiting: true };
}

const dot = (state) => html`<i class=${state} aria-hidden="true"></i>`;

function charts(data, names, by) {
  const x = X[by], of = (name) => data.rows.filter((row) => row.run === name && !("diverged" in row));
  const bits = data.unit === "bits per byte";
  const several = names.length > 1, called = (name, what) => (several ? `${name}${what === "training" ? "" : `, ${what}`}` : what);
  const points = (name, having, key) => of(name).filter((row) => having in row && key in row && x in row).map((row) => [row[x], row[key]]);
  const each = (having, key, what, more = {}) => names.map((name, hue) => ({ name: called(name, what), hue, points: points(name, having, key), ...more }));
  const criterion = data.rows.find((row) => row.criterion !== undefined)?.criterion;
  const own = names.filter((name) => !of(name).some((row) => row.criterion !== undefined));
  const speed = Object.keys(data.rows.find((row) => Object.keys(row).some((key) => key.endsWith("s_per_s"))) ?? {}).find((key) => key.endsWith("s_per_s"));
  const found = [
    { title: "Loss", yLabel: data.unit, height: 300, big: true, series: [...each("loss", bits ? "bits_per_byte" : "loss", "training"),
      ...names.map((name, hue) => ({ name: called(name, "held-out"), hue, dashed: true, dots: true, points: own.includes(name) ? points(name, "valid", bits ? "bits_per_byte" : "valid") : [] }))] },
    criterion && { title: `Held-out ${criterion}`, series: each("valid", "valid", "held-out", { dots: true }) },
    { title: "Learning rate", series: each("lr", "lr", "rate"), from: 0 },
    { title: "Gradient norm", yLabel: "dashed: the largest since the last line", series: [...each("norm", "norm", "norm"), ...each("norm", "largest_norm", "largest", { dashed: true })], log: true },
    { title: "Clipped steps", yLabel: "share since the last line", series: each("clipped", "clipped", "clipped"), from: 0 },
    speed && { title: "Speed", yLabel: speed.replace("_per_s", " per second"), series: each(speed, speed, "speed"), from: 0 },
    ...names.slice(0, 3).map((name) => {
      const layers = [...new Set(of(name).flatMap((row) => Object.keys(row).filter((key) => key.startsWith("norm."))))];
      return layers.length ? { title: `Gradient norm by layer${several ? `: ${name}` : ""}`, log: true, series: layers.map((key, hue) => ({ name: key.slice(5), hue, dashed: hue >= 8, points: points(name, key, key) })) } : null;
    }),
  ];
  return found.filter((one) => one && (one.big || one.series.some((line) => line.points.length)));
}

function Inside({ run, several }) {
  const gates = Object.values(run.gates ?? {});
  const reach = Object.entries(run.reach ?? {});
  return html`${gates.length > 0 && html`<section class="gatebars"><h2>Gates at the last look${several ? `: ${run.run}` : ""}</h2><p class="soft small">Share of values below 0.1 (closed) and above 0.9 (open); of a candidate or state, beyond 0.8 on either side.</p>
      <${Bars} label="gates that are closed or at an end" rows=${gates.flatMap((gate) => {
        const name = gate.name.replace(/^recurrent\./, "layer ");
        return [{ key: `${gate.name} low`, name: gate.high ? `${name} closed` : `${name} at ends`, title: gate.name, value: gate.low }, ...(gate.high ? [{ key: `${gate.name} high`, name: `${name} open`, title: gate.name, value: gate.high }] : [])];
      })} /></section>`}
    ${reach.map(([stack, points]) => html`<section key=${stack}><${Curves} title=${`How far back gradients reach${several ? `: ${run.run}` : ""}`} yLabel="share of the gradient one step back" log=${true} xLabel="steps back" series=${[{ name: stack, hue: 0, dots: true, points: Object.entries(points).map(([distance, share]) => [Number(distance), share]) }]} /></section>`)}`;
}

function Written({ model, seed, change }) {
  const answer = useAsk(...(seed === null ? [null] : ["/v1/completions", { model: model.name, prompt: "", max_tokens: TOKENS, seed }]), model.stamp);
  return html`<div><p><button type="button" onClick=${() => change({ options: { seed: seed === null ? 0 : seed + 1 } })}>${seed === null ? `Let ${model.name} write` : "Another"}</button> ${seed !== null && html`<span class="soft small">${model.name}, seed ${seed}, ${TOKENS} tokens</span>`}</p>
    ${seed !== null && html`<${Said} answer=${answer} />${answer.values && html`<div class="written" data-written tabindex="0" role="region" aria-label=${`text of ${model.name}`}>${answer.values.choices[0].text}</div>`}`}</div>`;
}

export default function Runs({ all, options, change }) {
  const runs = useRunList();
  const told = (options.runs ?? "").split(",").filter(Boolean).map(decoded);
  const known = new Map((runs ?? []).map((one) => [one.name, one]));
  // a run that has ended is the saved model from then on
  const named = told.map((name) => (!known.has(name) && name.endsWith(".run") && known.has(name.slice(0, -4)) ? name.slice(0, -4) : name));
  const names = named.length ? [...new Set(named)] : runs?.length ? [runs[0].name] : [];
  const by = X[options.by] ? options.by : "steps";
  const answer = useRuns(runs ? names : [], by);
  const [at, setAt] = useState(null);
  const found = answer.values?.data;
  const live = found?.runs.map((run) => run.run) ?? [];
  const drawn = useMemo(() => (found ? charts(found, live, by) : []), [found, by]);
  const toggle = (name) => {
    const next = names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
    change({ options: { runs: next.map(encodeURIComponent).join(",") || null } });
  };
  const seed = options.seed === undefined ? null : Number(options.seed) || 0;
  const writers = live.map((name) => all.find((model) => model.name === known.get(name)?.model && model.task === "language model")).filter(Boolean);
  const paths = live.map((name) => known.get(name)?.path).filter(Boolean);
  const advice = Object.entries(answer.values?.advice ?? {});
  return html`<h1>Runs</h1>
    <p class="soft">How training goes: a run that is being written is read again every two seconds. Choose several to lay them over each other.</p>
    ${runs === null ? html`<p class="wait" role="status">One moment ...</p>` : runs.length ? html`<ul class="runlist" aria-label="runs">${runs.slice(0, 60).map((one) => html`<li key=${one.name}><button type="button" aria-pressed=${String(names.includes(one.name))} title=${one.path} onClick=${() => toggle(one.name)}>${dot(one.state)}${one.name}<span class="small">${one.state === "finished" ? "" : one.state}</span></button></li>`)}</ul>`
      : html`<p class="soft">No run is below these directories. A network that is trained with seqloom fit keeps its log, also while it trains: begin one and it appears here.</p>`}
    <div class="controls" data-unsaved><${Choice} label="against" value=${by} choices=${[["steps", "steps"], ["tokens", "tokens"], ["seconds", "seconds"]]} onChange=${(value) => change({ options: { by: value === "steps" ? null : value } })} /></div>
    ${names.length > 0 && html`<${Said} answer=${answer} />`}
    ${Object.entries(answer.values?.problems ?? {}).map(([name, problem]) => html`<p class="note" role="status" key=${name}>${problem}</p>`)}
    ${found && html`<${Table} label="the runs" columns=${[{ title: "run", of: (run) => run.run }, { title: "state", of: (run) => (run.state.startsWith("finished") ? "finished" : run.state.split(";")[0].replace(/^still | \(process \d+\)/g, "")) }, { title: "steps", of: (run) => run.steps.toLocaleString("en"), sort: (run) => run.steps }, { title: "passes", of: (run) => (run.epochs == null ? "-" : number(run.epochs, 2)) },
        { title: "time", of: (run) => (run.seconds == null ? "-" : run.seconds < 100 ? `${number(run.seconds, 1)} s` : `${number(run.seconds / 60, 1)} min`) }, { title: "loss", of: (run) => (run.loss == null ? "-" : number(run.loss, 4)), sort: (run) => run.loss },
        { title: "best held-out", of: (run) => (run.valid == null ? "-" : html`${number(run.valid, 4)} <span class="soft">${run.criterion}</span>`), sort: (run) => run.valid }, { title: "at step", of: (run) => run.best_step?.toLocaleString("en") ?? "-" }, { title: "clipped", of: (run) => (run.clipped == null ? "-" : percent(run.clipped)) }]} rows=${found.runs.map((run) => ({ ...run, name: run.run }))} />
      <div class="runpage"><div>
      ${drawn.filter((one) => one.big).map((one) => html`<div class="curvegrid first" key=${one.title}><${Curves} ...${one} xLabel=${by} at=${at} onAt=${setAt} /></div>`)}
      <div class="curvegrid">${drawn.filter((one) => !one.big).map((one) => html`<${Curves} key=${one.title} ...${one} xLabel=${by} at=${at} onAt=${setAt} />`)}
        ${found.runs.slice(0, 3).map((run) => html`<${Inside} key=${run.run} run=${run} several=${found.runs.length > 1} />`)}</div>
      ${writers.length > 0 && html`<h2>What it writes</h2><p class="soft small">Logs hold no samples; a saved model writes one now.</p>${writers.slice(0, WRITERS).map((model) => html`<${Written} key=${model.name} model=${model} seed=${seed} change=${change} />`)}`}
      <${Folded} title="The last lines of the logs"><${Table} label="lines of the logs" columns=${["run", "step", "loss", "valid", "bits_per_byte", "lr", "norm", "largest_norm", "clipped", "tokens", "seconds"].map((key) => ({ title: key.replaceAll("_", " "), of: (row) => (typeof row[key] === "number" ? (Number.isInteger(row[key]) ? row[key].toLocaleString("en") : +row[key].toPrecision(5)) : row[key] ?? "-") }))}
        rows=${found.rows.slice(-200).map((row, i) => ({ ...row, name: `${row.run} ${row.step} ${i}` }))} /><//>
      </div><aside class="advice" aria-label="Advice"><h2>Advice</h2>${advice.map(([name, one]) => html`<section key=${name}>${advice.length > 1 && html`<h3>${name}</h3>`}
        ${one.findings.length === 0 && html`<p class="soft small">No rule finds anything.</p>`}
        ${one.findings.map((finding) => html`<article key=${finding.rule} data-rule=${finding.rule}><p>${finding.says}.</p><p class="try">Try: ${finding.advice}</p></article>`)}
        ${one.remarks.map((remark) => html`<p class="soft small" key=${remark}>${remark}</p>`)}</section>`)}</aside></div>`}
    <${Signature} view="runs" models=${all.filter((model) => live.includes(model.name))} seed=${seed}
      terminal=${paths.length ? [`seqloom inspect run ${paths.map(inShell).join(" ")}${by === "steps" ? "" : ` --by ${by}`} --json`, ...paths.map((path) => `seqloom advise ${inShell(path)} --json`), ...(seed === null ? [] : writers.slice(0, WRITERS).map((model) => `seqloom generate ${inShell(model.path)} '' --max-tokens ${TOKENS} --seed ${seed}`))] : []}
      python=${paths.length ? ["import seqloom", `seqloom.inspect.run([${paths.map(inPython).join(", ")}], by=${inPython(by)}).data`, ...paths.map((path) => `seqloom.advise(${inPython(path)}).to_dict()`), ...(seed === null ? [] : writers.slice(0, WRITERS).map((model) => `seqloom.load(${inPython(model.path)}).generate("", max_tokens=${TOKENS}, seed=${seed})`))] : []} />`;
}
