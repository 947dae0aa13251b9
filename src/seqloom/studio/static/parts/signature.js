// The footer of every view: what is shown, how to keep it, and the commands that give the same numbers.
import { html, useState } from "./html.js";
import { read } from "./address.js";
import { saveHtml, savePng } from "./save.js";

// Text as a shell and as Python write it.
export const inShell = (text) => (/^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
// A line for a terminal that prints JSON; what begins with a minus is no flag.
export const command = (name, given, flags = "") => (given.some((one) => one.startsWith("-")) ? `seqloom ${name}${flags} --json -- ${given.map(inShell).join(" ")}` : `seqloom ${name} ${given.map(inShell).join(" ")}${flags} --json`);
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
export const inPython = (value) => (typeof value === "string" ? quoted(value) : value === null ? "None" : value === true ? "True" : value === false ? "False"
  : Array.isArray(value) ? `[${value.map(inPython).join(", ")}]` : typeof value === "object" ? `{${Object.entries(value).map(([key, one]) => `${quoted(key)}: ${inPython(one)}`).join(", ")}}` : String(value));

// `models`: as the server describes them; `terminal`, `python`: lines that give the same numbers.
export function Signature({ view, models, text = null, seed = null, terminal = [], python = [] }) {
  const [failed, setFailed] = useState("");
  const chosen = Object.entries(read().options).map(([key, value]) => `${key}=${value}`).join(", ");
  const keep = (how) => async (event) => {
    try {
      setFailed("");
      await how(event.target.closest("main"), `seqloom-${view}`);
    } catch (error) {
      setFailed(`it could not be saved: ${error.message ?? "the picture is too large"}`);
    }
  };
  return html`<footer class="signature">
    <p>${models.map((model) => `${model.name} (${model.label ?? model.kind})`).join(", ") || "no model"}${text !== null ? `; text of ${[...text].length} characters` : ""}${seed !== null ? `; seed ${seed}` : ""}${chosen ? `; ${chosen}` : ""}.</p>
    ${terminal.length > 0 && html`<p>The same in a terminal:</p><pre data-terminal>${terminal.join("\n")}</pre>`}
    ${python.length > 0 && html`<p>In Python:</p><pre data-python>${python.join("\n")}</pre>`}
    <p class="tools" data-unsaved><button type="button" onClick=${keep(savePng)}>Save as PNG</button>
      <button type="button" onClick=${keep(saveHtml)}>Save as HTML</button>
      <button type="button" onClick=${() => navigator.clipboard?.writeText(location.href)}>Copy link</button></p>
    ${failed && html`<p class="error" role="alert">${failed}</p>`}</footer>`;
}
