// What a view says where no model fits it, and how one is made.
import { html } from "./html.js";

export const None = ({ title, what, command }) => html`<h1>${title}</h1>
  <p>There is no ${what} among these models. One is made in a terminal, and then appears here by itself:</p>
  <footer class="signature"><pre data-terminal>${command}</pre></footer>`;
