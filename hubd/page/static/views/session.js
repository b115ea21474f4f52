// A session: its chats, live and replayed, and a box for the next prompt.

import { ChatFeed } from "../chat/feed.js";
import { itemLabel, itemViews } from "../chat/item_views.js";
import { showNewSession } from "../chat/new_session.js";
import { promptBox, startChat } from "../chat/prompt_box.js";
import { activity, sessionHead } from "../chat/session_head.js";
import { h } from "../dom.js";
import { visible } from "../text.js";
import { VirtualList } from "../virtual_list.js";

// Pixels from the start of the list at which older events are loaded.
const NEAR_START = 1500;
// A drawing that took longer than this waits, so that scrolling stays smooth.
const SLOW_MS = 8;
const REST = 4;

// Show the session of the address, or the form for a new one.
export function show(root, { hub, approvals, path: [name] }) {
  if (!name) {
    showNewSession(root, { hub });
    return () => {};
  }
  const feed = new ChatFeed(hub, name);
  const head = sessionHead(name);
  const work = activity(hub, () => feed.refresh());
  const problem = h("div", { role: "alert" });
  const scroller = h("div", { class: "chat", "aria-label": `Chat ${visible(name)}` });
  const toEnd = h("button", { type: "button", class: "to-end", hidden: true }, "↓ Newest");
  const announcer = h("p", { class: "unseen", role: "status" });
  const box = promptBox({
    hub,
    name,
    send: async (prompt) => {
      await startChat(hub, { name, prompt });
      list.scrollToEnd();
      feed.refresh();
    },
  });
  const views = itemViews({ hub, approvals, toggleEarlier: () => feed.toggleEarlier() });
  root.append(head.element, problem, h("div", { class: "chat-frame" }, scroller, toEnd), announcer, work.element, box.element);
  const list = new VirtualList(scroller, {
    ...views,
    key: (item) => item.key,
    role: "feed",
    itemRole: "article",
    label: itemLabel,
    estimate: 48,
    scrolled: position,
  });
  list.element.setAttribute("aria-label", "Chat");

  let frame = 0;
  let restUntil = 0;
  const schedule = () => {
    frame ||= requestAnimationFrame(draw);
  };

  // Draw what changed, once in a frame. A text that takes long is drawn less often.
  function draw(now) {
    frame = 0;
    if (now < restUntil) {
      schedule();
      return;
    }
    const { isRebuilt, added, changed } = feed.takeChanges();
    if (isRebuilt) list.setItems(feed.items);
    else if (added.length) list.append(added);
    for (const item of changed) list.update(item);
    for (const item of added) if (item.kind === "end" || item.kind === "error") announce(item);
    const took = performance.now() - now;
    if (took > SLOW_MS) restUntil = now + took * REST;
    if (list.isAtEnd) feed.trim();
    position();
  }

  function position() {
    toEnd.hidden = list.isAtEnd;
    if (list.distanceToStart < NEAR_START) feed.loadOlder();
  }

  function announce({ kind, message }) {
    announcer.textContent = kind === "end" ? "The answer is complete." : `The chat ended: ${visible(String(message))}`;
  }

  function showSession() {
    head.update(feed);
    work.update(feed);
    box.update();
    problem.replaceChildren();
    schedule();
  }

  function showProblem({ detail: error }) {
    if (error.code === "not_found" && !feed.session) {
      close();
      root.replaceChildren();
      showNewSession(root, { hub, name, reason: `There is no session ${visible(name)} yet.` });
    } else problem.replaceChildren(h("p", { class: "problem" }, visible(error.message)));
  }

  // The cards of approvals come and go.
  function showApprovals() {
    for (const item of feed.items) if (item.approval) list.update(item);
    feed.refresh();
  }

  function close() {
    cancelAnimationFrame(frame);
    approvals.removeEventListener("change", showApprovals);
    feed.close();
    work.close();
    list.close();
  }

  toEnd.addEventListener("click", () => {
    list.scrollToEnd();
    toEnd.hidden = true;
    scroller.focus();
  });
  feed.addEventListener("items", schedule);
  feed.addEventListener("session", showSession);
  feed.addEventListener("problem", showProblem);
  approvals.addEventListener("change", showApprovals);
  // On a phone the focus would open the keyboard over the chat.
  if (!matchMedia("(pointer: coarse)").matches) box.input.focus();
  return close;
}
