// What every file of the page needs of preact. Text given to `html` is text, never markup.
import { h } from "preact";
import htm from "htm";

export { render, h } from "preact";
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback } from "preact/hooks";
export const html = htm.bind(h);
