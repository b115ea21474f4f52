// Trees of nodes, one line per node. Only a fork indents, so a long conversation stays readable.

import { h } from "../dom.js";
import { count } from "../format.js";
import { isObject } from "../forms/json_schema.js";
import { oneLine } from "../text.js";
import { textOf } from "./columns.js";
import { handleLink, isHandle } from "./handles.js";
import { Paged } from "./paged.js";
import { recordView } from "./record_view.js";
import { shortId, timeNode } from "./values.js";

// Deeper nodes are not indented further.
const MAX_INDENT = 12;

// The trees of events; events without nodes are records.
export class TreeView {
  element = h("div");
  #declarations;

  constructor(declarations) {
    this.#declarations = declarations;
  }

  add(events) {
    for (const event of events) {
      const tree = [event, event?.tree].find((place) => isObject(place) && Array.isArray(place.nodes) && place.nodes.every(isNode));
      this.element.append(tree ? this.#tree(tree) : recordView(event, this.#declarations));
    }
  }

  #tree(tree) {
    const list = h("ul", { class: "tree" });
    const paged = new Paged(list, treeLine);
    paged.add(treeLines(tree.nodes));
    const title = tree.tree_id ? `Tree ${shortId(tree.tree_id)} · ` : "";
    return h("div", {}, h("p", { class: "dim" }, `${title}${count(tree.nodes.length)} nodes`), list, paged.element);
  }
}

function isNode(node) {
  return isObject(node) && node.id !== null && node.id !== undefined && "parent" in node;
}

// Return the lines of a tree, parents before their children: `{node, indent}`. Pure.
export function treeLines(nodes) {
  const ids = new Set(nodes.map(({ id }) => String(id)));
  const below = new Map();
  const tops = [];
  for (const node of nodes) {
    const parent = node.parent === null ? null : String(node.parent);
    if (parent === null || !ids.has(parent) || parent === String(node.id)) tops.push(node);
    else if (below.has(parent)) below.get(parent).push(node);
    else below.set(parent, [node]);
  }
  const lines = [];
  const seen = new Set();
  const walk = (starts) => {
    const waiting = starts.toReversed().map((node) => ({ node, indent: 0 }));
    while (waiting.length) {
      const line = waiting.pop();
      const id = String(line.node.id);
      if (seen.has(id)) continue;
      seen.add(id);
      lines.push(line);
      const children = below.get(id) ?? [];
      const indent = line.indent + (children.length > 1 ? 1 : 0);
      for (const child of children.toReversed()) waiting.push({ node: child, indent });
    }
  };
  walk(tops);
  // Nodes that are their own ancestors have no top.
  for (const node of nodes) if (!seen.has(String(node.id))) walk([node]);
  return lines;
}

function treeLine({ node, indent }) {
  const handle = [node.handle, node.data?.handle].find(isHandle);
  const marks = Array.isArray(node.marks) ? node.marks : [];
  const words = oneLine(node.summary || textOf(node.data) || "", 300);
  const line = h(
    "li",
    {},
    h("span", { class: "mono dim" }, `${node.short_id ? oneLine(node.short_id, 20) : shortId(node.id)} `),
    node.label && h("strong", {}, `[${oneLine(node.label, 60)}] `),
    handle ? handleLink(handle, words) : words,
    Number.isInteger(node.created_at) && h("span", { class: "dim" }, " · ", timeNode(node.created_at)),
    marks.map((mark) => h("span", { class: "tag" }, `← ${oneLine(mark, 40)}`)),
    Number.isInteger(node.more) && node.more > 0 && h("span", { class: "dim" }, ` … ${count(node.more)} more`),
  );
  line.style.paddingInlineStart = `${Math.min(indent, MAX_INDENT) * 1.2}em`;
  return line;
}
