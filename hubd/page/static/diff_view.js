// A comparison of two texts as a table of lines.

import { lineDiff, linesOf } from "./diff.js";
import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { visible } from "./text.js";

// The lines that are drawn at first, and the characters of a line.
const FIRST_LINES = 300;
const MOST_CHARACTERS = 2000;
const SIGNS = { same: " ", add: "+", remove: "−", note: " " };
const WORDS = { add: "added: ", remove: "removed: " };

// Return the difference of two texts.
export function diffView(before, after) {
  const lines = lineDiff(before, after);
  if (lines.every(({ kind }) => kind === "same" || kind === "skip"))
    return h("p", { class: "dim" }, "No difference.");
  return linesView(lines);
}

// Return a text whose lines are all new.
export function addedView(text) {
  return linesView(linesOf(text).map((line) => ({ kind: "add", text: line })));
}

// Return lines of a comparison as `lineDiff` makes them. The lines after the first ones are drawn
// when a button is pressed.
export function linesView(lines) {
  const list = h("div", {
    class: "diff",
    tabindex: "0",
    role: "group",
    "aria-label": "Changes, line by line",
  });
  list.append(...lines.slice(0, FIRST_LINES).map(lineView));
  if (lines.length > FIRST_LINES) {
    const rest = lines.slice(FIRST_LINES);
    const more = h("button", { type: "button" }, `Show ${plural(rest.length, "more line")}`);
    more.addEventListener("click", () => more.replaceWith(...rest.map(lineView)));
    list.append(more);
  }
  return list;
}

function lineView(line) {
  if (line.kind === "skip") return h("div", { class: "diff-skip" }, `… ${plural(line.count, "equal line")}`);
  return h(
    "div",
    { class: `diff-${line.kind}` },
    h("span", { class: "diff-sign", "aria-hidden": "true" }, SIGNS[line.kind]),
    WORDS[line.kind] && h("span", { class: "for-readers" }, WORDS[line.kind]),
    visible(shortened(line.text)) || " ",
  );
}

function shortened(text) {
  const more = text.length - MOST_CHARACTERS;
  return more > 0 ? `${text.slice(0, MOST_CHARACTERS)} … ${count(more)} more characters` : text;
}
