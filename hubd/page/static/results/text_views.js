// Events as text: lines of a program, texts, one line per event.

import { h } from "../dom.js";
import { count } from "../format.js";
import { isObject } from "../forms/json_schema.js";
import { oneLine, terminalText, visible } from "../text.js";
import { eventLine, textOf } from "./columns.js";
import { isHandle } from "./handles.js";
import { Paged } from "./paged.js";
import { recordView } from "./record_view.js";
import { valueNode } from "./values.js";

// A program may write millions of lines; these many stay on the screen, the newest.
const MAX_LINES = 5000;

// The output of a program, live. Other events follow as one line each.
export class ProcessView {
  element;
  #output = h("pre", { class: "terminal", tabindex: "0", role: "log", "aria-label": "Output" });
  #others = h("div");
  #dropped = h("p", { class: "hint", hidden: true });
  #droppedLines = 0;
  #declarations;

  constructor(declarations) {
    this.#declarations = declarations;
    this.#output.hidden = true;
    this.element = h("div", {}, this.#dropped, this.#output, this.#others);
  }

  add(events) {
    const isAtEnd = this.#output.scrollTop + this.#output.clientHeight >= this.#output.scrollHeight - 8;
    const lines = [];
    for (const event of events) {
      if (isObject(event) && (event.type === "stdout" || event.type === "stderr") && typeof event.line === "string") {
        lines.push(h("span", { class: event.type === "stderr" && "stderr" }, terminalText(event.line), event.partial ? "" : "\n"));
      } else {
        this.#others.append(otherEvent(event, this.#declarations));
      }
    }
    this.#append(lines);
    if (isAtEnd) this.#output.scrollTop = this.#output.scrollHeight;
  }

  #append(lines) {
    if (!lines.length) return;
    this.#output.hidden = false;
    this.#output.append(...lines.slice(-MAX_LINES));
    this.#droppedLines += Math.max(0, lines.length - MAX_LINES);
    while (this.#output.childNodes.length > MAX_LINES) {
      this.#output.firstChild.remove();
      this.#droppedLines += 1;
    }
    this.#dropped.hidden = this.#droppedLines === 0;
    this.#dropped.textContent = `${count(this.#droppedLines)} earlier lines are not shown`;
  }
}

// An event in one line, with the handles that it has.
function otherEvent(event, declarations) {
  const handles = isObject(event) ? Object.entries(event).filter(([, value]) => isHandle(value)) : [];
  return h("p", { class: "row" }, h("span", {}, oneLine(eventLine(event, declarations), 300)), handles.map(([name, value]) => valueNode(name, value)));
}

// The texts of events, one after the other.
export class WordsView {
  element = h("div");
  #declarations;
  #block = null;

  constructor(declarations) {
    this.#declarations = declarations;
  }

  add(events) {
    for (const event of events) {
      const text = textOf(event) || onlyText(event);
      if (!text) {
        this.element.append(recordView(event, this.#declarations));
        this.#block = null;
        continue;
      }
      if (!this.#block) {
        this.#block = h("pre", { tabindex: "0" });
        this.element.append(this.#block);
      }
      const isPart = this.#block.lastChild && !this.#block.textContent.endsWith("\n");
      this.#block.append(isPart ? "\n" : "", visible(text));
    }
  }
}

// The only text of an event, or the only one with several lines.
function onlyText(event) {
  if (!isObject(event)) return "";
  const texts = Object.entries(event).filter(([name, value]) => name !== "type" && typeof value === "string" && !isHandle(value));
  const long = texts.filter(([, value]) => value.includes("\n"));
  if (long.length === 1) return long[0][1];
  return texts.length === 1 ? texts[0][1] : "";
}

// One line per event, which unfolds to the whole event.
export class LinesView {
  element;
  #paged;

  constructor(declarations) {
    const list = h("ol", { class: "lines" });
    this.#paged = new Paged(list, (event) => {
      const space = h("div");
      const line = h(
        "details",
        { ontoggle: () => !space.childNodes.length && space.append(recordView(event, declarations)) },
        h("summary", {}, h("span", { class: "dim mono" }, `${oneLine(event?.type ?? "", 40)} `), oneLine(eventLine(event, declarations), 300)),
        space,
      );
      return h("li", {}, line);
    });
    this.element = h("div", {}, list, this.#paged.element);
  }

  add(events) {
    this.#paged.add(events);
  }
}

// Records one below the other.
export class RecordsView {
  element;
  #paged;

  constructor(declarations) {
    const list = h("div", { class: "records" });
    this.#paged = new Paged(list, (event) => recordView(event, declarations));
    this.element = h("div", {}, list, this.#paged.element);
  }

  add(events) {
    this.#paged.add(events);
  }
}
