// The fields of a form, from the JSON Schema of a method's params. No elements here.
//
// A field has `kind`, `name`, `title`, `description`, `required`, `default` (undefined without one),
// `nullable` (null can be sent), and by its kind:
//
//   text      multiline, format, examples, minLength, maxLength, completes
//   number    integer, minimum, maximum, isTime
//   scalar    a text or a number: numeric, from number
//   boolean
//   choice    values
//   constant  value
//   list      item(), fixed (for a tuple), minItems, maxItems
//   object    fields()
//   map       value()
//   union     variants: [{title, field()}]
//   json      any value, written as JSON
//
// Parts of lists, objects and unions are functions, because a schema may contain itself.

import { allowedValues, discriminator, isObject, otherKeys, resolve, variants } from "./json_schema.js";

// Objects and lists below this depth are written as JSON.
export const MAX_DEPTH = 5;
// Texts with these names usually have several lines.
const LONG_TEXTS =
  /(^|_)(prompt|text|content|contents|command|script|body|template|message|data|description|instructions|code|query_text|system|notes?)$/;
// Times in Unix seconds.
const TIMES = /(_at|_since|_until|_before|_after)$|^(since|until|timestamp)$/;

// Return the fields of a method, the required ones first.
export function methodFields(method) {
  const root = isObject(method.params) ? method.params : {};
  const completes = method.annotations?.completes ?? {};
  const fields = objectFields(root, root, 0).map((field) =>
    Object.hasOwn(completes, field.name) ? { ...field, completes: completes[field.name] } : field,
  );
  return [...fields.filter((field) => field.required), ...fields.filter((field) => !field.required)];
}

function objectFields(schema, root, depth) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(schema.properties ?? {}).map(([name, part]) =>
    fieldOf(name, part, root, { required: required.has(name), depth: depth + 1 }),
  );
}

// Return the field of one schema.
export function fieldOf(name, schema, root, { required = false, depth = 0 } = {}) {
  const resolved = resolve(schema, root);
  const all = variants(resolved, root);
  const kinds = all.filter((variant) => variant.type !== "null" && !isOnlyNull(variant));
  const field = {
    name,
    title: name.replaceAll("_", " "),
    description: text(resolved.description) || text(kinds.length === 1 && kinds[0].description),
    required,
    default: "default" in resolved ? resolved.default : kinds.length === 1 ? kinds[0].default : undefined,
    nullable: all.length > kinds.length,
  };
  if (kinds.length === 0) return { ...field, kind: "constant", value: null };
  if (kinds.length === 1) return { ...field, ...oneKind(name, kinds[0], root, depth) };
  return { ...field, ...severalKinds(name, resolved, kinds, root, depth) };
}

function isOnlyNull(variant) {
  const values = allowedValues(variant);
  return values !== null && values.length > 0 && values.every((value) => value === null);
}

function oneKind(name, schema, root, depth) {
  const values = allowedValues(schema);
  if (values) {
    const present = values.filter((value) => value !== null);
    return present.length === 1 && "const" in schema
      ? { kind: "constant", value: present[0] }
      : { kind: "choice", values: present };
  }
  const bounds = pick(schema, ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
  switch (schema.type) {
    case "string":
      return { kind: "text", ...textHints(name, schema) };
    case "integer":
      return { kind: "number", integer: true, isTime: TIMES.test(name), examples: schema.examples, ...bounds };
    case "number":
      return { kind: "number", integer: false, isTime: false, examples: schema.examples, ...bounds };
    case "boolean":
      return { kind: "boolean" };
    case "array":
      return depth >= MAX_DEPTH ? { kind: "json" } : listKind(schema, root, depth);
    case "object":
      return depth >= MAX_DEPTH ? { kind: "json" } : objectKind(schema, root, depth);
    default:
      return { kind: "json" };
  }
}

function textHints(name, schema) {
  const isShort = schema.maxLength !== undefined && schema.maxLength <= 200;
  return {
    multiline: !isShort && !schema.pattern && !schema.format && LONG_TEXTS.test(name),
    ...pick(schema, ["format", "examples", "minLength", "maxLength", "contentMediaType"]),
  };
}

function listKind(schema, root, depth) {
  const fixed = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const items = isObject(schema.items) ? schema.items : {};
  const below = { required: true, depth: depth + 1 };
  return {
    kind: "list",
    fixed: fixed.map((entry, index) => () => fieldOf(`${index + 1}`, entry, root, below)),
    hasMore: schema.items !== false && (fixed.length === 0 || isObject(schema.items)) && fixed.length !== schema.maxItems,
    item: (index = 0) => fieldOf(`${index + 1}`, items, root, below),
    ...pick(schema, ["minItems", "maxItems"]),
  };
}

function objectKind(schema, root, depth) {
  if (Object.keys(schema.properties ?? {}).length) {
    return { kind: "object", fields: () => objectFields(schema, root, depth) };
  }
  const others = otherKeys(schema);
  // Values of any type are easier to write as JSON.
  if (!others || !Object.keys(resolve(others, root)).length) return { kind: "json", isObject: true };
  return { kind: "map", value: (key = "") => fieldOf(key, others, root, { required: true, depth: depth + 1 }) };
}

function severalKinds(name, schema, kinds, root, depth) {
  const isPlain = (kind) => ["string", "integer", "number"].includes(kind.type) && !allowedValues(kind);
  if (kinds.every(isPlain) && kinds.some((kind) => kind.type === "string")) {
    const numeric = kinds.filter((kind) => kind.type !== "string");
    const words = kinds.find((kind) => kind.type === "string");
    const hints = { ...textHints(name, words), multiline: false };
    return numeric.length
      ? { kind: "scalar", integer: numeric.every((kind) => kind.type === "integer"), ...hints }
      : { kind: "text", ...hints };
  }
  if (kinds.every((kind) => allowedValues(kind))) {
    return { kind: "choice", values: [...new Set(kinds.flatMap(allowedValues))].filter((value) => value !== null) };
  }
  if (depth >= MAX_DEPTH) return { kind: "json" };
  const tag = discriminator(schema, root);
  const titles = kinds.map((kind, index) => variantTitle(kind, tag, root) || `variant ${index + 1}`);
  return {
    kind: "union",
    tag,
    variants: kinds.map((kind, index) => ({
      title: titles.indexOf(titles[index]) === index ? titles[index] : `${titles[index]} (${index + 1})`,
      description: text(kind.description),
      schema: kind,
      field: () => fieldOf(name, kind, root, { required: true, depth: depth + 1 }),
    })),
  };
}

function variantTitle(kind, tag, root) {
  const tagged = tag ? resolve(kind.properties?.[tag], root) : {};
  const values = allowedValues(tagged);
  if (values) return values.join(" or ");
  if (kind.title) return String(kind.title);
  if (kind.type === "array") {
    const item = variants(kind.items ?? {}, root)[0]?.type;
    return `list of ${item === "string" ? "texts" : item === "object" ? "objects" : item ? `${item}s` : "values"}`;
  }
  const words = { string: "text", integer: "whole number", number: "number", boolean: "yes or no", object: "object" };
  return allowedValues(kind)?.join(" or ") ?? words[kind.type] ?? "any value";
}

function pick(schema, names) {
  return Object.fromEntries(names.filter((name) => schema[name] !== undefined).map((name) => [name, schema[name]]));
}

function text(value) {
  return typeof value === "string" ? value : "";
}
