// One call of a method: its events as they arrive, progress, questions, and how it ended.

import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { ResultView } from "../results.js";
import { questionForm } from "./question.js";
import { lengthOfTime } from "./values.js";
import { oneLine, visible } from "../text.js";

const STATUS_MS = 200;

// A running call. `element` shows it, `done` resolves to null or to the error that ended it.
export class MethodCall {
  element;
  done;
  isRunning = true;
  #hub;
  #call;
  #result;
  #started = performance.now();
  #timer = 0;
  // Screen readers read the state out, and not each count.
  #status = h("p", { role: "status", class: "call-status" }, "Running …");
  #count = h("span", { class: "dim" });
  #progress = h("div", { class: "progress", hidden: true });
  #bar = h("progress", { max: 100 });
  #barText = h("span", { class: "hint" });
  #guidance = h("ul", { class: "guidance" });
  #questions = h("div", { "aria-live": "assertive" });
  #forms = new Map();
  #cancel = h("button", { type: "button", onclick: () => this.cancel() }, "Cancel");

  constructor(hub, path, method, params) {
    this.#hub = hub;
    this.#result = new ResultView(method);
    fill(this.#progress, this.#bar, this.#barText);
    this.element = h(
      "section",
      { class: "method-call", "aria-label": "Result", tabindex: "-1" },
      h("div", { class: "row" }, this.#status, this.#count, this.#cancel),
      this.#progress,
      this.#guidance,
      this.#questions,
      this.#result.element,
    );
    this.#call = hub.stream(path, params, {
      event: (event) => this.#result.add(event),
      progress: (item) => this.#showProgress(item),
      guidance: (item) => this.#guide(item),
      request: (item) => this.#ask(item),
      closed: (item) => this.#withdraw(item.requestId, item.reason),
    });
    this.done = this.#call.done.then(
      () => this.#end(null),
      (error) => this.#end(error),
    );
    this.#showRunning();
  }

  cancel() {
    if (this.isRunning) this.#call.cancel();
  }

  #showRunning() {
    const size = this.#result.size;
    this.#count.textContent = size ? plural(size, "event") : "";
    this.#timer = setTimeout(() => this.#showRunning(), STATUS_MS);
  }

  #end(error) {
    clearTimeout(this.#timer);
    this.isRunning = false;
    this.#result.end();
    this.#progress.hidden = true;
    this.#cancel.hidden = true;
    this.#count.hidden = true;
    for (const form of this.#forms.values()) form.remove();
    const size = plural(this.#result.size, "event");
    const time = lengthOfTime((performance.now() - this.#started) / 1000);
    if (!error) this.#status.textContent = `✓ ${size} in ${time}`;
    else if (error.code === "cancelled") this.#status.textContent = `○ Cancelled after ${size} in ${time}`;
    else this.#status.replaceChildren(h("span", { class: "bad" }, `✗ ${visible(error.message)} `), h("span", { class: "dim mono" }, oneLine(error.code, 60)));
    return error;
  }

  #showProgress({ message, percentage }) {
    this.#progress.hidden = false;
    if (typeof percentage === "number") this.#bar.value = percentage;
    else this.#bar.removeAttribute("value");
    this.#barText.textContent = oneLine(message ?? "", 200);
  }

  #guide({ suggestion, available }) {
    const names = Array.isArray(available) && available.length ? h("span", { class: "dim" }, ` ${oneLine(available.join(", "), 300)}`) : null;
    this.#guidance.append(h("li", {}, visible(suggestion ?? ""), names));
  }

  #ask(item) {
    const form = questionForm(item, async (data) => {
      await this.#hub.respond(item.requestId, data);
      this.#remove(item.requestId);
    });
    this.#forms.set(item.requestId, form);
    this.#questions.append(form);
    // A person who types elsewhere is not interrupted. A button never gets the focus, because a key
    // that was meant for something else would decide.
    if (document.activeElement?.matches("input, textarea, select")) return;
    (form.querySelector("input[type=text], textarea") ?? form).focus();
  }

  #withdraw(id, reason) {
    if (!this.#forms.has(id)) return;
    this.#remove(id);
    this.#guide({ suggestion: `The question needs no answer any more: ${oneLine(reason ?? "", 200)}` });
  }

  #remove(id) {
    const form = this.#forms.get(id);
    this.#forms.delete(id);
    const hadFocus = form?.contains(document.activeElement);
    form?.remove();
    if (hadFocus) this.element.focus();
  }
}
