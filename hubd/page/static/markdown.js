// Markdown of models as DOM nodes: safe, without raw HTML, and in bounded time.

import { h } from "./dom.js";
import { count } from "./format.js";
import { readBlock } from "./markdown/blocks.js";
import { CodeBlock } from "./markdown/code_block.js";
import { inline } from "./markdown/inline.js";
import { visible } from "./text.js";

// The characters that are read as Markdown; the rest is folded, as plain text.
const LONGEST = 256 * 1024;
// The elements of one text; beyond them, text is plain.
const MOST_ELEMENTS = 10_000;
// The elements around a block of code.
const CODE_ELEMENTS = 6;
// Characters in each part of a long plain text. The browser lays out only the visible parts.
const PART = 20_000;

// Return the nodes of a Markdown text.
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  const view = new MarkdownView();
  view.set(String(text));
  fragment.append(...view.element.childNodes);
  return fragment;
}

// A Markdown text that grows. Complete blocks stay; only the last one is drawn again.
export class MarkdownView {
  element = h("div", { class: "markdown" });
  #text = "";
  // The end of the complete blocks in the text, and the elements that they used.
  #stable = 0;
  #budget = { left: MOST_ELEMENTS };
  // The nodes of the last block, and its state if it can grow in place.
  #lastNodes = [];
  #last = null;

  // Show a text. If it continues the one before, this is quick.
  set(text) {
    if (text === this.#text) return;
    if (!text.startsWith(this.#text)) this.#restart();
    this.#text = text;
    const end = Math.min(text.length, LONGEST);
    while (this.#stable < end) {
      const block = this.#budget.left > 0 ? readBlock(text, this.#stable, end) : plainBlock(text.slice(this.#stable, end), end);
      const isLast = block.end >= end;
      if (isLast && this.#grow(block)) return;
      for (const node of this.#lastNodes) node.remove();
      this.#lastNodes = [];
      this.#last = null;
      const nodes = isLast ? this.#drawLast(block) : draw(block, this.#budget);
      this.element.append(...nodes);
      if (isLast) {
        this.#lastNodes = nodes;
        break;
      }
      this.#stable = block.end;
    }
    if (text.length > LONGEST) {
      const rest = longText(text.slice(LONGEST), `${count(text.length - LONGEST)} more characters, as plain text`);
      this.#lastNodes.push(rest);
      this.element.append(rest);
    }
  }

  // Let the last block grow in place, if it is one that may become long.
  #grow(block) {
    const last = this.#last;
    if (last?.block.kind !== block.kind || this.#text.length > LONGEST) return false;
    if (block.kind === "code" && block.language === last.block.language) {
      last.code.set(block.text);
    } else if (block.kind === "list" && block.isTight === last.block.isTight && block.start === last.block.start && partsOf(block) < last.budget.left) {
      // All items but the last one are complete.
      last.list.lastChild.remove();
      for (const item of block.items.slice(last.block.items.length - 1)) last.list.append(listItem(block, item, last.budget));
    } else return false;
    last.block = block;
    return true;
  }

  #drawLast(block) {
    const budget = { ...this.#budget };
    if (block.kind === "code") {
      const code = new CodeBlock(block.language, block.text);
      this.#last = { block, code };
      return [code.element];
    }
    const nodes = draw(block, budget);
    if (block.kind === "list" && nodes[0].lastChild?.nodeName === "LI") this.#last = { block, list: nodes[0], budget };
    return nodes;
  }

  #restart() {
    this.element.replaceChildren();
    this.#lastNodes = [];
    this.#last = null;
    this.#stable = 0;
    this.#budget = { left: MOST_ELEMENTS };
  }
}

// Return a folded element whose long plain text is built when it is opened.
export function longText(text, title, nodesOf = (part) => [visible(part)]) {
  const body = h("div", { class: "long-text" });
  const details = h("details", {}, h("summary", {}, title), body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.firstChild) return;
    for (let start = 0; start < text.length; start += PART) {
      body.append(h("div", {}, nodesOf(text.slice(start, start + PART))));
    }
  });
  return details;
}

function plainBlock(text, end) {
  return { kind: "plain", text, source: text, end };
}

// Return the elements of a block. One with too many parts is shown as it is written.
function draw(block, budget) {
  budget.left -= 1;
  if (partsOf(block) > budget.left && block.kind !== "blank") return [h("p", { class: "plain" }, visible(block.source))];
  switch (block.kind) {
    case "blank":
      return [];
    case "code":
      budget.left -= CODE_ELEMENTS;
      return [new CodeBlock(block.language, block.text).element];
    case "heading":
      // The page has headings of its own above these.
      return [h(`h${Math.min(block.level + 2, 6)}`, {}, inline(block.text, budget))];
    case "rule":
      return [h("hr")];
    case "quote":
      return [h("blockquote", {}, drawAll(block.blocks, budget))];
    case "list":
      return [list(block, budget)];
    case "table":
      return [table(block, budget)];
    case "plain":
      return [h("p", { class: "plain" }, visible(block.text))];
    default:
      return [h("p", {}, inline(block.text, budget))];
  }
}

function partsOf(block) {
  if (block.kind === "list") return block.items.length;
  if (block.kind === "table") return (block.rows.length + 1) * (block.columns.length + 1);
  return 0;
}

function drawAll(blocks, budget) {
  return blocks.flatMap((block) => draw(block, budget));
}

function list(block, budget) {
  const items = block.items.map((item) => listItem(block, item, budget));
  return block.start === null ? h("ul", {}, items) : h("ol", { start: block.start !== 1 && block.start }, items);
}

function listItem({ isTight }, item, budget) {
  budget.left -= 1;
  const isBare = isTight && budget.left > 0;
  const children = item.blocks.flatMap((child) =>
    isBare && child.kind === "paragraph" ? [inline(child.text, budget)] : draw(child, budget),
  );
  if (item.isDone === null) return h("li", {}, children);
  const box = h("input", { type: "checkbox", disabled: true, checked: item.isDone, "aria-label": item.isDone ? "done" : "to do" });
  return h("li", { class: "task" }, box, " ", children);
}

function table(block, budget) {
  const cells = (row, tag) =>
    block.columns.map((align, index) => {
      budget.left -= 1;
      return h(tag, { class: align, scope: tag === "th" && "col" }, inline(row[index] ?? "", budget));
    });
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, cells(block.head, "th"))), h("tbody", {}, block.rows.map((row) => h("tr", {}, cells(row, "td"))))),
  );
}
