// Check a value against its JSON Schema before it is sent. The hub checks it again, patterns included.

import { allowedValues, choiceRule, discriminator, isObject, otherKeys, own, resolve, variants } from "./json_schema.js";

// Deeper values are left to the hub.
const MAX_DEPTH = 40;
const WORDS = {
  string: "a text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  null: "null",
};

// Return the problems of a method's params: `{path, message}`, where the path is a list of names and indexes.
export function checkParams(params, schema) {
  if (!isObject(params)) return [{ path: [], message: "must be an object" }];
  const problems = checkValue(params, { ...schema, oneOf: undefined, anyOf: undefined }, schema, []);
  const rule = choiceRule(schema);
  if (rule) {
    const given = rule.names.filter((name) => (own(params, name) ?? null) !== null);
    const names = rule.names.join(", ");
    if (!given.length) problems.push({ path: [], message: `give ${rule.exactly ? "exactly" : "at least"} one of ${names}` });
    else if (rule.exactly && given.length > 1) problems.push({ path: [given[1]], message: `give exactly one of ${names}` });
  }
  return problems;
}

// Return whether a value fits a schema.
export function fits(value, schema, root) {
  return checkValue(value, schema, root, []).length === 0;
}

// Return the problems of one value.
export function checkValue(value, schema, root, path) {
  if (path.length > MAX_DEPTH) return [];
  const all = variants(schema, root);
  if (all.length === 1) return checkVariant(value, all[0], root, path);
  const sameType = all.filter((variant) => !typeProblem(value, variant));
  if (!sameType.length) {
    const words = [...new Set(all.map((variant) => WORDS[variant.type] ?? "another value"))];
    return [{ path, message: `must be ${words.join(" or ")}` }];
  }
  const tag = discriminator(schema, root);
  const tagged = tag && isObject(value) ? sameType.filter((variant) => hasTag(value, variant, tag, root)) : sameType;
  const results = (tagged.length ? tagged : sameType).map((variant) => checkVariant(value, variant, root, path));
  return results.find((problems) => !problems.length) ?? results[0];
}

function hasTag(value, variant, tag, root) {
  const values = allowedValues(resolve(variant.properties?.[tag], root));
  return values !== null && values.includes(value[tag]);
}

function checkVariant(value, schema, root, path) {
  const wrongType = typeProblem(value, schema);
  if (wrongType) return [{ path, message: wrongType }];
  const values = allowedValues(schema);
  if (values && !values.some((allowed) => JSON.stringify(allowed) === JSON.stringify(value))) {
    return [{ path, message: `must be ${values.length > 1 ? "one of " : ""}${values.map(String).join(", ")}` }];
  }
  if (typeof value === "number") return problem(path, numberProblem(value, schema));
  if (typeof value === "string") return problem(path, lengthProblem([...value].length, schema, "Length", "characters"));
  if (Array.isArray(value)) return checkList(value, schema, root, path);
  if (isObject(value)) return checkObject(value, schema, root, path);
  return [];
}

function problem(path, message) {
  return message ? [{ path, message }] : [];
}

function typeProblem(value, schema) {
  const type = schema.type;
  if (type === undefined) return "";
  // A handle may also be written as an object.
  if (schema.format === "plexus-handle" && isObject(value)) return "";
  const fitting = {
    string: typeof value === "string",
    integer: Number.isInteger(value),
    number: typeof value === "number",
    boolean: typeof value === "boolean",
    array: Array.isArray(value),
    object: isObject(value),
    null: value === null,
  }[type];
  return fitting ?? true ? "" : `must be ${WORDS[type]}`;
}

function numberProblem(value, { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }) {
  if (minimum !== undefined && value < minimum) return `must be ${minimum} or more`;
  if (maximum !== undefined && value > maximum) return `must be ${maximum} or less`;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return `must be more than ${exclusiveMinimum}`;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return `must be less than ${exclusiveMaximum}`;
  if (Number.isInteger(multipleOf) && value % multipleOf) return `must be a multiple of ${multipleOf}`;
  return "";
}

function lengthProblem(length, schema, suffix, noun) {
  const least = schema[`min${suffix}`];
  const most = schema[`max${suffix}`];
  if (least !== undefined && length < least) return `must have at least ${least} ${noun}`;
  if (most !== undefined && length > most) return `must have at most ${most} ${noun}`;
  return "";
}

function checkList(value, schema, root, path) {
  const problems = problem(path, lengthProblem(value.length, schema, "Items", "entries"));
  const fixed = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  value.forEach((entry, index) => {
    const part = fixed[index] ?? schema.items;
    if (isObject(part)) problems.push(...checkValue(entry, part, root, [...path, index]));
  });
  return problems;
}

function checkObject(value, schema, root, path) {
  const properties = schema.properties ?? {};
  const others = otherKeys(schema);
  const problems = (schema.required ?? [])
    .filter((name) => !Object.hasOwn(value, name) && resolve(properties[name], root).default === undefined)
    .map((name) => ({ path: [...path, name], message: "is missing" }));
  for (const [name, part] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) problems.push(...checkValue(part, properties[name], root, [...path, name]));
    else if (others) problems.push(...checkValue(part, others, root, [...path, name]));
    else if (schema.additionalProperties === false) problems.push({ path: [...path, name], message: "is not a parameter" });
  }
  return problems;
}
