// A conversation from the events of any plugin's chat, drawn as on the page of a session.

import { itemViews } from "../chat/item_views.js";
import { grow, messageItems } from "../chat/items.js";
import { h } from "../dom.js";
import { isObject } from "../forms/json_schema.js";
import { blockOf, innerEvent, kindOf, textOfKind } from "./chat_events.js";
import { eventLine, isIdName } from "./columns.js";
import { isHandle } from "./handles.js";
import { Paged } from "./paged.js";

const DEEPEST = 4;

// Prompts, texts, thinking, tool calls with their results, and ends.
export class ChatView {
  element;
  #paged;
  #declarations;
  // Approvals are answered in the inbox.
  #views = itemViews({ approvals: { pending: [] } });
  #size = 0;
  #last = null;
  // Blocks that grow by their names, and tool calls by their ids.
  #blocks = new Map();
  #calls = new Map();
  #changed = new Set();

  constructor(declarations) {
    this.#declarations = declarations;
    const list = h("ol", { class: "messages" });
    this.#paged = new Paged(list, (item) => {
      item.isDrawn = true;
      return h("li", {}, this.#views.render(item));
    });
    this.element = h("div", {}, list, this.#paged.element);
  }

  add(events) {
    for (const event of events) this.#take(innerEvent(event));
    for (const item of this.#changed) if (item.isDrawn) this.#views.render(item);
    this.#changed.clear();
  }

  #take(event) {
    if (!isObject(event)) {
      this.#add({ kind: "content", text: String(event) });
      return;
    }
    const [kind, phase] = kindOf(event);
    if (kind === "message") this.#message(event);
    else if (kind === "content" || kind === "thinking") this.#block(kind, phase, event);
    else if (kind === "prompt") this.#add({ kind, text: textOfKind(kind, event) });
    else if (kind === "tool" && !phase) this.#tool(event);
    else if (kind === "result") this.#result(event);
    else if (kind === "end" || kind === "error") this.#end(kind, event);
    else if (kind === "other") this.#other(event);
  }

  #message(event) {
    for (const item of messageItems(event, "message", this.#calls)) this.#add(item);
    const blocks = Array.isArray(event.content) ? event.content : [];
    for (const block of blocks) {
      const call = block?.type === "tool_result" && this.#calls.get(block.tool_use_id);
      if (call) this.#changed.add(call);
    }
  }

  #block(kind, phase, event) {
    const { isNamed, name } = blockOf(kind, event);
    const text = textOfKind(kind, event);
    let item = this.#blocks.get(name);
    const isOver = item && ((!isNamed && item !== this.#last) || (phase === "delta" && event.offset === 0));
    if (!item || isOver || (!phase && !text.startsWith(item.text))) {
      // The start and the end of a block have no text.
      if (!text) return;
      item = this.#add({ kind, text: "", points: 0, depth: this.#depth(event) });
      this.#blocks.set(name, item);
    }
    item.isDone = phase !== "delta";
    if (phase === "delta") grow(item, "text", Math.min(event.offset ?? item.points, item.points), text);
    else if (!phase) {
      item.text = text;
      this.#blocks.delete(name);
    }
    this.#changed.add(item);
  }

  #tool(event) {
    const { tool_use_id: id, tool_name: name = "tool", input = null } = event;
    const item = this.#add({ kind: "tool", id, name: String(name), input, partial: "", depth: this.#depth(event) });
    if (id !== undefined) this.#calls.set(id, item);
  }

  #result(event) {
    const { tool_use_id: id, output, is_error: isError } = event;
    const text = isObject(output) || Array.isArray(output) ? JSON.stringify(output) : textOfKind("result", event);
    const result = { id, output: text, isError: Boolean(isError), length: null, block: null };
    const call = this.#calls.get(id);
    if (!call) {
      this.#add({ kind: "result", result, depth: this.#depth(event) });
      return;
    }
    call.result = result;
    this.#changed.add(call);
  }

  #end(kind, event) {
    this.#blocks.clear();
    const { usage, result, message, code } = event;
    const shown = { usage: isObject(usage) ? usage : {}, result: isObject(result) ? result : {} };
    this.#add(kind === "end" ? { kind, event: shown } : { kind, message, code });
  }

  // An event that has only ids and places is not shown.
  #other(event) {
    const line = eventLine(event, this.#declarations);
    const isTold = ([name, value]) =>
      name !== "type" && value !== null && typeof value !== "object" && !isIdName(name) && !isHandle(value);
    if (line === event.type && !Object.entries(event).some(isTold)) return;
    this.#add({ kind: "other", title: line, data: event });
  }

  #depth({ parent_tool_use_id: parent }) {
    return parent ? Math.min(DEEPEST, (this.#calls.get(parent)?.depth ?? 0) + 1) : 0;
  }

  #add(item) {
    if (this.#last?.kind === "thinking" && !this.#last.isDone) {
      this.#last.isDone = true;
      this.#changed.add(this.#last);
    }
    this.#size += 1;
    // Messages come with keys that are unique only in their message.
    this.#last = Object.assign(item, { key: `item:${this.#size}` });
    this.#paged.add([item]);
    return item;
  }
}
