// The inbox: the approvals that wait, the newest first, and those that were answered.

import { approvalCard } from "../approval_card.js";
import { fill, h } from "../dom.js";
import { note } from "../notes.js";
import { outcomeText } from "../approval/outcome.js";
import { errorText, oneLine } from "../text.js";
import { timeAgo } from "../times.js";

const PAST_APPROVALS = 20;
// The time in which the keys of a card do nothing after the focus moved to it by itself, so that a
// key that was pressed twice does not answer two approvals.
const ARRIVING_MS = 400;
// The time in which clicks do nothing after cards have moved, so that a click, or the second one of a
// double click, does not answer the card that has just come under the pointer.
const MOVING_MS = 500;

export function show(root, { hub, approvals }) {
  const heading = h("h1", { tabindex: "-1" }, "Inbox");
  const list = h("div", { class: "approvals" });
  const empty = emptyText();
  const past = pastApprovals(hub);
  // Read out by screen readers.
  const news = h("p", { class: "for-readers", role: "status" });
  const ended = new AbortController();
  const cards = new Map();
  let movingTimer = 0;

  function moved() {
    list.dataset.moving = "";
    clearTimeout(movingTimer);
    movingTimer = setTimeout(() => delete list.dataset.moving, MOVING_MS);
  }

  // A click by keyboard has no detail, and the focus does not move with the cards.
  function ignoreWhileMoving(event) {
    if (!("moving" in list.dataset) || event.detail === 0) return;
    event.preventDefault();
    event.stopPropagation();
    note("The list has just moved, so this click did nothing.");
  }

  function showPending() {
    const focused = [...cards.values()].find((card) => card.contains(document.activeElement));
    const place = focused ? [...list.children].indexOf(focused) : -1;
    const pending = new Set(approvals.pending.map(({ id }) => id));
    if (cards.size && approvals.pending.some(({ id }) => !cards.has(id))) moved();
    for (const [id, card] of cards) {
      if (pending.has(id)) continue;
      moved();
      card.remove();
      cards.delete(id);
    }
    approvals.pending.forEach((approval, index) => {
      if (!cards.has(approval.id)) {
        cards.set(approval.id, approvalCard(approval, approvals));
        news.textContent = `New: ${oneLine(approval.tool_name, 40)} ${oneLine(approval.summary ?? "", 120)}`;
      }
      const card = cards.get(approval.id);
      if (list.children[index] !== card) list.insertBefore(card, list.children[index] ?? null);
    });
    empty.hidden = cards.size > 0;
    if (focused && !focused.isConnected)
      arriveAt(list.children[Math.min(place, list.children.length - 1)] ?? heading);
  }

  function arriveAt(element) {
    element.dataset.arriving = "";
    setTimeout(() => delete element.dataset.arriving, ARRIVING_MS);
    element.focus();
    element.scrollIntoView({ block: "nearest" });
  }

  function showAnswer({ detail }) {
    const { approval, isOwn } = detail;
    const call = `${oneLine(approval.tool_name, 40)} ${oneLine(approval.summary ?? "", 60)}`;
    note(`${outcomeText({ ...detail, tool_name: approval.tool_name, isElsewhere: !isOwn })} · ${call}`);
    past.refresh();
  }

  function move(event) {
    const isTyping = event.target.closest?.("input, textarea, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || !list.children.length) return;
    // Arrows scroll inside of a long command or difference.
    if (event.key.startsWith("Arrow") && event.target.closest?.("pre, .diff, details")) return;
    const index = [...list.children].findIndex((card) => card.contains(document.activeElement));
    const next = list.children[index < 0 ? 0 : Math.max(0, Math.min(index + step, list.children.length - 1))];
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  approvals.addEventListener("change", showPending, { signal: ended.signal });
  approvals.addEventListener("answered", showAnswer, { signal: ended.signal });
  // The comparison with a present file changes the height of a card.
  approvals.addEventListener("question", () => cards.size > 1 && moved(), { signal: ended.signal });
  list.addEventListener("click", ignoreWhileMoving, { capture: true });
  addEventListener("keydown", move, { signal: ended.signal });
  const keys = h(
    "p",
    { class: "hint keys optional" },
    [
      ["j", "k"],
      " next, previous · ",
      ["y"],
      " allow · ",
      ["n"],
      " deny · ",
      ["e"],
      " edit · ",
      ["a"],
      " always allow",
    ].map((part) => (Array.isArray(part) ? part.map((key) => h("kbd", {}, key)) : part)),
  );
  fill(root, h("div", { class: "row" }, heading, keys, notificationButton()), news, list, empty, past.element);
  showPending();
  list.firstElementChild?.focus();
  return () => ended.abort();
}

function emptyText() {
  return h(
    "div",
    { class: "empty" },
    h("p", {}, "Nothing waits for you."),
    h(
      "p",
      {},
      "When an agent asks before it runs a command, writes a file or wants an answer, the question appears here.",
    ),
  );
}

function notificationButton() {
  if (!("Notification" in window) || Notification.permission !== "default") return null;
  const button = h("button", { type: "button", class: "spread" }, "Notify me");
  button.addEventListener("click", async () => {
    await Notification.requestPermission();
    button.remove();
  });
  return button;
}

// Return the folded list of answered approvals. It is read when it is opened.
function pastApprovals(hub) {
  const table = h("tbody", {});
  const problem = h("p", { class: "dim" });
  const names = ["Outcome", "Tool", "Call", "Session", "Asked"];
  const heads = names.map((name, index) => h("th", { scope: "col", class: index > 2 && "optional" }, name));
  const whole = h("table", { hidden: true }, h("thead", {}, h("tr", {}, heads)), table);
  const element = h("details", { class: "past" }, h("summary", {}, "Answered"), problem, whole);
  async function refresh() {
    if (!element.open) return;
    try {
      const pages = await hub.all("loopback.history", { limit: PAST_APPROVALS + 1 });
      const answered = pages.flatMap(({ approvals }) => approvals).filter(({ status }) => status !== "pending");
      problem.textContent = answered.length ? "" : "No approval was answered yet.";
      whole.hidden = !answered.length;
      fill(table, answered.slice(0, PAST_APPROVALS).map(pastRow));
    } catch (error) {
      problem.textContent = errorText(error);
    }
  }
  element.addEventListener("toggle", refresh);
  return { element, refresh };
}

function pastRow(approval) {
  const { session_name: name, status } = approval;
  return h(
    "tr",
    {},
    h("td", { class: status === "approved" ? "good" : "bad" }, outcomeText(approval)),
    h("td", {}, oneLine(approval.tool_name, 60)),
    h("td", { class: "mono" }, oneLine(approval.summary ?? "", 160)),
    h(
      "td",
      { class: "optional" },
      name && h("a", { href: `#/session/${encodeURIComponent(name)}` }, oneLine(name, 60)),
    ),
    h("td", { class: "optional" }, timeAgo(approval.created_at)),
  );
}
