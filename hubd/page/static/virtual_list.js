// A list that draws only its visible part: 100,000 items of different heights stay fluent.
//
// Heights are estimated until an item is drawn, then measured, also when it grows. The first
// visible item keeps its place when others above it change. A reader at the end stays at the end.
//
// A position in the list is the sum of the heights above it. The browser ends a smooth scroll if
// its position is set meanwhile, so until scrolling rests, the items are shifted instead.

import { h } from "./dom.js";
import { Heights } from "./heights.js";

// Pixels above and below the visible part that are drawn too, so that scrolling shows no gaps.
const MARGIN = 600;
// The most items that are drawn, even if their heights are tiny.
const MOST_DRAWN = 200;
// Rounds of drawing and measuring, because measured heights change which items are visible.
const MOST_ROUNDS = 6;
// Pixels from the end at which a reader is taken to be there.
const END = 8;
// Milliseconds after a scroll event when scrolling is taken to rest.
const REST_MS = 150;

export class VirtualList {
  #scroller;
  #options;
  #content = h("div", { class: "virtual-content" });
  #items = [];
  // Index by key.
  #places = new Map();
  #heights = new Heights();
  // Measured heights by key; they outlive a new list of items.
  #measured = new Map();
  // Drawn items by key: element, holder, item.
  #drawn = new Map();
  #isAtEnd = true;
  // The first visible item, and the distance of the visible part's top from its top.
  #anchor = { key: null, distance: 0 };
  #frame = 0;
  // Pixels that the items are shifted by while the reader scrolls.
  #shift = 0;
  // The newest position of the scroller that is known.
  #lastTop = 0;
  #rest = 0;
  #sizes = new ResizeObserver((entries) => this.#resized(entries));

  // `scroller` is an element with a height of its own. Options:
  //   render(item)     returns the item's element; the same one again if it changed in place
  //   key(item)        returns what tells items apart
  //   estimate         the height of an item before it is measured, in pixels
  //   role, itemRole   list and listitem by default
  //   label(item)      the name of an item for screen readers; none by default
  //   removed(item)    is told that an item is no longer drawn
  //   scrolled(list)   is told after scrolling; see `isAtEnd` and `distanceToStart`
  constructor(scroller, options) {
    this.#scroller = scroller;
    this.#options = { estimate: 60, role: "list", itemRole: "listitem", ...options };
    this.#content.setAttribute("role", this.#options.role);
    scroller.classList.add("virtual");
    // A scroller can be focused, so that the keyboard scrolls it.
    if (!scroller.hasAttribute("tabindex")) scroller.tabIndex = 0;
    scroller.replaceChildren(this.#content);
    scroller.addEventListener("scroll", this.#scrolled, { passive: true });
    scroller.addEventListener("keydown", this.#jump);
    this.#content.addEventListener("focusout", this.#schedule);
    this.#sizes.observe(scroller);
  }

  // The element around all items, for a label.
  get element() {
    return this.#content;
  }

  // Whether the reader is at the end, where the list follows new items.
  get isAtEnd() {
    return this.#isAtEnd;
  }

  // Pixels between the start of the list and the visible part.
  get distanceToStart() {
    return this.#position;
  }

  // Replace all items. Items with the same key keep their element, height and place.
  setItems(items) {
    this.#keepAnchorAmong(items);
    this.#items = [...items];
    this.#index();
    for (const key of this.#measured.keys()) if (!this.#places.has(key)) this.#measured.delete(key);
    this.#heights = new Heights(this.#items.map((item) => this.#heightOf(item)));
    for (const [key, { item }] of this.#drawn) {
      const place = this.#places.get(key);
      if (place === undefined) this.#remove(key);
      else if (this.#items[place] !== item) this.#show(key, this.#items[place]);
    }
    this.#draw();
  }

  // Draw an item again that changed. It is found by its key.
  update(item) {
    const key = this.#options.key(item);
    const place = this.#places.get(key);
    if (place === undefined) return;
    this.#items[place] = item;
    if (this.#drawn.has(key)) this.#show(key, item);
  }

  append(items) {
    for (const item of items) {
      this.#places.set(this.#options.key(item), this.#items.length);
      this.#items.push(item);
    }
    this.#heights.append(items.map((item) => this.#heightOf(item)));
    this.#draw();
  }

  prepend(items) {
    this.#items = [...items, ...this.#items];
    this.#index();
    this.#heights.prepend(items.map((item) => this.#heightOf(item)));
    this.#draw();
  }

  scrollToEnd() {
    this.#isAtEnd = true;
    this.#draw();
  }

  // Bring an item to the top of the visible part.
  scrollTo(key) {
    if (!this.#places.has(key)) return;
    this.#isAtEnd = false;
    this.#anchor = { key, distance: 0 };
    this.#draw();
    // The list may be too short to bring it to the top.
    this.#readPosition();
  }

  close() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#rest);
    this.#sizes.disconnect();
    this.#scroller.removeEventListener("scroll", this.#scrolled);
    this.#scroller.removeEventListener("keydown", this.#jump);
    for (const key of [...this.#drawn.keys()]) this.#remove(key);
    this.#content.remove();
  }

  #index() {
    this.#places = new Map(this.#items.map((item, place) => [this.#options.key(item), place]));
  }

  #heightOf(item) {
    return this.#measured.get(this.#options.key(item)) ?? this.#options.estimate;
  }

  // The place of the visible part's top in the list.
  get #position() {
    return this.#scroller.scrollTop - this.#shift;
  }

  #scrolled = () => {
    // The event of a position that the list has set comes later, when sizes may have changed.
    if (Math.abs(this.#scroller.scrollTop - this.#lastTop) < 1) return;
    this.#lastTop = this.#scroller.scrollTop;
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => {
      this.#rest = 0;
      this.#draw();
    }, REST_MS);
    this.#readPosition();
    this.#schedule();
    this.#options.scrolled?.(this);
  };

  // Home and End go to the true ends, which the browser does not know before all is measured.
  #jump = (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.key === "End") this.scrollToEnd();
    else if (event.key === "Home" && this.#items.length) this.scrollTo(this.#options.key(this.#items[0]));
    else return;
    event.preventDefault();
  };

  #schedule = () => {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  };

  // Take the place of the reader from the scroller. The end is that of the known heights: the
  // elements may have grown since they were measured.
  #readPosition() {
    const top = this.#position;
    this.#isAtEnd = this.#heights.total - top - this.#scroller.clientHeight <= END;
    if (this.#items.length) this.#readAnchor(top);
  }

  #readAnchor(top) {
    const place = this.#heights.indexAt(top);
    this.#anchor = { key: this.#options.key(this.#items[place]), distance: top - this.#heights.offset(place) };
  }

  // If the first visible item goes, the next one that stays keeps its place.
  #keepAnchorAmong(items) {
    const place = this.#places.get(this.#anchor.key);
    if (place === undefined) return;
    const keys = new Set(items.map(this.#options.key));
    if (keys.has(this.#anchor.key)) return;
    const top = this.#heights.offset(place) + this.#anchor.distance;
    for (let next = place + 1; next < this.#items.length; next += 1) {
      const key = this.#options.key(this.#items[next]);
      if (!keys.has(key)) continue;
      this.#anchor = { key, distance: top - this.#heights.offset(next) };
      return;
    }
  }

  #draw() {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const top = this.#top();
      const added = this.#drawAround(top);
      if (!this.#measure(added)) break;
    }
    this.#place();
  }

  // Return the scroll position that shows the anchor, or the end.
  #top() {
    const most = Math.max(0, this.#heights.total - this.#scroller.clientHeight);
    if (this.#isAtEnd) return most;
    const place = this.#places.get(this.#anchor.key);
    if (place === undefined) return Math.max(0, Math.min(this.#position, most));
    return Math.max(0, Math.min(most, this.#heights.offset(place) + this.#anchor.distance));
  }

  // Draw the items around a position, remove the others, and return the new holders.
  #drawAround(top) {
    if (!this.#items.length) return [];
    const first = this.#heights.indexAt(top - MARGIN);
    const last = Math.min(this.#heights.indexAt(top + this.#scroller.clientHeight + MARGIN), first + MOST_DRAWN);
    const wanted = new Set();
    for (let place = first; place <= last; place += 1) wanted.add(this.#options.key(this.#items[place]));
    // The element behind the last one.
    let next = null;
    for (const [key, { holder }] of this.#drawn) {
      if (wanted.has(key)) continue;
      // The item with the focus stays, wherever it is: else the keyboard would lose its place.
      if (!holder.contains(document.activeElement)) this.#remove(key);
      else if (this.#places.get(key) > last) next = holder;
    }
    const added = [];
    for (let place = last; place >= first; place -= 1) {
      const key = this.#options.key(this.#items[place]);
      if (!this.#drawn.has(key)) {
        this.#add(key, this.#items[place], next);
        added.push(key);
      }
      next = this.#drawn.get(key).holder;
    }
    return added;
  }

  #add(key, item, next) {
    const holder = h("div", { class: "virtual-item", role: this.#options.itemRole, "aria-label": this.#options.label?.(item) });
    this.#drawn.set(key, { holder, item, element: null });
    this.#content.insertBefore(holder, next);
    this.#show(key, item);
    this.#sizes.observe(holder);
    holder.key = key;
  }

  #show(key, item) {
    const drawn = this.#drawn.get(key);
    const element = this.#options.render(item);
    drawn.item = item;
    if (drawn.element === element) return;
    drawn.element = element;
    drawn.holder.replaceChildren(element);
  }

  #remove(key) {
    const { holder, item } = this.#drawn.get(key);
    this.#drawn.delete(key);
    this.#sizes.unobserve(holder);
    holder.remove();
    this.#options.removed?.(item);
  }

  // Return whether a height differs from the one that was known.
  #measure(keys) {
    const heights = keys.map((key) => this.#drawn.get(key).holder.getBoundingClientRect().height);
    let isChanged = false;
    keys.forEach((key, number) => {
      if (this.#learn(key, heights[number])) isChanged = true;
    });
    return isChanged;
  }

  #learn(key, height) {
    this.#measured.set(key, height);
    const place = this.#places.get(key);
    if (place === undefined || this.#heights.get(place) === height) return false;
    this.#heights.set(place, height);
    return true;
  }

  // Put the drawn items at their places and the reader at the anchor.
  #place() {
    const top = this.#top();
    this.#moveTo(top);
    const size = String(this.#items.length);
    for (const [key, { holder }] of this.#drawn) {
      const place = this.#places.get(key);
      holder.style.top = `${this.#heights.offset(place) + this.#shift}px`;
      holder.setAttribute("aria-posinset", String(place + 1));
      holder.setAttribute("aria-setsize", size);
    }
    if (!this.#items.length) return;
    if (!this.#places.has(this.#anchor.key) || this.#isAtEnd) this.#readAnchor(top);
  }

  // Show a position of the list. At an edge of the scroller a shift would hide items.
  #moveTo(top) {
    const current = this.#scroller.scrollTop;
    const isScrolling = this.#rest !== 0 && !this.#isAtEnd && current > 0 && top > 0;
    this.#shift = isScrolling ? current - top : 0;
    this.#content.style.height = `${this.#heights.total + this.#shift}px`;
    if (isScrolling) return;
    if (Math.abs(current - top) >= 1) this.#scroller.scrollTop = top;
    this.#lastTop = this.#scroller.scrollTop;
  }

  // Runs after layout and before the frame is painted, so a correction here is not visible. Items
  // that come into view are drawn in the next frame: observing them here would start a loop.
  #resized(entries) {
    let isChanged = false;
    for (const { target, borderBoxSize } of entries) {
      if (target === this.#scroller) isChanged = true;
      else if (this.#drawn.get(target.key)?.holder === target) {
        if (this.#learn(target.key, borderBoxSize[0].blockSize)) isChanged = true;
      }
    }
    if (!isChanged) return;
    this.#place();
    this.#schedule();
  }
}
