// Long lists in parts: the first rows are drawn, and a button draws more.

import { h } from "../dom.js";
import { count } from "../format.js";

const PART = 200;

// Draws items into a container as they arrive. `element` is the button, below the container.
export class Paged {
  element;
  #container;
  #draw;
  #items = [];
  #drawn = 0;
  #limit = PART;

  // `draw(item, index)` returns an element or a list of elements.
  constructor(container, draw) {
    this.#container = container;
    this.#draw = draw;
    this.element = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#more() });
  }

  add(items) {
    for (const item of items) this.#items.push(item);
    this.#update();
  }

  // Draw all items again, for example in other columns.
  redraw() {
    this.#container.replaceChildren();
    this.#drawn = 0;
    this.#update();
  }

  #more() {
    const before = this.#drawn;
    this.#limit += PART;
    this.#update();
    // The keyboard goes on at the first new row.
    const row = this.#container.children[before];
    row?.querySelector("a, button")?.focus();
  }

  #update() {
    const end = Math.min(this.#items.length, this.#limit);
    const elements = [];
    for (let index = this.#drawn; index < end; index += 1) elements.push(this.#draw(this.#items[index], index));
    this.#container.append(...elements.flat());
    this.#drawn = end;
    const left = this.#items.length - end;
    this.element.hidden = left === 0;
    this.element.textContent = `Show ${count(Math.min(PART, left))} more of ${count(left)}`;
  }
}
