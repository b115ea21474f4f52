// The list of sessions, read again every two seconds while it is visible, and the list of cones.

import { fill, h } from "../dom.js";
import { count, money, plural } from "../format.js";
import { KeyedRows, setText } from "../keyed_rows.js";
import { note } from "../notes.js";
import { errorText, oneLine, visible } from "../text.js";
import { setTime, timeAgo } from "../times.js";

const REFRESH_MS = 2000;
// The hub has ten times as long for other work as for this list.
const SHARE = 10;
const PAGE_ROWS = 100;
const STATUSES = { awaiting_permission: "approval" };
const COLUMNS = [
  ["Name"],
  ["Status"],
  ["Asked"],
  ["Turns", "number optional"],
  ["Cost", "number optional"],
  ["Updated"],
  ["", "actions"],
];

export function show(root, { hub }) {
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the sessions" });
  const order = h(
    "select",
    { "aria-label": "Order" },
    h("option", { value: "updated" }, "Newest first"),
    h("option", { value: "name" }, "By name"),
  );
  const summary = h("p", { class: "dim", role: "status" });
  const problem = h("div", { role: "alert" });
  const body = h("tbody", {});
  const heads = COLUMNS.map(([name, kind]) =>
    h("th", { scope: "col", class: kind }, name || h("span", { class: "for-readers" }, "Actions")),
  );
  const table = h("table", { class: "sessions", hidden: true }, h("thead", {}, h("tr", {}, heads)), body);
  const more = h("button", { type: "button", hidden: true }, "Show more");
  const cones = h("section", { hidden: true });
  const ended = new AbortController();
  const rows = new KeyedRows(
    body,
    ({ id }) => id,
    (session) => sessionRow(session, () => confirmDeletion(root, hub, session, load)),
  );
  let sessions = null;
  let shown = PAGE_ROWS;
  let timer = 0;

  async function load() {
    clearTimeout(timer);
    if (hub.state !== "open" || document.hidden) return;
    const started = performance.now();
    try {
      const pages = await hub.all("claudecode.list");
      if (ended.signal.aborted) return;
      sessions = pages.flatMap((page) => page.sessions);
      fill(problem);
      draw();
    } catch (error) {
      if (error.code !== "disconnected") fill(problem, h("p", { class: "problem" }, errorText(error)));
    }
    clearTimeout(timer);
    if (ended.signal.aborted) return;
    timer = setTimeout(load, Math.max(REFRESH_MS, SHARE * (performance.now() - started)));
  }

  function draw() {
    if (!sessions) return;
    const wanted = filter.value.trim().toLowerCase();
    const matching = sessions.filter((session) => searched(session).includes(wanted));
    matching.sort(order.value === "name" ? byName : byUpdate);
    rows.set(matching.slice(0, shown));
    table.hidden = !matching.length;
    const left = matching.length - shown;
    more.hidden = left <= 0;
    setText(more, `Show ${count(Math.min(left, PAGE_ROWS))} of ${count(left)} more`);
    setText(
      summary,
      !sessions.length
        ? ""
        : wanted
          ? `${count(matching.length)} of ${plural(sessions.length, "session")}`
          : plural(sessions.length, "session"),
    );
    empty.hidden = sessions.length > 0;
  }

  const empty = h(
    "div",
    { class: "empty", hidden: true },
    h("p", {}, "There are no sessions yet."),
    h(
      "p",
      {},
      "A session is a conversation with an agent. Start one here, or with ",
      h("code", {}, "synapse claudecode chat"),
      ".",
    ),
  );
  more.addEventListener("click", () => {
    const next = body.children.length;
    shown += PAGE_ROWS;
    draw();
    body.children[next]?.querySelector("a").focus();
  });
  filter.addEventListener("input", draw);
  order.addEventListener("change", draw);
  hub.addEventListener("open", load, { signal: ended.signal });
  document.addEventListener("visibilitychange", load, { signal: ended.signal });
  fill(
    root,
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Sessions"),
      summary,
      h("a", { class: "button spread", href: "#/session/" }, "New session"),
    ),
    h("div", { class: "filters" }, filter, order),
    problem,
    table,
    more,
    empty,
    cones,
  );
  load();
  const loadCones = () => showCones(cones, hub).catch(() => {});
  hub.addEventListener("open", loadCones, { signal: ended.signal });
  loadCones();
  return () => {
    ended.abort();
    clearTimeout(timer);
  };
}

function searched({ name, prompt, working_dir: directory, status, model }) {
  return [name, prompt, directory, statusText(status), model].filter(Boolean).join("\n").toLowerCase();
}

function byUpdate(one, other) {
  return other.updated_at - one.updated_at || (other.id > one.id ? 1 : -1);
}

function byName(one, other) {
  return one.name.localeCompare(other.name, undefined, { numeric: true });
}

function statusText(status) {
  return Object.hasOwn(STATUSES, status ?? "") ? STATUSES[status] : oneLine(status ?? "new", 40);
}

function sessionRow(session, remove) {
  const name = h("a", { href: `#/session/${encodeURIComponent(session.name)}` }, oneLine(session.name, 120));
  const status = h("span", {});
  const asked = h("td", { class: "asked" });
  const turns = h("td", { class: "number optional" });
  const cost = h("td", { class: "number optional" });
  const updated = timeAgo(session.updated_at);
  const label = oneLine(session.name, 60);
  const tree = h("a", { class: "button", href: "#", "aria-label": `Tree of ${label}` }, "Tree");
  const element = h(
    "tr",
    {},
    h("th", { scope: "row", class: "name" }, name),
    h("td", { class: "status" }, status),
    asked,
    turns,
    cost,
    h("td", { class: "updated dim" }, updated),
    h(
      "td",
      { class: "actions" },
      tree,
      h("button", { type: "button", class: "danger", "aria-label": `Delete ${label}`, onclick: remove }, "Delete"),
    ),
  );
  const update = (current) => {
    setText(status, statusText(current.status));
    status.className = `status-${current.status}`;
    setText(asked, oneLine(current.prompt ?? "", 160));
    element.title = visible(current.working_dir ?? "");
    setText(turns, count(current.turns));
    setText(cost, money(current.cost_usd));
    if (Number(updated.dataset.seconds) !== current.updated_at) setTime(updated, current.updated_at);
    tree.href = `#/tree/${current.head.tree_id}?session=${encodeURIComponent(current.name)}`;
  };
  return { element, update };
}

// Ask before a session is deleted.
function confirmDeletion(root, hub, session, done) {
  const problem = h("div", { role: "alert" });
  const remove = h("button", { type: "button", class: "danger" }, "Delete");
  const dialog = h(
    "dialog",
    { "aria-label": "Delete a session" },
    h("p", {}, "Delete session ", h("strong", {}, visible(session.name)), "?"),
    h("p", { class: "dim" }, "Its conversation stays while another session or cone uses the same tree."),
    problem,
    h("form", { method: "dialog", class: "row" }, h("button", {}, "Keep"), remove),
  );
  remove.addEventListener("click", async () => {
    try {
      await hub.one("claudecode.delete", { session_id: session.id });
      dialog.close();
      note(`Deleted session ${oneLine(session.name, 60)}`);
      await done();
    } catch (error) {
      fill(problem, h("p", { class: "problem" }, errorText(error)));
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  root.append(dialog);
  dialog.showModal();
}

async function showCones(section, hub) {
  const pages = await hub.all("cone.list");
  const cones = pages.flatMap((page) => page.cones).sort(byUpdate);
  section.hidden = !cones.length;
  const cells = ({ name, model_id: model, head, updated_at: updated }) => [
    h("th", { scope: "row", class: "name" }, h("a", { href: `#/tree/${head.tree_id}` }, oneLine(name, 120))),
    h("td", { class: "mono" }, oneLine(model, 80)),
    h("td", { class: "dim" }, timeAgo(updated)),
  ];
  const heads = ["Name", "Model", "Updated"].map((name) => h("th", { scope: "col" }, name));
  const list = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, heads)),
    h(
      "tbody",
      {},
      cones.map((cone) => h("tr", {}, cells(cone))),
    ),
  );
  fill(section, h("h2", {}, "Cones"), list);
}
