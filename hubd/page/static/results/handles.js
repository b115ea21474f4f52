// Handles: texts such as `notes@1.0.0::add:5` that the hub resolves to data.

import { h } from "../dom.js";
import { oneLine, visible } from "../text.js";

// The grammar of handles: meta values may have any character except control characters.
const HANDLE = /^[A-Za-z0-9._-]{1,200}@\d[A-Za-z0-9._-]{0,50}::[A-Za-z0-9._-]{1,200}(:[^\p{Cc}]*)?$/u;
const MAX_LENGTH = 4000;
const SHOWN = 48;

// Return whether a value is a handle.
export function isHandle(value) {
  return typeof value === "string" && value.length <= MAX_LENGTH && HANDLE.test(value) && value.isWellFormed();
}

// Return the address of the page that resolves a handle.
export function handleAddress(handle) {
  return `#/plugins/handle/${encodeURIComponent(handle)}`;
}

// Return a link to the data of a handle.
export function handleLink(handle, label = "") {
  return h(
    "a",
    { class: "handle", href: handleAddress(handle), title: visible(handle) },
    label ? oneLine(label, SHOWN) : shortHandle(handle),
  );
}

// The plugin and the type of a handle, and the end of its meta values, which tells them apart.
function shortHandle(handle) {
  const text = visible(handle).replace(/@[^:]*::/, "::");
  if (text.length <= SHOWN) return text;
  const [type, meta = ""] = text.split(/(?<=::[^:]*):(.*)/s);
  return `${type.slice(0, 30)}:…${meta.slice(-12)}`;
}
