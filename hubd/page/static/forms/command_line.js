// The command of the terminal that makes the same call as a form.

import { resolve, variants } from "./json_schema.js";

// Texts that a shell takes as they are.
const PLAIN = /^[A-Za-z0-9_%+,./:-][A-Za-z0-9_@%+=,./:-]*$/;
// Control, bidirectional and invisible characters: written as escapes, so that the command shows
// what it does and a terminal that gets it pasted obeys nothing in it.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;

// Return the command, to be pasted into bash or zsh.
export function commandLine(namespace, method, params) {
  const words = ["synapse", ...namespace.split("."), method.name];
  const rest = {};
  for (const [name, value] of Object.entries(params)) {
    const flags = flagsOf(name, value, method.params);
    if (flags) words.push(...flags);
    else rest[name] = value;
  }
  if (Object.keys(rest).length) words.push("--params", JSON.stringify(rest));
  return words.map(quote).join(" ");
}

// Return the words of one parameter, or null if only JSON has its exact value.
function flagsOf(name, value, root) {
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) return null;
  const kinds = variants(root.properties?.[name] ?? {}, root).filter((kind) => kind.type !== "null");
  if (kinds.length !== 1) return null;
  const flag = `--${name.replaceAll("_", "-")}`;
  switch (kinds[0].type) {
    case "boolean":
      return typeof value === "boolean" ? [value ? flag : flag.replace("--", "--no-")] : null;
    case "integer":
    case "number":
      return typeof value === "number" ? [`${flag}${value < 0 ? "=" : " "}${value}`].flatMap((word) => word.split(" ")) : null;
    case "string":
      return typeof value === "string" ? textFlag(flag, value) : null;
    case "array":
      return Array.isArray(value) ? listFlags(flag, value, kinds[0], root) : null;
    case "object":
      return [flag, JSON.stringify(value)];
    default:
      return null;
  }
}

function listFlags(flag, value, schema, root) {
  const items = variants(resolve(schema.items, root), root);
  const isTexts = !schema.prefixItems && items.length === 1 && items[0].type === "string";
  if (!isTexts || !value.length || value.some((entry) => typeof entry !== "string" || entry.startsWith("["))) return null;
  const flags = value.map((entry) => textFlag(flag, entry));
  return flags.includes(null) ? null : flags.flat();
}

// A first `@` names a file, a first `-` an option or the standard input, and `null` may be no text.
function textFlag(flag, value) {
  if (value.includes("\0") || value === "null" || value.startsWith("{")) return null;
  if (value.startsWith("@")) return [flag, `@${value}`];
  return value.startsWith("-") ? [`${flag}=${value}`] : [flag, value];
}

// Return a word that a shell reads as exactly this text.
export function quote(word) {
  if (PLAIN.test(word)) return word;
  if (!UNSEEN.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  const escaped = [...word].map((character) => {
    if (character === "\\" || character === "'") return `\\${character}`;
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    return UNSEEN.test(character) ? bytes(character) : character;
  });
  return `$'${escaped.join("")}'`;
}

// Escapes of bytes, because older shells know no others.
function bytes(character) {
  return [...new TextEncoder().encode(character)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}
