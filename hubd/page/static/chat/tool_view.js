// A tool call: its input in one line, all of it when opened, its approval and its result.

import { outcomeText } from "../approval/outcome.js";
import { callView } from "../approval/tool_call.js";
import { approvalCard } from "../approval_card.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { note } from "../notes.js";
import { oneLine, visible } from "../text.js";
import { resultView } from "./result_view.js";

// The fields that say most about a call, the most telling first.
const TELLING = ["command", "file_path", "notebook_path", "path", "url", "query", "pattern", "plan", "prompt", "description"];
// Characters at the end of an input that is being written.
const TAIL = 120;

// Return the view of a tool call, or of an approval whose call is not loaded.
export function toolView(item, context) {
  const title = h("summary", {});
  const input = h("div", { class: "chat-input" });
  const details = h("details", { open: item.isOpen }, title, input);
  const approval = h("div", {});
  const result = resultView(context, item);
  const element = h("div", { class: "chat-tool" }, details, approval, result.element);
  const shown = { input: undefined, approval: undefined };

  details.addEventListener("toggle", () => {
    item.isOpen = details.open;
    showInput();
  });

  function showInput() {
    const value = item.approval?.updated ?? inputOf(item);
    if (!details.open || value === undefined || value === shown.input) return;
    shown.input = value;
    fill(input, value && typeof value === "object" ? callView(value) : h("pre", {}, visible(String(value))));
  }

  function update() {
    const state = item.result ? (item.result.isError ? "bad" : "good") : "dim";
    const name = oneLine(item.name ?? item.approval.name, 100);
    fill(title, h("span", { class: state, "aria-hidden": "true" }, "● "), h("strong", {}, name), " ", h("span", { class: "mono" }, headline(item)));
    showInput();
    showApproval();
    if (!isDenial(item)) result.show(item.result);
  }

  // The card is made once, so that what a person writes into it stays.
  function showApproval() {
    const asked = item.approval;
    if (!asked) return;
    const waiting = asked.status === "pending" && context.approvals.pending.find(({ id }) => id === asked.id);
    const state = waiting ? "card" : asked.status;
    // An answer is known a moment before its event arrives.
    if (state === shown.approval || (state === "pending" && shown.approval === "card")) return;
    shown.approval = state;
    // The keyboard goes on at the call when the card with the focus is answered.
    if (approval.contains(document.activeElement)) title.focus();
    if (waiting) fill(approval, approvalCard(waiting, context.approvals));
    else if (asked.status === "pending") fill(approval, elsewhereView(asked));
    else fill(approval, outcomeView(asked));
  }

  // The agent that started the session may be asked first. A person may answer in its place.
  function elsewhereView(asked) {
    const button = h("button", { type: "button", class: "small" }, "Answer it here");
    button.addEventListener("click", async () => {
      try {
        const { approvals } = await context.hub.one("loopback.pending", { all: true });
        const waiting = approvals.find(({ id }) => id === asked.id);
        if (waiting) fill(approval, approvalCard(waiting, context.approvals));
        approval.querySelector(".approval")?.focus();
      } catch (error) {
        note(error.message);
      }
    });
    return h("div", { class: "row warn" }, "? Waits for an approval", button);
  }

  return { element, update };
}

// Return whether the result only repeats the denial, which is shown above it.
function isDenial({ approval, result }) {
  return approval?.status === "denied" && (!approval.message || result?.output === approval.message);
}

function inputOf(item) {
  return item.input ?? item.approval?.input;
}

function outcomeView(asked) {
  // A call that was allowed as it was needs no words: its result follows.
  if (asked.status === "approved" && !asked.updated && !asked.message) return null;
  const text = outcomeText({ tool_name: asked.name, status: asked.status, by: asked.by, message: asked.message, updated_input: asked.updated });
  return h("p", { class: asked.status === "approved" ? "dim" : "warn" }, asked.status === "approved" ? "" : "⚠ ", text);
}

// Return one line about the input of a call.
function headline(item) {
  const input = inputOf(item);
  if (input === undefined) return item.partial ? `… ${oneLine(item.partial.slice(-TAIL), TAIL)}` : "…";
  if (!input || typeof input !== "object") return oneLine(String(input ?? ""), 300);
  const name = TELLING.find((field) => typeof input[field] === "string");
  const text = name ? oneLine(input[name].trim().replaceAll("\n", " ↵ "), 300) : oneLine(JSON.stringify(input), 300);
  const lines = typeof input.content === "string" ? input.content.replace(/\n$/, "").split("\n").length : 0;
  return lines > 1 ? `${text}  (${plural(lines, "line")})` : text;
}
