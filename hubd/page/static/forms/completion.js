// Values for a field from the method that lists them.

import { h } from "../dom.js";
import { oneLine } from "../text.js";
import { newId } from "./frame.js";

const MAX_VALUES = 200;

// Offer the values of a method below a text field, read when the field gets the focus.
export function offerValues(input, name, method, hub) {
  const list = h("datalist", { id: newId() });
  input.setAttribute("list", list.id);
  input.setAttribute("autocomplete", "off");
  input.addEventListener("focus", () => fillList(list, name, method, hub), { once: true });
  return list;
}

async function fillList(list, name, method, hub) {
  const values = new Set();
  const call = hub.stream(method, {}, {
    event: (event) => {
      for (const value of listedValues(name, event)) values.add(value);
      if (values.size >= MAX_VALUES) call.cancel();
    },
    request: (item) => hub.respond(item.requestId, { type: "cancelled" }).catch(() => {}),
  });
  // A form works without suggestions.
  await call.done.catch(() => {});
  list.append(...[...values].slice(0, MAX_VALUES).map((value) => h("option", { value, label: oneLine(value, 80) })));
}

// Return the values of a parameter in one event: its field with this name, or those of its lists' entries.
export function listedValues(name, content, depth = 0) {
  if (typeof content === "string") return [content];
  if (typeof content !== "object" || content === null || depth > 4) return [];
  for (const field of [name, "name", "id"]) {
    if (typeof content[field] === "string") return [content[field]];
  }
  return Object.values(content)
    .filter(Array.isArray)
    .flatMap((list) => list.flatMap((entry) => listedValues(name, entry, depth + 1)));
}
