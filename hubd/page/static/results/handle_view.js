// The data of a resolved handle, by its kind and shape.

import { h } from "../dom.js";
import { size } from "../format.js";
import { isObject } from "../forms/json_schema.js";
import { markdown } from "../markdown.js";
import { oneLine } from "../text.js";
import { Declarations } from "./columns.js";
import { jsonView } from "./json_view.js";
import { recordView } from "./record_view.js";

// Images that can't contain programs.
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
// The fields with the text of a message or a document.
const TEXTS = ["text", "content", "prompt"];
const MARKDOWN = ["text/markdown", "text/x-markdown"];

// Return the view of an event `resolved`: its kind, its data and its origin.
export function handleView(resolved) {
  const { kind = "unknown", data = {}, origin = {}, summary = "" } = resolved;
  const source = [origin.plugin, origin.method].filter((part) => typeof part === "string").join(".");
  return h(
    "article",
    { class: "resolved" },
    h("p", {}, h("span", { class: "tag" }, oneLine(kind, 40)), source && h("span", { class: "dim" }, ` from ${oneLine(source, 100)}`)),
    summary && h("p", { class: "lead" }, oneLine(summary, 300)),
    dataView(kind, data),
    jsonView(() => resolved),
  );
}

function dataView(kind, data) {
  const declarations = new Declarations({});
  if (!isObject(data)) return recordView(data, declarations);
  if (typeof data.base64 === "string") {
    const { base64, ...rest } = data;
    return [binaryView(data), recordView(rest, declarations)];
  }
  const field = kind === "message" || isMarkdown(data) ? TEXTS.find((name) => typeof data[name] === "string") : undefined;
  if (!field) return recordView(data, declarations);
  const { [field]: text, ...rest } = data;
  return [h("div", { class: "card markdown" }, markdown(text)), recordView(rest, declarations)];
}

function isMarkdown({ mime_type: type, name = "", path = "" }) {
  return MARKDOWN.includes(type) || /\.(md|markdown)$/i.test(String(name || path));
}

// Return an image, or a link that saves other bytes.
function binaryView({ base64, mime_type: type = "", name, path }) {
  const bytes = decode(base64);
  if (!bytes) return h("p", { class: "problem" }, "The data is not base64.");
  const title = fileName(name ?? path);
  const image = IMAGES.includes(type) && h("img", { class: "picture", src: `data:${type};base64,${base64.replace(/\s/g, "")}`, alt: title });
  // The type is never that of a page, so a browser that opens the file runs nothing.
  const blob = new Blob([bytes], { type: "application/octet-stream" });
  const link = h("a", { class: "button", download: title, href: "#" }, `Download ${oneLine(title, 60)} (${size(bytes.length)})`);
  link.addEventListener("click", () => {
    link.href = URL.createObjectURL(blob);
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
  return h("div", {}, image, h("p", {}, link));
}

function decode(base64) {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

// Return the last part of a path as a name for a file: no folders, no hidden file, no bidi tricks.
export function fileName(path) {
  const name = String(path ?? "").split(/[/\\]/).at(-1).replace(/[^\p{L}\p{N} ._()-]/gu, "_").replace(/^\.+/, "_");
  return name.slice(-100).trim() || "data";
}
