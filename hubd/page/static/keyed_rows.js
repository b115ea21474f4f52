// Rows of a list that is read again and again. A row keeps its element, so focus and selection stay.

// Keeps the children of an element in step with a list.
export class KeyedRows {
  #parent;
  #key;
  #make;
  // Row functions by key: `element`, and `update(item)`.
  #rows = new Map();

  // `make(item)` returns `{element, update(item)}`; `update` shows another state of the same item.
  constructor(parent, key, make) {
    this.#parent = parent;
    this.#key = key;
    this.#make = make;
  }

  // Show these items in this order.
  set(items) {
    const focused = document.activeElement;
    const keys = new Set(items.map(this.#key));
    for (const [key, { element }] of this.#rows) {
      if (keys.has(key)) continue;
      element.remove();
      this.#rows.delete(key);
    }
    items.forEach((item, index) => {
      const key = this.#key(item);
      if (!this.#rows.has(key)) this.#rows.set(key, this.#make(item));
      const row = this.#rows.get(key);
      row.update(item);
      const present = this.#parent.children[index];
      if (present !== row.element) this.#parent.insertBefore(row.element, present ?? null);
    });
    // An element that moves loses the focus.
    if (focused !== document.activeElement && this.#parent.contains(focused))
      focused.focus({ preventScroll: true });
  }
}

// Set the text of an element if it is another one.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
