// A conversation from the events of a chat, by their types and fields.

import { h } from "../dom.js";
import { isObject } from "../forms/json_schema.js";
import { MarkdownView } from "../markdown.js";
import { oneLine, terminalText } from "../text.js";
import { eventLine } from "./columns.js";
import { Paged } from "./paged.js";

const MAX_RESULT = 4000;
// The kind of block that a piece of text belongs to, and the field with the text.
const PIECES = {
  content_delta: ["answer", "text"],
  chat_content: ["answer", "content"],
  thinking_delta: ["thinking", "text"],
};
const WHOLE = { content: ["answer", "text"], thinking: ["thinking", "text"], user_message: ["prompt", "prompt"] };

// The messages, tools and results of a chat.
export class ChatView {
  element;
  #paged;
  #declarations;
  // The block that grows: its kind, its text and its element.
  #open = null;

  constructor(declarations) {
    this.#declarations = declarations;
    const list = h("ol", { class: "messages" });
    this.#paged = new Paged(list, (block) => block.element);
    this.element = h("div", {}, list, this.#paged.element);
  }

  add(events) {
    const grown = new Set();
    for (const event of events) {
      const block = this.#take(event);
      if (block) grown.add(block);
    }
    for (const block of grown) block.view.set(block.text);
  }

  // Take one event, and return the block of text that it changed.
  #take(event) {
    const type = isObject(event) ? String(event.type) : "";
    if (Object.hasOwn(PIECES, type)) return this.#piece(...PIECES[type], event);
    if (Object.hasOwn(WHOLE, type)) return this.#whole(...WHOLE[type], event);
    this.#open = null;
    if (isObject(event) && typeof event.role === "string" && typeof event.content === "string") {
      return this.#block(event.role === "user" ? "prompt" : "answer", event.content, oneLine(event.role, 30));
    }
    if (type === "tool_use") this.#line("tool", `⏺ ${oneLine(event.tool_name ?? "tool", 60)}  ${oneLine(inputText(event.input), 200)}`);
    else if (type === "tool_result") this.#result(event);
    else if (type === "error") this.#line("bad", `✗ ${oneLine(event.message ?? "error", 500)}`);
    else this.#line("dim", oneLine(eventLine(event, this.#declarations), 300));
    return null;
  }

  #piece(kind, field, event) {
    if (this.#open?.kind !== kind) this.#open = this.#block(kind, "");
    this.#open.text += String(event[field] ?? "");
    return this.#open;
  }

  #whole(kind, field, event) {
    const text = String(event[field] ?? "");
    const open = this.#open;
    this.#open = null;
    // The whole text ends the pieces before it.
    if (open?.kind === kind && text.startsWith(open.text.slice(0, 100))) {
      open.text = text;
      return open;
    }
    return this.#block(kind, text);
  }

  #block(kind, words, label = kind) {
    const view = new MarkdownView();
    const text = h("div", { class: "message-text" }, view.element);
    const block = { kind, text: words, view, element: h("li", { class: kind }, h("span", { class: "hint" }, label), text) };
    this.#paged.add([block]);
    return block;
  }

  #line(kind, text) {
    this.#paged.add([{ element: h("li", { class: kind }, text) }]);
  }

  #result(event) {
    const output = typeof event.output === "string" ? event.output : JSON.stringify(event.output ?? "");
    const text = h("pre", { class: event.is_error && "bad" }, terminalText(output.slice(0, MAX_RESULT)), output.length > MAX_RESULT && "\n…");
    this.#paged.add([{ element: h("li", { class: "tool" }, text) }]);
  }
}

function inputText(input) {
  if (!isObject(input)) return String(input ?? "");
  const telling = ["command", "file_path", "path", "pattern", "query", "url", "prompt", "description"].find((name) => typeof input[name] === "string");
  return telling ? input[telling] : JSON.stringify(input);
}
