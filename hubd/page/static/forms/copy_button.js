// Copying to the clipboard.

import { h } from "../dom.js";
import { note } from "../notes.js";

// Return a button that copies the text that `read()` returns.
export function copyButton(read, label = "Copy") {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(read());
      note("Copied");
    } catch {
      note("The browser did not allow copying");
    }
  };
  return h("button", { type: "button", class: "quiet", onclick: copy }, label);
}
