// One turn of a tree: its prompt, tools and answer in a few lines, and all of it when it is opened.

import { callView } from "../approval/tool_call.js";
import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { markdown } from "../markdown.js";
import { errorText, oneLine, terminalText, visible } from "../text.js";
import { timeAgo } from "../times.js";
import { readParts } from "./turn_texts.js";

const MOST_TOOLS = 4;
const MOST_CHARACTERS = 100_000;
const LABELS = {
  prompt: "Prompt",
  answer: "Answer",
  thinking: "Thinking",
  tool: "Tool",
  result: "Result",
  other: "Node",
};

// Return the element of a turn. `context` has the hub, the tree's id, `isOnPath(exchange)`,
// `choose(exchange)` (true if the turn was chosen for a comparison) and `actions(exchange)`.
export function turnView(exchange, context) {
  const details = h("div", { class: "turn-details", hidden: true });
  const head = h(
    "button",
    { type: "button", class: "turn-head stop", tabindex: "-1", "aria-expanded": "false" },
    h("span", { class: "mono dim" }, oneLine(exchange.end.short_id ?? "", 20)),
    h("span", { class: "turn-prompt" }, exchange.isRoot && !exchange.prompt ? "Start" : flat(exchange.prompt)),
    timeAgo(exchange.createdAt),
  );
  head.addEventListener("click", () => {
    if (context.choose(exchange)) return;
    details.hidden = !details.hidden;
    head.ariaExpanded = String(!details.hidden);
    if (!details.hidden && !details.hasChildNodes()) showDetails(details, exchange, context);
  });
  return h(
    "div",
    { class: ["turn", context.isOnPath(exchange) && "on-path"], "data-id": exchange.id },
    head,
    marksView(exchange.marks, context),
    toolsView(exchange.tools),
    exchange.answer && h("p", { class: "turn-answer" }, flat(exchange.answer)),
    exchange.more > 0 && h("p", { class: "warn" }, `… ${count(exchange.more)} more nodes below are not shown`),
    details,
  );
}

// The hub writes the line breaks of a text as arrows.
function flat(text) {
  return oneLine(text.replace(/↵+/g, " "), 300);
}

function marksView(marks, { heads }) {
  if (!marks.length) return null;
  const view = (name) =>
    heads.some((head) => head.kind === "session" && head.name === name)
      ? h("a", { class: "mark", href: `#/session/${encodeURIComponent(name)}` }, `← ${oneLine(name, 60)}`)
      : h("span", { class: "mark" }, `← ${oneLine(name, 60)}`);
  return h("p", { class: "marks" }, marks.map(view));
}

function toolsView(tools) {
  if (!tools.length) return null;
  const more = tools.length - MOST_TOOLS;
  const view = ({ name, text, isError }) =>
    h("span", { class: isError && "bad" }, `${oneLine(name, 40)} ${oneLine(text, 40)}${isError ? " ✗" : ""}`);
  return h(
    "p",
    { class: "turn-tools dim" },
    tools.slice(0, MOST_TOOLS).map(view),
    more > 0 && h("span", {}, `… +${more} tools`),
  );
}

async function showDetails(details, exchange, context) {
  fill(details, context.actions(exchange), h("p", { class: "dim", role: "status" }, "Reading …"));
  let content;
  try {
    content = (await readParts(context.hub, context.treeId, exchange)).map(partView);
  } catch (error) {
    content = h("p", { class: "problem" }, errorText(error));
  }
  details.lastChild.replaceWith(h("div", {}, content));
}

function partView({ kind, text, input, tool, isError, handle }) {
  if (kind === "other" && !text) return null;
  const more = text.length - MOST_CHARACTERS;
  const body = kind === "tool" ? callView(input) : textView(kind, text.slice(0, MOST_CHARACTERS), isError);
  return h(
    "section",
    { class: `part part-${kind}` },
    h(
      "p",
      { class: "part-head dim" },
      h("span", {}, kind === "tool" ? `Tool ${oneLine(tool, 60)}` : LABELS[kind]),
      handle &&
        h(
          "a",
          { class: "mono", href: `#/plugins/handle/${encodeURIComponent(handle)}`, title: visible(handle) },
          "handle",
        ),
    ),
    body,
    more > 0 && h("p", { class: "warn" }, `… ${count(more)} more characters`),
  );
}

function textView(kind, text, isError) {
  if (kind === "answer") return h("div", { class: "markdown" }, markdown(text));
  const isOutput = kind === "result";
  const classes = ["part-text", isOutput && "mono", isError && "bad"];
  return h("div", { class: classes }, isOutput ? terminalText(text) : visible(text));
}
