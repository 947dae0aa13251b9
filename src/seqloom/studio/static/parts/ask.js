// Questions to the server: errors in one line, one answer a question, and a retry when the server is back.
import { useEffect, useState } from "./html.js";

export class Failed extends Error {
  constructor(message, status) {
    super(message);
    this.status = status; // 0: the server does not answer
  }
}

export async function ask(path, body, { signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, body === undefined
      ? { signal }
      : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The server does not answer; is `seqloom studio` still running? This page tries again.", 0);
  }
  let values = null;
  try {
    values = await answer.json();
  } catch {
    throw new Failed(`The server answered ${answer.status} with something that is not JSON.`, answer.status);
  }
  if (!answer.ok) throw new Failed(values?.error?.message ?? `The server answered ${answer.status}.`, answer.status);
  return values;
}

const kept = new Map(); // answers of this page's life, by question
const MOST_KEPT = 300;
const READS = /\/(passage|lanes|backoff|discounts|prediction|trellis|clamp|similar|difference)$/; // what reads a text

export function forget() {
  kept.clear();
}

// Ask once and keep the answer.
export async function askOnce(path, body, options) {
  const key = path + JSON.stringify(body ?? null);
  if (body?.text === "" && READS.test(path)) throw new Failed("The text is empty; write one.", 400);
  if (kept.has(key)) return kept.get(key);
  const values = await ask(path, body, options);
  if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
  kept.set(key, values);
  return values;
}

// The answers of several questions: [{values, error, waiting}], in the order of `questions` ([path, body] or null).
export function useAsked(questions, again = 0) {
  const key = JSON.stringify(questions) + again;
  const empty = () => questions.map((one) => ({ values: null, error: null, waiting: one !== null }));
  const [state, setState] = useState({ key, answers: empty() });
  useEffect(() => {
    const ended = new AbortController();
    const timers = [];
    const answers = empty();
    const told = () => setState({ key, answers: [...answers] });
    const one = async (i) => {
      const [path, body] = questions[i];
      try {
        answers[i] = { values: await askOnce(path, body, { signal: ended.signal }), error: null, waiting: false };
      } catch (error) {
        if (error.name === "AbortError") return;
        answers[i] = { values: null, error: error.message, waiting: error.status === 0 };
        if (error.status === 0 || error.status === 429 || error.status === 503) timers.push(setTimeout(() => one(i), 1500));
      }
      if (!ended.signal.aborted) told();
    };
    questions.forEach((question, i) => question && one(i));
    return () => {
      ended.abort();
      timers.forEach(clearTimeout);
    };
  }, [key]);
  return state.key === key ? state.answers : state.answers.length === questions.length
    ? state.answers.map((old) => ({ ...old, waiting: true })) : empty();
}

export const useAsk = (path, body, again = 0) => useAsked([path === null ? null : [path, body]], again)[0];
