// The results of any method, by its render hint and the shape of its events.

import { h } from "./dom.js";
import { count } from "./format.js";
import { ChatView } from "./results/chat_view.js";
import { Declarations } from "./results/columns.js";
import { jsonView } from "./results/json_view.js";
import { TableView } from "./results/table_view.js";
import { LinesView, ProcessView, RecordsView, WordsView } from "./results/text_views.js";
import { TreeView } from "./results/tree_view.js";

export { handleLink } from "./results/handles.js";

// Later events are counted, but not kept: a method may send millions.
const MAX_EVENTS = 20_000;
// Events that arrive within this time are drawn together.
const DRAW_MS = 40;
const VIEWS = { table: TableView, tree: TreeView, chat: ChatView, text: WordsView, process: ProcessView };

// The events of one call, drawn as they arrive.
export class ResultView {
  element = h("div", { class: "result" });
  // The number of events so far.
  size = 0;
  #view;
  #events = [];
  #waiting = [];
  #timer = 0;
  #limit = h("p", { class: "hint", hidden: true }, `The first ${count(MAX_EVENTS)} events are shown.`);

  // `method` is the method's schema.
  constructor(method) {
    this.#view = new (viewOf(method))(new Declarations(method.returns));
    this.element.append(this.#view.element, this.#limit);
  }

  add(event) {
    this.size += 1;
    if (this.#events.length >= MAX_EVENTS) {
      // Once, because each change of the page delays the events.
      if (this.#limit.hidden) this.#limit.hidden = false;
      return;
    }
    this.#events.push(event);
    this.#waiting.push(event);
    this.#timer ||= setTimeout(() => this.#draw(), DRAW_MS);
  }

  // Draw the last events, and offer all of them as JSON.
  end() {
    this.#draw();
    if (this.#events.length) {
      this.element.append(jsonView(() => (this.#events.length === 1 ? this.#events[0] : this.#events)));
    }
  }

  #draw() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const events = this.#waiting;
    this.#waiting = [];
    if (events.length) this.#view.add(events);
  }
}

function viewOf(method) {
  const hint = method.annotations?.render;
  if (Object.hasOwn(VIEWS, hint ?? "")) return VIEWS[hint];
  if (method.streaming) return method.bidirectional ? LinesView : TableView;
  return RecordsView;
}

// Return the view of events that are all there. `method` is a name in a namespace's schema, or the
// schema of a method.
export function showResult(schema, method, events) {
  const whole = typeof method === "string" ? schema.methods.find(({ name }) => name === method) : method;
  const result = new ResultView(whole ?? { returns: {} });
  for (const event of events) result.add(event);
  result.end();
  return result.element;
}
