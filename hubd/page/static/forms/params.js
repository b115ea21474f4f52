// Convert between the contents of a form and params. No elements here.
//
// The content of a field is, by its kind: a text (text, number, scalar, json); true or false
// (boolean); a value (choice); a list of contents (list); an object of contents (object); a list of
// pairs (map); `{variant, content}` (union). Undefined, or an empty text, is not sent; null is sent
// as null.

import { fits } from "./check.js";
import { isObject, own } from "./json_schema.js";

// Return `{params, problems}` of a form's contents by name.
export function paramsOf(fields, contents) {
  const problems = [];
  const params = {};
  for (const field of fields) {
    const value = field.kind === "constant" && !field.required ? undefined : valueOf(field, contents[field.name], [field.name], problems);
    if (value !== undefined) setOwn(params, field.name, value);
  }
  return { params, problems };
}

// Return the value of one field, or undefined if it is not sent. Problems are added to a list.
export function valueOf(field, content, path, problems) {
  if (content === null) return null;
  const report = (message) => void problems.push({ path, message });
  const isEmpty = content === undefined || content === "";
  if (field.kind === "constant") return field.value;
  if (isEmpty) {
    if (!field.required || field.default !== undefined) return undefined;
    // An empty list and an empty object need no entry.
    if (field.kind === "list" && !field.fixed.length && !field.minItems) return [];
    if (field.kind === "map") return {};
    if (field.kind !== "object") return report("is required");
  }
  switch (field.kind) {
    case "text":
      return content;
    case "number":
      return numberOf(field, content, report);
    case "scalar":
      return scalarOf(field, content);
    case "json":
      return jsonOf(field, content, report);
    case "boolean":
      return content === field.default ? undefined : content;
    case "list":
      return listOf(field, content, path, problems);
    case "object":
      return objectOf(field, content ?? {}, path, problems);
    case "map":
      return mapOf(field, content, path, problems);
    case "union":
      return valueOf(field.variants[content.variant].field(), content.content, path, problems);
    default:
      return content;
  }
}

function numberOf(field, content, report) {
  const words = content.trim();
  if (/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(words)) {
    const number = Number(words);
    if (field.integer && !Number.isInteger(number)) return report("must be a whole number");
    if (field.integer && !Number.isSafeInteger(number)) return report("is too large for a browser");
    return number;
  }
  if (field.isTime) {
    const moment = Date.parse(words);
    if (!Number.isNaN(moment)) return Math.floor(moment / 1000);
    return report("must be a time: Unix seconds or a date such as 2026-01-31 12:00");
  }
  return report(field.integer ? "must be a whole number" : "must be a number");
}

// As at the command line, a text that is a number is sent as a number.
function scalarOf(field, content) {
  const words = content.trim();
  const isNumber = /^-?(0|[1-9]\d{0,14})$/.test(words) || (!field.integer && /^-?(0|[1-9]\d*)\.\d+$/.test(words));
  return isNumber ? Number(words) : content;
}

function jsonOf(field, content, report) {
  let value;
  try {
    value = JSON.parse(content);
  } catch {
    return report("must be JSON; a text needs double quotes");
  }
  if (field.isObject && !isObject(value)) return report("must be a JSON object, such as {\"key\": 1}");
  return value;
}

function listOf(field, content, path, problems) {
  if (!content.length && !field.required) return undefined;
  return content.map((entry, index) => {
    const part = field.fixed[index]?.() ?? field.item(index);
    // An empty text is a valid entry of a list.
    if (part.kind === "text" && entry === "") return "";
    return valueOf(part, entry, [...path, index], problems) ?? null;
  });
}

function objectOf(field, content, path, problems) {
  const value = {};
  for (const part of field.fields()) {
    const inner = valueOf(part, own(content, part.name), [...path, part.name], problems);
    if (inner !== undefined) setOwn(value, part.name, inner);
  }
  return value;
}

function mapOf(field, content, path, problems) {
  if (!content.length && !field.required) return undefined;
  const value = {};
  content.forEach(([key, entry], index) => {
    if (!key) problems.push({ path: [...path, index], message: "needs a key" });
    else if (Object.hasOwn(value, key)) problems.push({ path: [...path, index], message: `repeats the key ${key}` });
    const part = field.value(key);
    const inner = part.kind === "text" && entry === "" ? "" : valueOf(part, entry, [...path, index], problems);
    setOwn(value, key, inner ?? null);
  });
  return value;
}

// Set a property also if its name is `__proto__`.
function setOwn(object, name, value) {
  Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}

// Return the content of a field that has a value. `root` is the JSON Schema with the definitions.
export function contentOf(field, value, root) {
  if (value === undefined) return undefined;
  if (value === null) return field.nullable || field.kind === "json" ? null : undefined;
  switch (field.kind) {
    case "text":
    case "scalar":
      return typeof value === "string" ? value : JSON.stringify(value);
    case "number":
      return String(value);
    case "json":
      return JSON.stringify(value, null, 2);
    case "boolean":
      return typeof value === "boolean" ? value : undefined;
    case "choice":
      return field.values.includes(value) ? value : undefined;
    case "list":
      return Array.isArray(value)
        ? value.map((entry, index) => contentOf(field.fixed[index]?.() ?? field.item(index), entry, root))
        : undefined;
    case "object":
      if (!isObject(value)) return undefined;
      return Object.fromEntries(field.fields().map((part) => [part.name, contentOf(part, own(value, part.name), root)]));
    case "map":
      if (!isObject(value)) return undefined;
      return Object.entries(value).map(([key, entry]) => [key, contentOf(field.value(key), entry, root)]);
    case "union": {
      const variant = field.variants.findIndex(({ schema }) => fits(value, schema, root));
      return variant < 0 ? undefined : { variant, content: contentOf(field.variants[variant].field(), value, root) };
    }
    default:
      return undefined;
  }
}

// Return the contents of a form from the query of an address. Texts are taken as they are, other
// values are JSON; a list may also have one text for each entry.
export function contentsFromQuery(fields, query, aliases = {}, root = {}) {
  // Without a prototype, because a parameter may be called `constructor`.
  const contents = Object.create(null);
  for (const field of fields) {
    const names = [field.name, ...(own(aliases, field.name) ?? [])];
    const texts = names.flatMap((name) => query.getAll(name));
    if (texts.length) contents[field.name] = contentOfTexts(field, texts, root);
  }
  return contents;
}

function contentOfTexts(field, texts, root) {
  const last = texts.at(-1);
  if (["text", "scalar", "number", "json"].includes(field.kind)) return last;
  if (field.kind === "choice") return field.values.find((value) => String(value) === last);
  const parsed = tryJson(last);
  const content = texts.length === 1 && parsed !== undefined ? contentOf(field, parsed, root) : undefined;
  if (content !== undefined) return content;
  if (field.kind === "list") return texts.map((entry, index) => contentOfTexts(field.fixed[index]?.() ?? field.item(index), [entry], root));
  return contentOf(field, last, root);
}

function tryJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
