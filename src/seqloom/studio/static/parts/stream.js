// Server-sent events of a request: yields each as JSON until [DONE]; a signal that aborts ends the work too.
import { Failed } from "./ask.js";

export async function* stream(path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The server does not answer; is `seqloom studio` still running?", 0);
  }
  if (!answer.ok) throw new Failed((await answer.json().catch(() => null))?.error?.message ?? `The server answered ${answer.status}.`, answer.status);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    left += value;
    const events = left.split("\n\n");
    left = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") continue; // the connection ends by itself
      const values = JSON.parse(data);
      if (values.error) throw new Failed(values.error.message, values.error.code ?? 500);
      yield values;
    }
  }
}
