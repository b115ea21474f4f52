// The meaning of the events of a chat, by their types and fields: those that docs/plugins.md lists.

import { isObject } from "../forms/json_schema.js";

const SILENT = new Set(["passthrough", "pending"]);
const PHASE = /_(start|delta|end)$/;
// The fields with the text of an event, by its kind.
const TEXTS = {
  content: ["text", "content", "answer"],
  thinking: ["text", "content"],
  prompt: ["prompt", "text", "content"],
  result: ["output", "text", "content"],
};

// Return the event inside an event of a log, else the event itself.
export function innerEvent(event) {
  return isObject(event) && isObject(event.event) ? event.event : event;
}

// Return the kind of an event, and its phase if it is a piece of a block: `start`, `delta` or `end`.
//
// The kind is message, prompt, content, thinking, tool, result, end, error or other; empty for an
// event that is not shown.
export function kindOf(event) {
  const name = String(event.type ?? "");
  const words = new Set(name.split("_"));
  const has = (...wanted) => wanted.some((word) => words.has(word));
  const isPiece = Object.hasOwn(event, "offset") || name.endsWith("_delta");
  const phase = isPiece ? "delta" : (PHASE.exec(name)?.[1] ?? "");
  if (Object.hasOwn(event, "role")) return ["message", ""];
  if (SILENT.has(name)) return ["", ""];
  if (has("tool") && has("result")) return ["result", ""];
  if (has("tool") && has("use", "call")) return ["tool", phase];
  if (has("thinking", "reasoning")) return ["thinking", phase];
  if (has("user")) return ["prompt", ""];
  if (isPiece || has("content", "text", "answer")) return ["content", phase];
  if (name === "error") return ["error", ""];
  if (/(?:^|_)complete$/.test(name)) return ["end", ""];
  return /(?:^|_)start(?:ed)?$/.test(name) ? ["", ""] : ["other", ""];
}

// Return the text of an event of a kind; empty if it has none.
export function textOfKind(kind, event) {
  const name = TEXTS[kind].find((field) => typeof event[field] === "string");
  return name ? event[name] : "";
}

// Return a name for the block that a piece belongs to. It is unique only if it has a message.
export function blockOf(kind, { message_id: message, block_index: index, parent_tool_use_id: parent }) {
  return { isNamed: message !== undefined, name: JSON.stringify([kind, message, index, parent]) };
}
