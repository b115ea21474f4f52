// The input of a tool call, shown so that a person can decide about it.

import { addedView, diffView, linesView } from "../diff_view.js";
import { h } from "../dom.js";
import { plural } from "../format.js";
import { visible, visibleName } from "../text.js";

const MOST_EDITS = 50;
// A longer text may need scrolling.
const LONG_LINES = 12;
const LONG_CHARACTERS = 600;
const VERBS = {
  Bash: "wants to run",
  Edit: "wants to change",
  MultiEdit: "wants to change",
  NotebookEdit: "wants to change",
  Write: "wants to write",
  Read: "wants to read",
  WebFetch: "wants to open",
  ExitPlanMode: "wants to leave plan mode",
  AskUserQuestion: "asks",
};
// Fields that are shown as text of their own, the most telling first.
const TEXTS = ["command", "plan", "url", "query", "pattern", "prompt", "path"];

// Return what a tool wants, such as "wants to run".
export function verb(tool) {
  return Object.hasOwn(VERBS, tool) ? VERBS[tool] : "wants to run";
}

// Return the elements that show the input of a call. The fields decide, not the name of the tool.
//
// `question` is the text in which the hub asks about the call. It compares a file that would be
// written with its present content, which only the hub can read.
export function callView(input, question = "") {
  const shown = new Set();
  const parts = [];
  const pathField = ["file_path", "notebook_path"].find((name) => isText(input[name]));
  const path = input[pathField];
  if (pathField) {
    shown.add(pathField);
    parts.push(h("p", { class: "mono path" }, visibleName(path)));
  }
  const { old_string: before, new_string: after, edits, content, new_source: source } = input;
  if (isText(before) && isText(after)) {
    shown.add("old_string").add("new_string");
    parts.push(diffView(before, after));
  } else if (Array.isArray(edits) && edits.every((edit) => isText(edit?.old_string) && isText(edit?.new_string))) {
    shown.add("edits");
    parts.push(...editViews(edits));
  } else if (isText(content) && path !== undefined) {
    shown.add("content");
    parts.push(...writtenViews(path, content, question));
  } else if (isText(source)) {
    shown.add("new_source");
    parts.push(addedView(source));
  } else if (path === undefined) {
    const name = TEXTS.find((field) => isText(input[field]));
    if (name) {
      shown.add(name);
      parts.push(...longCall(input[name]), h("pre", { class: "call", tabindex: "0", "aria-label": name }, visible(input[name])));
      // The agent's own words about its call may be wrong, so they come after it.
      if (isText(input.description)) {
        shown.add("description");
        parts.push(h("p", { class: "words" }, "The agent's words: ", visible(input.description)));
      }
    }
  }
  parts.push(fieldsView(Object.entries(input).filter(([name]) => !shown.has(name))));
  return parts;
}

// Return a warning if the end of a text is below the visible part of its box. Phones show no scroll bar.
function longCall(text) {
  const lines = text.split("\n").length;
  if (lines <= LONG_LINES && text.length <= LONG_CHARACTERS) return [];
  const size = `${plural(lines, "line")}, ${plural(text.length, "character")}`;
  return [h("p", { class: "warn" }, `⚠ ${size}: scroll to its end before you answer.`)];
}

function editViews(edits) {
  const views = edits
    .slice(0, MOST_EDITS)
    .flatMap((edit) => [
      edit.replace_all === true && h("p", { class: "dim" }, "Every occurrence:"),
      diffView(edit.old_string, edit.new_string),
    ]);
  const more = edits.length - MOST_EDITS;
  return more > 0
    ? [...views, h("p", { class: "warn" }, `… ${plural(more, "more edit")}: see the whole input`)]
    : views;
}

// The hub's question has a heading and the path, and then the changes, all indented by two spaces.
// Another second line means that a name in the heading has line breaks, which could imitate changes.
function writtenViews(path, content, question) {
  const [, second, ...rest] = question.split("\n");
  const lines = second === `  ${path}` ? rest.map((line) => line.replace(/^ {2}/, "")) : [];
  const whole = addedView(content);
  if (!lines.some((line) => line.startsWith("@@"))) {
    const words = { "(a new file)": "A new file:", "(no change)": "The file has this content already:" }[lines[0]];
    return [words && h("p", { class: "words" }, words), whole];
  }
  const kinds = { "+": "add", "-": "remove", " ": "same" };
  const changes = lines.map((line) => {
    const kind = kinds[line[0]];
    return kind ? { kind, text: line.slice(1) } : { kind: "note", text: line };
  });
  return [linesView(changes), h("details", {}, h("summary", {}, "The whole new content"), whole)];
}

function fieldsView(fields) {
  if (!fields.length) return null;
  return h(
    "table",
    { class: "fields" },
    h(
      "tbody",
      {},
      fields.map(([name, value]) =>
        h("tr", {}, h("th", { scope: "row" }, visible(name)), h("td", {}, visible(valueText(value)))),
      ),
    ),
  );
}

function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

function isText(value) {
  return typeof value === "string";
}
