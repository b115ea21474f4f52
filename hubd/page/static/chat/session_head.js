// The top of a session's page: its name, status and figures; and the line about the running chat.

import { fill, h } from "../dom.js";
import { duration, money, plural } from "../format.js";
import { note } from "../notes.js";
import { oneLine, visible } from "../text.js";
import { tokens } from "./item_views.js";

// Return an element and `update(feed)`.
export function sessionHead(name) {
  const status = h("span", { role: "status" });
  const tree = h("a", { class: "button spread" }, "Tree");
  const figures = h("p", { class: "dim session-figures" });
  const element = h("header", { class: "session-head" }, h("div", { class: "row" }, h("h1", {}, oneLine(name, 120)), status, tree), figures);

  function update({ session: answer, usage, running }) {
    if (!answer) return;
    const { session } = answer;
    const state = running?.status ?? session.status;
    status.className = `status-${state}`;
    const words = { awaiting_permission: "approval" };
    setText(status, Object.hasOwn(words, state) ? words[state] : oneLine(state ?? "new", 40));
    tree.href = `#/tree/${session.head.tree_id}?session=${encodeURIComponent(session.name)}`;
    const parts = [
      h("span", {}, visible(session.model ?? session.engine ?? "")),
      h("span", { class: "mono" }, visible(session.working_dir ?? "")),
      h("span", {}, plural(session.turns ?? 0, "turn")),
      usage && h("span", {}, `${tokens(usage)} tokens`),
      h("span", {}, money(usage?.cost_usd ?? session.cost_usd)),
    ];
    const text = parts.filter(Boolean).map((part) => part.textContent).join("\n");
    if (figures.dataset.text === text) return;
    figures.dataset.text = text;
    fill(figures, parts);
  }

  return { element, update };
}

// Return an element with the running chat and the queue, and `update(feed)` and `close()`.
export function activity(hub, refresh) {
  const clock = h("span", { class: "dim", "aria-hidden": "true" });
  const words = h("span", { role: "status" });
  const stop = h("button", { type: "button", class: "danger" }, "Interrupt");
  const line = h("div", { class: "row activity", hidden: true }, h("span", { class: "spinner", "aria-hidden": "true" }), words, clock, h("span", { class: "spread" }), stop);
  const queue = h("ol", { class: "queue", hidden: true, "aria-label": "Queued chats" });
  const rows = new Map();
  let running = null;

  async function cancel(button, stream) {
    button.disabled = true;
    try {
      await hub.one("claudecode.cancel", { stream_id: stream });
    } catch (error) {
      note(error.message);
    } finally {
      button.disabled = false;
    }
    refresh();
  }

  function tick() {
    if (running) setText(clock, duration(Math.max(0, Date.now() / 1000 - (running.started_at ?? running.created_at))));
  }

  function row(info) {
    const place = h("span", { class: "dim" });
    const button = h("button", { type: "button", class: "small danger" }, "Cancel");
    button.addEventListener("click", () => cancel(button, info.stream_id));
    const text = oneLine(info.prompt ?? "", 120);
    button.setAttribute("aria-label", `Cancel the queued chat: ${text}`);
    return { place, element: h("li", { class: "row" }, place, h("span", { class: "queue-prompt" }, text), button) };
  }

  function update(feed) {
    running = hub.state === "open" ? feed.running : null;
    line.hidden = !running;
    if (running) setText(words, running.status === "awaiting_permission" ? "Waits for an approval" : "Running");
    tick();
    const waiting = feed.queue;
    const ids = new Set(waiting.map(({ stream_id: id }) => id));
    for (const [id, { element }] of rows) {
      if (ids.has(id)) continue;
      element.remove();
      rows.delete(id);
    }
    waiting.forEach((info, index) => {
      if (!rows.has(info.stream_id)) rows.set(info.stream_id, row(info));
      const { element, place } = rows.get(info.stream_id);
      setText(place, index ? `queued, number ${index + 1}` : "queued, next");
      if (!element.isConnected) queue.append(element);
    });
    queue.hidden = !waiting.length;
  }

  stop.addEventListener("click", () => running && cancel(stop, running.stream_id));
  const timer = setInterval(tick, 1000);
  return { element: h("div", {}, line, queue), update, close: () => clearInterval(timer) };
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
