// Short notes in the corner of the page. Screen readers read them out.

import { h } from "./dom.js";
import { visible } from "./text.js";

const NOTE_MS = 6000;

// Show a note for a few seconds, or until it is clicked.
export function note(text) {
  const element = h("div", { class: "note", onclick: () => element.remove() }, visible(text));
  document.getElementById("notes").append(element);
  setTimeout(() => element.remove(), NOTE_MS);
}
