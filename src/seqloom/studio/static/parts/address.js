// The whole state is in the address: #view?m=a&m=b&t=text&top=10. Defaults are left out.
import { useEffect, useState } from "./html.js";

// A part of an address as it was written, also where somebody cut it off within an escape.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function read() {
  const [view, query] = location.hash.slice(1).split(/\?(.*)/s);
  const fields = new URLSearchParams(query ?? "");
  const options = {};
  for (const [key, value] of fields) if (key !== "m" && key !== "t") options[key] = value;
  return { view: decoded(view) || "compare", models: fields.getAll("m"), text: fields.get("t"), options };
}

export function written({ view, models = [], text = null, options = {} }) {
  const fields = new URLSearchParams();
  for (const model of models) fields.append("m", model);
  if (text !== null) fields.set("t", text);
  for (const [key, value] of Object.entries(options)) if (value !== null && value !== undefined && value !== "") fields.set(key, value);
  const query = fields.toString();
  return `#${encodeURIComponent(view)}${query ? `?${query}` : ""}`;
}

// Change a part of the state; `push` makes it a step that Back undoes.
export function change(part, push = false) {
  const now = read();
  const next = { ...now, ...part, options: part.options ? { ...now.options, ...part.options } : now.options };
  const address = written(next);
  if (address === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", address);
  dispatchEvent(new Event("addresschange"));
}

export function useAddress() {
  const [state, setState] = useState(read);
  useEffect(() => {
    const look = () => setState(read());
    const events = ["hashchange", "popstate", "addresschange"];
    events.forEach((name) => addEventListener(name, look));
    return () => events.forEach((name) => removeEventListener(name, look));
  }, []);
  return state;
}
