// The rows and columns of a table: those that the schema declares, else the rows' own fields. No
// elements here.

import { isObject } from "../forms/json_schema.js";
import { isHandle } from "./handles.js";
import { heading, isUuid } from "./values.js";

const NAMES = ["name", "title", "label", "identifier", "path", "url", "key"];
const WORDS = ["prompt", "asked", "question", "command", "summary", "description", "text", "message"];
const FIELD = /^\{([\w.]+)\}$/;

// The declarations in the schema of a method's events.
export class Declarations {
  // Names of texts that are times.
  times = new Set();
  // The templates of events in one line, by their type.
  summaries = new Map();
  // Columns of lists by name, and of events by type: pairs of a heading and a template.
  #lists = new Map();
  #events = new Map();
  // The labels of rows with sums, by the name of the list.
  #totals = new Map();
  // The fields with marked places, by the name of the text.
  marks = new Map();

  constructor(returns) {
    const root = isObject(returns) ? returns : {};
    for (const schema of [root, ...Object.values(root.$defs ?? {})]) {
      if (isObject(schema)) this.#read(schema);
    }
  }

  #read(schema) {
    const fields = isObject(schema.properties) ? schema.properties : {};
    const type = String(fields.type?.const);
    if (areColumns(schema["x-columns"])) this.#events.set(type, schema["x-columns"]);
    if (typeof schema["x-summary"] === "string") this.summaries.set(type, schema["x-summary"]);
    for (const [name, field] of Object.entries(fields)) {
      if (!isObject(field)) continue;
      if (areColumns(field["x-columns"])) this.#lists.set(name, field["x-columns"]);
      if (typeof field["x-totals"] === "string") this.#totals.set(name, field["x-totals"]);
      if (typeof field["x-marks"] === "string") this.marks.set(name, field["x-marks"]);
      const kinds = [field, ...(Array.isArray(field.anyOf) ? field.anyOf : [])];
      if (kinds.some((kind) => kind?.format === "date-time")) this.times.add(name);
    }
  }

  // Return `{rows, columns, totals}` of an event; columns are null if they are not declared.
  table(event) {
    const own = this.#events.get(String(event.type));
    if (own) return { rows: [event], columns: own, totals: null };
    for (const [name, columns] of this.#lists) {
      if (!Array.isArray(event[name])) continue;
      const rows = event[name].filter(isObject);
      return { rows, columns, totals: rows.length > 1 ? this.#sums(name, columns, event) : null };
    }
    return { rows: rowsOf(event), columns: null, totals: null };
  }

  #sums(name, columns, event) {
    if (!this.#totals.has(name)) return null;
    const [first, ...others] = columns.map(([, template]) => template.replace(FIELD, "$1"));
    return { [first]: this.#totals.get(name), ...Object.fromEntries(others.map((field) => [field, event[field]])) };
  }
}

function areColumns(value) {
  return Array.isArray(value) && value.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === "string"));
}

// Return the rows of an event: those of its only list of objects, else the event itself.
export function rowsOf(event) {
  const lists = Object.values(event).filter((value) => Array.isArray(value) && value.every(isObject));
  const isAlone = Object.keys(event).filter((name) => name !== "type").length === 1;
  return lists.length === 1 && (lists[0].length || isAlone) ? lists[0] : [event];
}

// Return the columns of some rows: `{title, template, field}`, where a field is a dotted name.
export function columnsOf(rows, declared) {
  const columns = declared
    ? declared.map(([title, template]) => ({ title, template, field: FIELD.exec(template)?.[1] ?? "" }))
    : fieldNames(rows).map((name) => ({ title: heading(name), template: "", field: name }));
  // A handle leads to the whole data, so no table leaves it out.
  const shown = new Set(columns.map(({ field }) => field));
  const handles = new Set(rows.flatMap((row) => Object.keys(row).filter((name) => isHandle(row[name]) && !shown.has(name))));
  const all = [...columns, ...[...handles].map((name) => ({ title: heading(name), template: "", field: name }))];
  return all.filter(({ field, template }) => !field || template === "" || rows.some((row) => hasValue(fieldOf(row, field))));
}

function fieldNames(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => name !== "type");
  const used = names.filter((name) => rows.some((row) => hasValue(row[name])));
  const importance = new Map((used.length ? used : names).map((name) => [name, importanceOf(name, rows)]));
  return [...importance.keys()].sort((one, other) => importance.get(one) - importance.get(other));
}

function importanceOf(name, rows) {
  if (NAMES.slice(0, 4).includes(name)) return 0;
  if (name === "status" || name === "state") return 1;
  if (WORDS.includes(name)) return 2;
  if (rows.some((row) => isHandle(row[name]))) return 7;
  if (isIdName(name) || rows.some((row) => isUuid(row[name]))) return 6;
  if (rows.some((row) => typeof row[name] === "object" && row[name] !== null)) return 5;
  return name.endsWith("_at") ? 4 : 3;
}

// Return whether a field is an id by its name.
export function isIdName(name) {
  return name === "id" || /_(id|hash|node)$/.test(name);
}

function hasValue(value) {
  return value !== null && value !== undefined && value !== "";
}

// Return the value at a dotted name; undefined if there is none.
export function fieldOf(row, path) {
  return path.split(".").reduce((place, part) => (isObject(place) && Object.hasOwn(place, part) ? place[part] : undefined), row);
}

// Return a template with its fields filled in; empty if a field is missing. `{id:.8}` is the first
// eight characters of a text.
export function fillTemplate(template, fields) {
  let isWhole = true;
  const text = template.replace(/\{\{|\}\}|\{([^{}!:]*)(?:![rsa])?(?::([^{}]*))?\}/g, (match, path, format) => {
    if (match === "{{") return "{";
    if (match === "}}") return "}";
    const value = fieldOf(fields, path ?? "");
    if (value === undefined) isWhole = false;
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return JSON.stringify(value);
    const length = /^\.(\d+)$/.exec(format ?? "")?.[1];
    return length ? [...value].slice(0, Number(length)).join("") : value;
  });
  return isWhole ? text : "";
}

// Return an event in one line: by its template, else by its text, else its type.
export function eventLine(event, declarations) {
  if (!isObject(event)) return typeof event === "string" ? event : JSON.stringify(event);
  const template = declarations.summaries.get(String(event.type));
  const line = template ? fillTemplate(template, event) : "";
  return line || textOf(event) || String(event.type ?? JSON.stringify(event));
}

const TEXTS = ["message", "text", "line", "content", "output", "prompt", "summary", "render", "value"];

// Return the text of an event or of its `data`; empty if it has none.
export function textOf(event) {
  if (typeof event === "string") return event;
  if (!isObject(event)) return "";
  for (const place of [event, isObject(event.data) ? event.data : {}]) {
    for (const name of TEXTS) {
      if (typeof place[name] === "string" && place[name]) return place[name];
    }
  }
  return "";
}
