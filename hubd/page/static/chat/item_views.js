// The elements of a chat's items. An element changes in place while its item grows.

import { h, fill } from "../dom.js";
import { count, duration, money, plural } from "../format.js";
import { longText, MarkdownView } from "../markdown.js";
import { oneLine, visible } from "../text.js";
import { toolView } from "./tool_view.js";
import { resultView } from "./result_view.js";

// Characters of a prompt or of thinking that are shown at once; the rest is folded.
const LONGEST_PROMPT = 8000;
const LONGEST_JSON = 50_000;
const STOPPED = { cancelled: "Cancelled", interrupted: "Interrupted" };

// Return the views of items: `render(item)` for a list, and `removed(item)`.
//
// `context` has hub, approvals, and toggleEarlier().
export function itemViews(context) {
  const views = new Map();
  return {
    render(item) {
      let view = views.get(item.key);
      if (view?.item !== item) {
        view = { item, ...VIEWS[item.kind](item, context) };
        if (item.depth) view.element.classList.add("nested", `depth-${item.depth}`);
        views.set(item.key, view);
      }
      view.update?.();
      return view.element;
    },
    removed(item) {
      views.delete(item.key);
    },
  };
}

const LABELS = {
  prompt: "Prompt",
  thinking: "Thinking",
  content: "Answer",
  tool: "Tool call",
  result: "Result of a tool",
  approval: "Approval",
  end: "End of the answer",
  error: "End of the chat",
  other: "Event",
  earlier: "Earlier turns",
};

// Return the name of an item for screen readers.
export function itemLabel({ kind, name }) {
  return name ? `${LABELS[kind]}, ${oneLine(name, 60)}` : LABELS[kind];
}

const VIEWS = {
  prompt(item) {
    const body = h("div", { class: "text" }, visible(item.text.slice(0, LONGEST_PROMPT)));
    const rest = item.text.slice(LONGEST_PROMPT);
    const more = rest && longText(rest, `${count(rest.length)} more characters`);
    return { element: h("div", { class: "chat-prompt", role: "group", "aria-label": "Prompt" }, body, more) };
  },

  thinking(item) {
    const title = h("span", {});
    const body = h("div", { class: "text dim" });
    const element = folding(item, h("summary", { class: "dim" }, "✻ ", title), body, "chat-thinking");
    const update = () => {
      title.textContent = thinkingTitle(item);
      if (element.open) body.textContent = visible(item.text.slice(0, LONGEST_JSON));
    };
    element.addEventListener("toggle", update);
    return { element, update };
  },

  content(item) {
    const markdown = new MarkdownView();
    const cut = h("p", { class: "dim", hidden: true }, "The text was cut off here.");
    const element = h("div", { class: "chat-content" }, markdown.element, cut);
    const update = () => {
      markdown.set(item.text);
      cut.hidden = !item.isCut;
    };
    return { element, update };
  },

  tool: toolView,

  result(item, context) {
    const result = resultView(context, item);
    result.show(item.result);
    return { element: h("div", { class: "chat-tool" }, result.element) };
  },

  approval: toolView,

  end(item) {
    const { usage = {}, result } = item.event;
    const parts = [seconds(result?.duration_ms), tokens(usage), cost(result, usage)].filter(Boolean);
    return { element: h("p", { class: "chat-end dim" }, h("span", { class: "good" }, "✓ "), parts.join(" · ") || "done") };
  },

  error(item) {
    const stopped = Object.hasOwn(STOPPED, item.code) ? STOPPED[item.code] : null;
    const text = visible(String(item.message ?? "failed").slice(0, LONGEST_PROMPT));
    return {
      element: h(
        "div",
        { class: ["chat-end", !stopped && "problem"] },
        h("span", { class: "bad" }, "✗ "),
        stopped ? h("span", { class: "dim" }, h("strong", {}, stopped), `: ${text}`) : text,
      ),
    };
  },

  other(item) {
    const body = h("pre", {});
    const element = folding(item, h("summary", { class: "dim" }, oneLine(item.title, 100)), body, "chat-other");
    const update = () => {
      if (element.open && !body.firstChild) body.append(visible(pretty(item.data)));
    };
    element.addEventListener("toggle", update);
    return { element, update };
  },

  earlier(item, { toggleEarlier }) {
    const button = h("button", { type: "button", onclick: toggleEarlier });
    const update = () => {
      button.ariaExpanded = String(item.isOpen);
      fill(button, `${item.isOpen ? "▾" : "▸"} Earlier turns (${plural(item.items.length, "part")})`);
    };
    return { element: h("div", { class: "chat-earlier" }, button), update };
  },
};

// Return a details element that is open again when its item comes back into view.
function folding(item, summary, body, name) {
  const element = h("details", { class: name, open: item.isOpen }, summary, body);
  element.addEventListener("toggle", () => (item.isOpen = element.open));
  return element;
}

function thinkingTitle({ isDone, seconds: time }) {
  if (!isDone) return "Thinking …";
  return time >= 0.1 ? `Thought for ${time < 60 ? `${time.toFixed(1)} s` : duration(time)}` : "Thought";
}

function pretty(data) {
  const text = JSON.stringify(data, null, 2) ?? "";
  return text.length > LONGEST_JSON ? `${text.slice(0, LONGEST_JSON)}…` : text;
}

function seconds(milliseconds) {
  if (typeof milliseconds !== "number") return "";
  const time = milliseconds / 1000;
  return time < 60 ? `${time.toFixed(1)} s` : `${Math.floor(time / 60)} min ${Math.round(time % 60)} s`;
}

// Return the tokens of a turn; those from a cache count too.
export function tokens(usage) {
  const names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
  const read = names.map((name) => usage[name]).filter((number) => typeof number === "number");
  if (!read.length || typeof usage.output_tokens !== "number") return "";
  return `${count(read.reduce((sum, number) => sum + number, 0))} in / ${count(usage.output_tokens)} out`;
}

function cost(result, usage) {
  const dollars = result?.total_cost_usd ?? usage.cost_usd;
  return typeof dollars === "number" && dollars > 0 ? money(dollars) : "";
}
