// Files that a reader opens or drops, and files that a reader takes along.
import { html, useState } from "./html.js";
import { MOST_TEXT, leftOut } from "./controls.js";

const MOST_FILE = 2_000_000; // bytes

export function take(name, text, kind = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  Object.assign(document.createElement("a"), { download: name, href: url }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// A place for a file: `onText(content, name)`; what stands inside may be dropped on; `cut`: no more than the address holds.
export function FileBox({ label = "Open a file", accept, onText, cut = false, children }) {
  const [said, setSaid] = useState("");
  const [left, setLeft] = useState("");
  const [over, setOver] = useState(false);
  const read = async (file) => {
    if (!file) return;
    if (file.size > MOST_FILE) {
      setSaid(`${file.name} has ${file.size.toLocaleString("en")} bytes; the page takes ${MOST_FILE.toLocaleString("en")}: give a part of it.`);
      return;
    }
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      const long = cut && text.length > MOST_TEXT;
      setSaid("");
      setLeft(long ? leftOut(text.length) : "");
      onText(long ? text.slice(0, MOST_TEXT) : text, file.name);
    } catch {
      setSaid(`${file.name} is not UTF-8 text.`);
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    read(event.dataTransfer.files[0]);
  };
  return html`<div class=${`filebox${over ? " over" : ""}`} onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
    onDragLeave=${() => setOver(false)} onDrop=${drop}>${children}
    <label class="file" data-unsaved>${label}<input type="file" accept=${accept} onChange=${(event) => { read(event.target.files[0]); event.target.value = ""; }} /></label>
    ${left && html`<p class="note" role="status">${left}</p>`}${said && html`<p class="error" role="alert">${said}</p>`}</div>`;
}
