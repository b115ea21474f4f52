// The result of a tool call: its first lines, and the rest folded.

import { fill, h } from "../dom.js";
import { count, plural } from "../format.js";
import { longText } from "../markdown.js";
import { terminalText, visible } from "../text.js";

const FIRST_LINES = 4;
// A result with no more lines than this is shown whole.
const WHOLE_LINES = 8;
// Characters of the first lines.
const FIRST_LENGTH = 800;

// Return an element and `show(result)`, which draws it once.
export function resultView({ hub }, item) {
  const element = h("div", { class: "chat-result" });
  let drawn = null;
  function show(result) {
    if (!result || result === drawn) return;
    drawn = result;
    const { output, isError, length } = result;
    element.classList.toggle("bad", isError);
    const text = output.replace(/\n+$/, "");
    if (!text) {
      fill(element, h("p", { class: "dim" }, isError ? "failed" : "no output"));
      return;
    }
    const end = endOfFirstLines(text);
    const rest = text.slice(end);
    const more = rest && restView(rest, item);
    const all = length !== null && result.block && loadButton(hub, result, (whole) => show({ ...result, output: whole, length: null }));
    fill(element, h("pre", { tabindex: "0", "aria-label": "Result" }, terminalText(text.slice(0, end).replace(/\n$/, ""))), more, all);
  }
  return { element, show };
}

function endOfFirstLines(text) {
  const whole = nthLine(text, WHOLE_LINES);
  const end = whole === text.length ? whole : nthLine(text, FIRST_LINES);
  return Math.min(end, FIRST_LENGTH);
}

// Return the position behind this many lines.
function nthLine(text, number) {
  let place = 0;
  for (let line = 0; line < number; line += 1) {
    const next = text.indexOf("\n", place);
    if (next < 0) return text.length;
    place = next + 1;
  }
  return place;
}

function restView(rest, item) {
  const lines = rest.split("\n").length;
  const title = lines > 1 ? `… ${plural(lines, "more line")}` : `… ${count(rest.length)} more characters`;
  const details = longText(rest, title, terminalText);
  details.open = Boolean(item.isResultOpen);
  details.addEventListener("toggle", () => (item.isResultOpen = details.open));
  return details;
}

// Return a button that loads an output which is too long for an event.
function loadButton(hub, result, show) {
  const button = h("button", { type: "button", class: "small" }, `Load all ${count(result.length)} characters`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { data } = await hub.one(`${hub.root}.resolve_handle`, { handle: result.block });
      show(typeof data.output === "string" ? data.output : JSON.stringify(data, null, 2));
    } catch (error) {
      button.replaceWith(h("p", { class: "problem" }, visible(error.message)));
    }
  });
  return button;
}
