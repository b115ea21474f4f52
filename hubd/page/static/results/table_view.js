// Rows of events as a table. Each row unfolds to the whole object.

import { fill, h } from "../dom.js";
import { isObject } from "../forms/json_schema.js";
import { oneLine, visible } from "../text.js";
import { columnsOf, fieldOf, fillTemplate } from "./columns.js";
import { Paged } from "./paged.js";
import { recordView } from "./record_view.js";
import { markedText, momentOf, valueNode } from "./values.js";

// A column with longer texts is not narrowed below some words a line; the table scrolls instead.
const LONG_TEXT = 24;

// Shows the rows of events as they arrive.
export class TableView {
  element;
  #declarations;
  #rows = [];
  #declared = null;
  #totals = null;
  #columns = [];
  #head = h("thead");
  #body = h("tbody");
  #foot = h("tfoot");
  #paged;

  constructor(declarations) {
    this.#declarations = declarations;
    this.#paged = new Paged(this.#body, (row) => this.#row(row));
    this.element = h(
      "div",
      {},
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, h("table", {}, this.#head, this.#body, this.#foot)),
      this.#paged.element,
    );
  }

  add(events) {
    const rows = [];
    for (const event of events) {
      const table = isObject(event) ? this.#declarations.table(event) : { rows: [{ value: event }], columns: null };
      this.#declared = table.columns ?? this.#declared;
      this.#totals = table.totals ?? this.#totals;
      rows.push(...table.rows);
    }
    this.addRows(rows, this.#declared);
  }

  addRows(rows, declared) {
    for (const row of rows) this.#rows.push(row);
    // A table is drawn again only if later rows need other columns.
    const sample = this.#rows.length > 2000 ? [...this.#rows.slice(0, 1000), ...rows] : this.#rows;
    const columns = columnsOf(sample, declared);
    const isSame = columns.map(({ title }) => title).join("\n") === this.#columns.map(({ title }) => title).join("\n");
    this.#columns = columns;
    if (!isSame) {
      fill(this.#head, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: this.#isNumber(column, sample[0]) && "number" }, visible(column.title))), h("th", {}, h("span", { class: "unseen" }, "Details"))));
      this.#paged.redraw();
    }
    this.#paged.add(rows);
    if (this.#totals) fill(this.#foot, h("tr", {}, this.#cells(this.#totals), h("td")));
  }

  get isEmpty() {
    return this.#rows.length === 0;
  }

  #row(row) {
    const button = h("button", { type: "button", class: "quiet", "aria-expanded": "false", "aria-label": "Details" }, "⋯");
    const element = h("tr", {}, this.#cells(row), h("td", { class: "details" }, button));
    let below = null;
    button.addEventListener("click", () => {
      if (below) {
        below.remove();
        below = null;
      } else {
        below = h("tr", { class: "whole" }, h("td", { colspan: this.#columns.length + 1 }, recordView(row, this.#declarations)));
        element.after(below);
      }
      button.setAttribute("aria-expanded", String(below !== null));
    });
    return element;
  }

  #isNumber({ field }, row) {
    const value = field ? fieldOf(row, field) : undefined;
    return typeof value === "number" && momentOf(field, value, this.#declarations.times) === null;
  }

  #cells(row) {
    return this.#columns.map(({ field, template }) => {
      if (!field) return textCell(oneLine(fillTemplate(template, row), 300));
      const value = fieldOf(row, field);
      const marks = this.#declarations.marks.get(field);
      const node = typeof value === "string" && marks ? markedText(value, row[marks]) : valueNode(field, value, this.#declarations.times);
      if (typeof value === "string") return textCell(node);
      return h("td", { class: this.#isNumber({ field }, row) && "number" }, node);
    });
  }
}

function textCell(content) {
  const cell = h("td", {}, content);
  if (cell.textContent.length > LONG_TEXT) cell.className = "long";
  return cell;
}

// Return a table of rows that are all there.
export function tableOf(rows, declared, declarations) {
  const table = new TableView(declarations);
  table.addRows(rows, declared);
  return table.element;
}
