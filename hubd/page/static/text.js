// Text that others wrote: control, bidirectional and invisible characters become visible.

import { h } from "./dom.js";

// Control characters except tab and newline, the soft hyphen, marks that change the direction of
// text, characters without width, fillers, the byte order mark, variation selectors and tags.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
// Colours and styles of terminals; every other sequence is removed.
const STYLE = /\x1b\[([\d;:]*)m/;
const SEQUENCE =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

// Return a text in which hidden characters are written as ⟨U+202E⟩. An emoji keeps its selector
// and its joiners.
export function visible(text) {
  return String(text)
    .replace(/\r\n/g, "\n")
    .replace(HIDDEN, (character, offset, whole) =>
      isPartOfEmoji(character, offset, whole) ? character : codePoint(character),
    );
}

// Return the name of a file, with its line breaks and tabs visible, too.
export function visibleName(name) {
  return visible(String(name).replace(/[\t\n\r]/g, codePoint));
}

function codePoint(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

function isPartOfEmoji(character, offset, whole) {
  if (character !== "\ufe0f" && character !== "\u200d") return false;
  const before = whole.slice(Math.max(0, offset - 4), offset);
  return /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?$/u.test(before);
}

// Return one line of a text, at most this many characters.
export function oneLine(text, limit = 200) {
  const line = visible(String(text).slice(0, limit * 4)).replace(/\s+/g, " ").trim();
  const characters = [...line];
  return characters.length > limit ? `${characters.slice(0, limit - 1).join("")}…` : line;
}

// Return the message of a failed call and its hint.
export function errorText(error) {
  const hint = error.guidance?.suggestion;
  return visible(hint ? `${error.message}\n${hint}` : error.message);
}

// Return the nodes of a sentence of a docstring: `words` in backticks are code.
export function described(text) {
  return visible(text)
    .split(/`([^`\n]+)`/)
    .map((part, index) => (index % 2 ? h("code", {}, part) : part))
    .filter((part) => part !== "");
}

// Return the nodes of a program's output: colours as spans, other sequences removed.
export function terminalText(output) {
  const text = String(output);
  const parts = [];
  let style = new Set();
  let position = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    append(parts, text.slice(position, match.index), style);
    position = match.index + match[0].length;
    const codes = STYLE.exec(match[0]);
    if (codes) style = changed(style, codes[1]);
  }
  append(parts, text.slice(position), style);
  return parts;
}

function append(parts, text, style) {
  if (!text) return;
  const shown = visible(text);
  parts.push(style.size ? h("span", { class: [...style] }, shown) : shown);
}

function changed(style, codes) {
  let next = new Set(style);
  const numbers = codes.split(/[;:]/).map((code) => Number(code || 0));
  for (let index = 0; index < numbers.length; index += 1) {
    const number = numbers[index];
    if (number === 0) next = new Set();
    else if (number === 1) next.add("ansi-bold");
    else if (number === 22) next.delete("ansi-bold");
    else if (number === 38 || number === 48) {
      // Colours of the extended palettes are left out, with their arguments.
      index += numbers[index + 1] === 5 ? 2 : 4;
    } else if (number === 39) next = without(next);
    else if (number >= 30 && number <= 37) next = without(next).add(`ansi-${COLOURS[number - 30]}`);
    else if (number >= 90 && number <= 97) next = without(next).add(`ansi-${COLOURS[number - 90]}`);
  }
  return next;
}

function without(style) {
  return new Set([...style].filter((name) => name === "ansi-bold"));
}
