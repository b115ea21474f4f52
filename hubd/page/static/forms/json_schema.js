// Read JSON Schema as the hub sends it: references, variants of unions, lists of values.

// The most references in a row; a schema with more refers to itself.
const MAX_REFERENCES = 32;

// Return the schema that a reference leads to; an empty one, which allows anything, if it leads nowhere.
export function resolve(schema, root) {
  let current = isObject(schema) ? schema : {};
  for (let step = 0; step < MAX_REFERENCES; step += 1) {
    if (typeof current.$ref === "string") {
      const { $ref: reference, ...rest } = current;
      current = { ...target(reference, root), ...rest };
    } else if (Array.isArray(current.allOf) && current.allOf.length === 1) {
      const { allOf, ...rest } = current;
      current = { ...allOf[0], ...rest };
    } else {
      return current;
    }
  }
  return {};
}

function target(reference, root) {
  let place = root;
  for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    place = isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined;
  }
  return isObject(place) ? place : {};
}

// Return the alternatives of a schema, with all unions resolved. Each has one type, or none.
export function variants(schema, root, depth = 0) {
  const resolved = resolve(schema, root);
  const union = resolved.anyOf ?? resolved.oneOf;
  if (Array.isArray(union) && union.length && depth < MAX_REFERENCES && !isRule(union)) {
    return union.flatMap((entry) => variants(entry, root, depth + 1));
  }
  if (Array.isArray(resolved.type)) return resolved.type.map((type) => ({ ...resolved, type }));
  if (resolved.type === undefined && isObject(resolved.properties)) return [{ ...resolved, type: "object" }];
  return [resolved];
}

// Return the property that selects the variant of a union; empty for other schemas.
export function discriminator(schema, root) {
  const resolved = resolve(schema, root);
  if (isObject(resolved.discriminator)) return String(resolved.discriminator.propertyName);
  for (const entry of resolved.anyOf ?? []) {
    const tag = isObject(entry) ? discriminator(entry, root) : "";
    if (tag) return tag;
  }
  return "";
}

// Return the values that a schema lists, or null.
export function allowedValues(schema) {
  if (Array.isArray(schema.enum)) return schema.enum;
  return "const" in schema ? [schema.const] : null;
}

// Return the parameters of which exactly one, or at least one, must be given:
// `{names, exactly}`, or null without such a rule.
export function choiceRule(schema) {
  for (const [keyword, exactly] of [["oneOf", true], ["anyOf", false]]) {
    const entries = schema[keyword];
    if (Array.isArray(entries) && entries.length && isRule(entries)) {
      return { names: entries.map((entry) => entry.required[0]), exactly };
    }
  }
  return null;
}

function isRule(entries) {
  return entries.every(
    (entry) => isObject(entry) && entry.required?.length === 1 && !entry.type && !entry.properties && !entry.$ref,
  );
}

// Return the schema of an object's other keys, or null if no other keys are allowed.
export function otherKeys(schema) {
  const patterns = Object.values(schema.patternProperties ?? {});
  const more = schema.additionalProperties ?? patterns[0] ?? !Object.keys(schema.properties ?? {}).length;
  if (isObject(more)) return more;
  return more ? {} : null;
}

// Return whether a value is a JSON object.
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Return a property of an object itself; undefined if only its prototype has it.
export function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
