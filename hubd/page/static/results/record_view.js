// One object: a heading with its name and state, then its fields.

import { h } from "../dom.js";
import { count, exactTime } from "../format.js";
import { isObject } from "../forms/json_schema.js";
import { oneLine, visible } from "../text.js";
import { isIdName } from "./columns.js";
import { isHandle } from "./handles.js";
import { jsonText } from "./json_view.js";
import { tableOf } from "./table_view.js";
import { heading, isUuid, momentOf, stateNode, timeNode, valueNode } from "./values.js";

const NAMES = ["name", "title", "label", "identifier"];
// Objects inside objects are drawn down to this depth; deeper ones are JSON.
const MAX_DEPTH = 3;
const MAX_TEXT = 100_000;

// Return the view of one event or object.
export function recordView(content, declarations) {
  if (!isObject(content)) return h("pre", {}, typeof content === "string" ? visible(content) : jsonText(content));
  const { type, ...fields } = content;
  if (!Object.keys(fields).length) return h("p", {}, oneLine(type ?? "done", 100));
  const flat = withSubject(fields);
  const name = NAMES.find((field) => isWord(flat[field]));
  const state = ["status", "state"].find((field) => isWord(flat[field]));
  const rest = Object.fromEntries(Object.entries(flat).filter(([field]) => field !== name && !(name && field === state)));
  return h(
    "div",
    { class: "record" },
    name && h("p", { class: "record-name" }, h("strong", {}, oneLine(flat[name], 200)), state && [" ", stateNode(flat[state])]),
    fieldList(rest, declarations, 0),
  );
}

// An event whose only named object is its subject shows the fields of that object.
function withSubject(fields) {
  if (NAMES.some((name) => isWord(fields[name]))) return fields;
  const named = Object.entries(fields).filter(([, value]) => isObject(value) && NAMES.some((name) => isWord(value[name])));
  if (named.length !== 1) return fields;
  const [[subject, inner]] = named;
  const others = Object.fromEntries(Object.entries(fields).filter(([name]) => name !== subject));
  return Object.keys(inner).some((name) => Object.hasOwn(others, name)) ? fields : { ...inner, ...others };
}

function isWord(value) {
  return typeof value === "string" && value.trim() !== "";
}

function fieldList(fields, declarations, depth) {
  const entries = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!entries.length) return h("p", { class: "dim" }, "Nothing");
  const ordered = entries.toSorted(([one, a], [other, b]) => place(one, a) - place(other, b));
  return h(
    "dl",
    {},
    ordered.flatMap(([name, value]) => [h("dt", {}, heading(name)), h("dd", {}, fullNode(name, value, declarations, depth))]),
  );
}

// Values come first, then objects, handles and ids.
function place(name, value) {
  if (isIdName(name)) return 3;
  if (isHandle(value)) return 2;
  return typeof value === "object" ? 1 : 0;
}

function fullNode(name, value, declarations, depth) {
  if (typeof value === "string") return textNode(name, value, declarations);
  const moment = momentOf(name, value, declarations.times);
  if (moment !== null) return h("span", {}, `${exactTime(moment)} (`, timeNode(moment), ")");
  if (Array.isArray(value)) return listNode(name, value, declarations, depth);
  if (isObject(value)) {
    if (!Object.keys(value).length) return h("span", { class: "dim" }, "none");
    return depth < MAX_DEPTH ? fieldList(value, declarations, depth + 1) : h("pre", {}, jsonText(value));
  }
  return valueNode(name, value, declarations.times);
}

function textNode(name, value, declarations) {
  if (isHandle(value)) return valueNode(name, value);
  if (isUuid(value)) return h("span", { class: "mono" }, value);
  if (value.includes("\n") || value.length > 300) {
    const more = value.length - MAX_TEXT;
    return h("pre", { tabindex: "0" }, visible(value.slice(0, MAX_TEXT)), more > 0 && `\n… ${count(more)} more characters`);
  }
  return valueNode(name, value, declarations.times);
}

function listNode(name, value, declarations, depth) {
  if (!value.length) return h("span", { class: "dim" }, "none");
  if (value.every(isObject) && depth < MAX_DEPTH) return tableOf(value, null, declarations);
  if (value.every((entry) => typeof entry !== "object")) {
    return h("ul", { class: "values" }, value.slice(0, 200).map((entry) => h("li", {}, valueNode(name, entry, declarations.times))), value.length > 200 && h("li", { class: "dim" }, `… ${count(value.length - 200)} more`));
  }
  return h("pre", {}, jsonText(value));
}
