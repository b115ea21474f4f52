// The frame of a field: its label, its hint and the problem that it has.

import { h } from "../dom.js";
import { count, exactTime } from "../format.js";
import { described, oneLine, visible } from "../text.js";
import { hiddenCharacters } from "./hidden_characters.js";

// Ids must be unique in the page.
let ids = 0;

// Return a new id for an element.
export function newId() {
  ids += 1;
  return `field-${ids}`;
}

// Return the frame around one input: `{element, problem(message)}`. The input gets its label, its
// description and its state.
export function frame(field, input, { extra = null, after = null } = {}) {
  input.id ||= newId();
  const hint = hintOf(field);
  const hintId = `${input.id}-hint`;
  const problemId = `${input.id}-problem`;
  const problem = h("p", { class: "param-problem", id: problemId, role: "alert", hidden: true });
  input.setAttribute("aria-describedby", `${hint ? `${hintId} ` : ""}${problemId}`);
  if (field.required && input.matches("input, select, textarea")) input.setAttribute("aria-required", "true");
  const element = h(
    "div",
    { class: "param", "data-field": field.name },
    h("div", { class: "row" }, h("label", { for: input.id, class: field.isEntry && "unseen" }, visible(field.title), mark(field)), extra),
    input,
    input.matches("textarea, input:not([type=checkbox])") && hiddenCharacters(input),
    after,
    hint && h("p", { class: "hint", id: hintId }, described(hint)),
    problem,
  );
  return { element, problem: (message) => showProblem(problem, [input], message) };
}

// Return the frame around several inputs.
export function groupFrame(field, ...children) {
  const hint = hintOf(field);
  const hintId = newId();
  const problem = h("p", { class: "param-problem", role: "alert", hidden: true });
  const element = h(
    "fieldset",
    { class: ["param group", field.isEntry && "inner"], "data-field": field.name, "aria-describedby": hint && hintId },
    h("legend", { class: field.isEntry && "unseen" }, visible(field.title), mark(field)),
    hint && h("p", { class: "hint", id: hintId }, described(hint)),
    problem,
    ...children,
  );
  return { element, problem: (message) => showProblem(problem, [], message) };
}

function mark(field) {
  return field.required && !field.isEntry && h("span", { class: "needed" }, " required");
}

function showProblem(element, inputs, message) {
  element.textContent = visible(message);
  element.hidden = !message;
  for (const input of inputs) {
    if (message) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
}

// Return the hint of a field as it was written: its description, its bounds and its default.
export function hintOf(field) {
  const parts = [field.description.trim(), bounds(field), defaultHint(field)];
  return parts.filter(Boolean).join(" · ");
}

function bounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, minItems, maxItems, format, isTime, kind }) {
  const parts = [];
  const low = minimum ?? (exclusiveMinimum === undefined ? undefined : `more than ${exclusiveMinimum}`);
  const high = maximum ?? (exclusiveMaximum === undefined ? undefined : `less than ${exclusiveMaximum}`);
  const shown = (value) => (typeof value === "number" ? count(value) : value);
  if (low !== undefined && high !== undefined) parts.push(`${shown(low)} to ${shown(high)}`);
  else if (low !== undefined) parts.push(typeof low === "string" ? low : `${shown(low)} or more`);
  else if (high !== undefined) parts.push(typeof high === "string" ? high : `${shown(high)} or less`);
  if (minItems) parts.push(`at least ${minItems}`);
  if (maxItems !== undefined && kind === "list") parts.push(`at most ${count(maxItems)}`);
  if (format === "plexus-handle") parts.push("a handle");
  if (isTime) parts.push("Unix seconds or a date");
  return parts.join(", ");
}

function defaultHint(field) {
  const value = field.default;
  // A choice names its default itself.
  if (value === undefined || value === null || value === "" || field.kind === "choice") return "";
  if (Array.isArray(value) && !value.length) return "";
  if (typeof value === "boolean") return `default: ${value ? "yes" : "no"}`;
  if (field.isTime) return `default: ${exactTime(value)}`;
  return `default: ${oneLine(typeof value === "string" ? value : JSON.stringify(value), 60)}`;
}
