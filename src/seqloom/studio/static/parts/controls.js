// Text box, sliders, choices, and which models are looked at.
import { html, useEffect, useRef, useState } from "./html.js";

export const MOST_TEXT = 50000; // characters that an address still holds
export const leftOut = (whole) => `Of ${whole.toLocaleString("en")} characters, the first ${MOST_TEXT.toLocaleString("en")} are looked at.`;

// The text that all views share; told after a pause, or at once with Ctrl-Enter; one that is too long is cut.
export function TextBox({ value, onChange, label = "Text", rows = 3 }) {
  const [draft, setDraft] = useState(value);
  const timer = useRef(0);
  const last = useRef(value);
  useEffect(() => {
    if (value !== last.current) setDraft(value);
    last.current = value;
  }, [value]);
  const [said, setSaid] = useState("");
  const tell = (whole) => {
    const text = whole.slice(0, MOST_TEXT);
    const cut = text.length < whole.length;
    setSaid(cut ? leftOut(whole.length) : "");
    if (cut) setDraft(text);
    last.current = text;
    onChange(text);
  };
  const changed = (event) => {
    const text = event.target.value;
    setDraft(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => tell(text), 350);
  };
  const key = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      clearTimeout(timer.current);
      tell(event.target.value);
    }
  };
  return html`<label>${label}<textarea rows=${rows} spellcheck=${false} value=${draft} onInput=${changed} onKeyDown=${key} /></label>
    ${said && html`<p class="note" role="status">${said}</p>`}`;
}

// A slider whose effect is at once; `shown` writes its value.
export function Slider({ label, value, min, max, step = 1, onChange, shown = String }) {
  return html`<label class="slider">${label} <span class="value">${shown(value)}</span>
    <input type="range" min=${min} max=${max} step=${step} value=${value} aria-valuetext=${shown(value)}
      onInput=${(event) => onChange(Number(event.target.value))} /></label>`;
}

export const Check = ({ label, value, onChange }) => html`<label class="check"><input type="checkbox" checked=${value} onChange=${(event) => onChange(event.target.checked)} /> ${label}</label>`;

// One of several: choices are [value, label].
export function Choice({ label, value, choices, onChange }) {
  return html`<label>${label}<br /><select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${choices.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}</select></label>`;
}

// Which models, any number of them up to `most`.
export function Picker({ models, chosen, onChange, label = "Models", most = 100 }) {
  const toggle = (name) => {
    const next = chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name];
    onChange(next.slice(-most));
  };
  return html`<fieldset class="picker"><legend>${label}</legend>
    ${models.map((model) => html`<button key=${model.name} type="button" aria-pressed=${String(chosen.includes(model.name))}
      title=${`${model.kind}${model.tokenizer ? `, ${model.tokenizer}` : ""}\n${model.path}`}
      onClick=${() => toggle(model.name)}>${model.name}</button>`)}</fieldset>`;
}
