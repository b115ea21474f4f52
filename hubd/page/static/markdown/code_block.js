// A block of code with its language and a button that copies it. It can grow.

import { h } from "../dom.js";
import { visible } from "../text.js";

// Lines in each part. The browser lays out a part on its own, so a long block grows quickly.
const PART_LINES = 100;

export class CodeBlock {
  element;
  #text = "";
  #code = h("code");
  // The start of the last part.
  #start = 0;
  #last = null;

  constructor(language, text) {
    const copy = h("button", { type: "button", class: "small", onclick: () => this.#copy(copy) }, "Copy");
    const name = visible(language);
    this.element = h(
      "figure",
      { class: "code" },
      h("figcaption", {}, h("span", { class: "dim" }, name || "text"), copy),
      h("pre", { tabindex: "0", "aria-label": name ? `Code, ${name}` : "Code" }, this.#code),
    );
    this.set(text);
  }

  set(text) {
    if (!text.startsWith(this.#text)) {
      this.#code.replaceChildren();
      this.#start = 0;
      this.#last = null;
    }
    this.#text = text;
    for (let end = this.#endOfPart(); ; end = this.#endOfPart()) {
      this.#last ??= this.#code.appendChild(h("div"));
      this.#last.textContent = visible(text.slice(this.#start, end));
      if (end >= text.length) return;
      // The line break between two parts is that of the elements.
      this.#start = end + 1;
      this.#last = null;
    }
  }

  #endOfPart() {
    let end = this.#start - 1;
    for (let line = 0; line < PART_LINES; line += 1) {
      end = this.#text.indexOf("\n", end + 1);
      if (end < 0) return this.#text.length;
    }
    return end;
  }

  async #copy(button) {
    try {
      await navigator.clipboard.writeText(this.#text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }
}
