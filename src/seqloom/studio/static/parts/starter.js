// A comparison of one's own file: dropped or chosen, begun, watched, stopped.
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./ask.js";

const MOST = 20e6; // bytes, as the server takes
const soon = () => dispatchEvent(new Event("shelfchange")); // the frame looks at the shelf again

export function Starter({ training }) {
  const [files, setFiles] = useState([]);
  const [minutes, setMinutes] = useState("0.3");
  const [curve, setCurve] = useState(false);
  const [said, setSaid] = useState("");
  const [over, setOver] = useState(false);
  const [input, box] = [useRef(null), useRef(null)];
  const take = (list) => {
    const found = [...list].slice(0, 2);
    const size = found.reduce((sum, file) => sum + file.size, 0);
    setSaid(size > MOST ? `${(size / 1e6).toFixed(1)} MB are more than the ${MOST / 1e6} MB that the page takes; seqloom compare FILE takes more.` : "");
    setFiles(size > MOST ? [] : found);
  };
  const begin = async () => {
    try {
      setSaid("");
      const decode = new TextDecoder("utf-8", { fatal: true });
      const sent = await Promise.all(files.map(async (file) => {
        try {
          return { name: file.name, content: decode.decode(await file.arrayBuffer()) };
        } catch {
          throw new Error(`${file.name} is not text in UTF-8; seqloom compare FILE reads other encodings and compressed files.`);
        }
      }));
      await ask("/studio/compare", { files: sent, minutes: Number(minutes), curve });
      setFiles([]);
      soon();
      scrollTo(0, 0);
    } catch (error) {
      setSaid(error.message);
    }
  };
  useEffect(() => { // anywhere on the page: a browser would leave it and open the file
    const files = (event) => event.dataTransfer?.types.includes("Files");
    const drag = (event) => files(event) && (event.preventDefault(), setOver(true));
    const leave = (event) => event.relatedTarget || setOver(false);
    const drop = (event) => {
      if (!files(event)) return;
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer.files);
      box.current.scrollIntoView({ block: "center" });
    };
    const heard = { dragover: drag, dragleave: leave, drop };
    for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear);
    return () => {
      for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear);
    };
  }, []);
  return html`<section class="starter" data-unsaved aria-label="Compare your own file"><h2>Compare models on your own file</h2>
    <div ref=${box} class=${`drop ${over ? "over" : ""}`}>
      <p>${files.length ? files.map((file) => `${file.name} (${(file.size / 1000).toLocaleString("en", { maximumFractionDigits: 0 })} kB)`).join(" and ") : "Drop a file here: a text, a table with labels, words with tags, a series, or pairs of sentences (one table, or two files)."}</p>
      <p><button type="button" onClick=${() => input.current.click()}>${files.length ? "Another file" : "Choose a file"}</button>
        <input ref=${input} class="hidden" type="file" multiple tabindex="-1" aria-label="file to compare models on" onChange=${(event) => take(event.target.files)} /></p></div>
    <div class="controls"><label>minutes for each network<br /><input type="number" min="0.05" max="60" step="0.05" value=${minutes} onInput=${(event) => setMinutes(event.target.value)} /></label>
      <label class="check"><input type="checkbox" checked=${curve} onChange=${(event) => setCurve(event.target.checked)} /> learning curves too (each network learns four more times)</label>
      <button type="button" class="primary" disabled=${!files.length || training?.running} onClick=${begin}>Compare</button></div>
    ${said && html`<p class="error" role="alert">${said}</p>`}
    <p class="soft small">It runs on this machine, in a process of its own; models and the file stay in the cache. What kind of data it is decides which models are compared.</p></section>`;
}

// What runs beside the page, on every view.
export function Watched({ training }) {
  const [said, setSaid] = useState("");
  if (!training || (!training.running && !training.error && !training.stopped)) return null;
  const stop = () => ask("/studio/stop", {}).then(soon, (error) => setSaid(error.message));
  const there = training.of ? `${training.done} of ${training.of} models are there` : "beginning";
  return html`<section class="watched" aria-label="Comparison that runs"><p role="status">${training.error ? html`<span class="error">${training.title}: ${training.error}</span>`
      : training.running ? html`<span><strong>${training.title}</strong>: ${there}, ${training.seconds} s</span><span class="soft">${training.said}</span>`
      : `${training.title} was stopped; ${there}.`}</p>
    ${training.running && html`<p><progress max=${training.of || 1} value=${training.done} aria-label="models trained"></progress><button type="button" onClick=${stop}>Stop</button></p>`}
    ${said && html`<p class="error" role="alert">${said}</p>`}</section>`;
}
