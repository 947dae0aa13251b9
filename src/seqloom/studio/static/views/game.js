// Shannon's game: guess held-out text character by character, and be a row of the comparison's table.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { useAsk, useAsked } from "../parts/ask.js";
import { Picker, Slider } from "../parts/controls.js";
import { chosenFirst, ordered } from "../parts/ladder.js";
import { Bar, Rungs } from "../parts/rungs.js";
import { Legend, Said, heat, number, visible } from "../parts/shown.js";
import { Signature, inPython, inShell } from "../parts/signature.js";

const PATH = "/studio/game", FEW = 20; // characters after which a number says something
const read = (text) => (text ?? "").split(".").map(Number).filter((one) => Number.isInteger(one) && one > 0);

export default function Game({ models, chosen, text, options, comparison, change }) {
  const start = Math.max(0, Math.min(text.length, Number(options.from ?? text.indexOf("\n", 40) + 1) || 0));
  const ranks = useMemo(() => read(options.g), [options.g]);
  const wrong = options.w ?? "";
  const [last, setLast] = useState(null); // what was told last
  const field = useRef(null);
  const answer = useAsk(PATH, { text, start, guesses: ranks });
  const found = answer.waiting ? null : answer.values;
  const shown = options.show === "1";
  const rivals = useMemo(() => (chosen.length ? chosen : chosenFirst(models, comparison)), [chosen, models, comparison]);
  const others = useAsked(rivals.map((model) => (shown && ranks.length ? [PATH, { text, start, guesses: ranks, model: model.name, stamp: undefined }] : null)));
  const alphabet = (found ?? answer.values)?.alphabet ?? "";
  const given = (character) => !alphabet.includes(character);
  // Where the next character stands: after those that were guessed, past those that are told.
  const next = useMemo(() => {
    if (!alphabet) return null;
    let [i, left] = [start, ranks.length];
    while (i < text.length && (given(text[i]) || left > 0)) left -= given(text[i++]) ? 0 : 1;
    return i < text.length ? i : null;
  }, [alphabet, start, ranks, text]);
  useEffect(() => field.current?.focus({ preventScroll: true }), [next, options.show]);
  const keep = (list, w) => change({ options: { g: list.join(".") || null, w: w || null, from: options.from ?? start } });
  const guess = (character) => {
    if (next === null || !alphabet.includes(character) || wrong.includes(character)) return;
    if (character === text[next]) {
      setLast({ character, tries: wrong.length + 1 });
      keep([...ranks, wrong.length + 1], "");
    } else keep(ranks, wrong + character);
  };
  const tell = () => { // as if the rest had been guessed from the most usual character on
    if (next === null) return;
    const tries = wrong.length + 1 + [...alphabet].filter((one) => !wrong.includes(one)).indexOf(text[next]);
    setLast({ character: text[next], tries, told: true });
    keep([...ranks, tries], "");
  };
  const again = () => {
    setLast(null);
    change({ options: { g: null, w: null, show: null } });
  };
  const byPlace = new Map((answer.values?.at ?? []).map((place, i) => [place, i]));
  const enough = answer.values && answer.values.words > 1;
  const isBits = comparison?.measure === "bits_per_byte";
  const you = answer.values?.per_byte != null ? { name: "you", own: true, bits_per_byte: answer.values.per_byte, interval: enough ? answer.values.interval : null } : null;
  const rows = useMemo(() => (isBits ? ordered({ ...comparison, rungs: [...comparison.rungs, ...(you ? [you] : [])] }) : []), [comparison, answer.values]);
  const counts = [1, 2, 3, 4].map((n) => ranks.filter((one) => one === n).length);
  const bars = [...counts.map((n, i) => [String(i + 1), n]), ["more", ranks.length - counts.reduce((a, b) => a + b, 0)]];
  const same = [{ name: "you", mean: answer.values?.per_byte, own: true }, ...rivals.map((model, i) => ({ name: model.name, mean: others[i]?.values?.per_byte, answer: others[i] }))];
  const end = next ?? text.length;
  const paid = shown && ranks.length > 0;
  return html`<h1>Guess the text</h1>
    <p class="soft">Shannon's game: guess the next character until you are right. How many guesses you need is a code for the text, so you have bits per byte like any model. Ends of lines are told; capitals count.</p>
    <div class="game">
      <div class="coloured" aria-label="the text so far" role="group">${[...text.slice(0, end)].map((character, i) => {
        const place = byPlace.get(i);
        return html`<span key=${i} class=${i >= start ? "" : "soft"} style=${{ backgroundColor: place === undefined ? "" : heat(answer.values.bits[place]) }}>${character === "\n" ? "↵\n" : character}</span>`;
      })}${next !== null && html`<span class="cursor">?</span>`}</div>
      <div class="controls" data-unsaved><label>your guess<br /><input ref=${field} class="guess" type="text" value="" maxlength="1" autocomplete="off" autocapitalize="off" spellcheck=${false} disabled=${next === null}
          onInput=${(event) => { const character = event.target.value.slice(-1); event.target.value = ""; guess(character); }} /></label>
        <button type="button" disabled=${next === null} onClick=${tell}>Tell me</button>
        <button type="button" disabled=${!ranks.length && !wrong} onClick=${again}>Start again</button>
        <${Slider} label="begin at character" min="0" max=${Math.max(0, text.length - 40)} value=${start} onChange=${(value) => (setLast(null), change({ options: { from: value, g: null, w: null, show: null } }))} /></div>
      <p role="status" class="told">${next === null ? "That was the whole text." : wrong ? html`not <code>${[...wrong].map(visible).join(" ")}</code>` : last ? html`<code>${visible(last.character)}</code> ${last.told ? `counts as guess ${last.tries}` : last.tries === 1 ? "at once" : `at guess ${last.tries}`}` : "Type a character; space is one too."}</p>
      <${Said} answer=${answer} /></div>
    ${you && html`<p class="reading"><span class="big" data-you>${number(you.bits_per_byte)}</span> bits per byte after ${ranks.length} characters${you.interval ? html`, <span data-interval>${number(you.interval[0])} to ${number(you.interval[1])}</span>` : ""}${ranks.length < FEW ? html` <span class="soft">(${FEW - ranks.length} more say more)</span>` : ""}</p>
      <div class="hero"><section><h2>Guesses you needed</h2><ul class="bars tries" aria-label="how many guesses">${bars.map(([name, n]) => html`<li key=${name}><span class="name">${name}</span><${Bar} value=${n} most=${Math.max(1, ranks.length)} /><span class="value">${n}</span></li>`)}</ul>
        <h2>Models on the same characters</h2>${shown
          ? html`<table class="rungs same"><tbody>${same.sort((a, b) => (b.mean ?? 9) - (a.mean ?? 9)).map((one) => html`<tr key=${one.name} class=${one.own ? "own" : ""}><th scope="row">${one.name}</th><td>${one.mean != null && html`<${Bar} value=${one.mean} most=${8} />`}</td><td data-same=${one.name}>${one.mean == null ? html`<${Said} answer=${one.answer ?? {}} />` : number(one.mean)}</td></tr>`)}</tbody></table>
            <div data-unsaved><${Picker} models=${models} chosen=${rivals.map((one) => one.name)} onChange=${(names) => change({ models: names })} /></div>`
          : html`<p><button type="button" data-unsaved onClick=${() => change({ options: { show: 1 } })}>Show what they paid</button></p>`}</section>
        ${rows.length > 0 && html`<section aria-label="you in the table"><h2>You in the table</h2><${Rungs} rows=${rows} comparison=${comparison} at="you" /><p class="soft small">Models are measured on all held-out text, you on ${ranks.length} characters: the intervals say how much that matters.</p></section>`}</div>`}
    <details><summary>How guesses become bits</summary><p>Somebody who guesses exactly like you, told only how many guesses each character took, could write the text. So a character costs what its number of guesses costs in a code. The code learns from your guesses: a number that came k times among n so far costs log2((n + 2) / (k + 2p)) bits, where p = 1/2 for one guess, 1/6 for two, 1/12 for three, and so on. "Tell me" counts as guessing the rest from the most usual character on. The interval resamples words.</p><${Legend} unit="bits" /></details>
    <${Signature} view="game" models=${shown ? rivals : []} text=${text} terminal=${[`curl -s ${location.origin}${PATH} -d ${inShell(JSON.stringify({ text, start, guesses: ranks }))}`]}
      python=${[...(paid ? ["import seqloom"] : []), `from seqloom.studio.shannon import ${paid ? "by_model, places, " : ""}played`, `text = ${inPython(text)}`, `played(text, ${start}, ${JSON.stringify(ranks)})`,
        ...(paid ? rivals.map((model) => `by_model(seqloom.load(${inPython(model.path)}), text, places(text, ${start}, ${ranks.length}))`) : [])]} />`;
}
