// Any value as JSON, folded.

import { h } from "../dom.js";
import { count } from "../format.js";
import { visible } from "../text.js";

const MAX_LENGTH = 200_000;

// Return a folded view of a value. `read` returns the value when it is opened.
export function jsonView(read, title = "JSON") {
  const text = h("pre", { class: "mono", tabindex: "0" });
  return h(
    "details",
    {
      class: "json",
      ontoggle: (event) => {
        if (event.target.open) text.textContent = jsonText(read());
      },
    },
    h("summary", {}, title),
    text,
  );
}

// Return a value as indented JSON, cut if it is very long.
export function jsonText(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  const more = text.length - MAX_LENGTH;
  return visible(text.slice(0, MAX_LENGTH)) + (more > 0 ? `\n… ${count(more)} more characters` : "");
}
