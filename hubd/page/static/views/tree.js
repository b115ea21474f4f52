// The tree of a conversation: its branches side by side, or two of them compared.
//
// Addresses: `#/tree/TREE_ID?session=NAME` and `#/tree/TREE_ID?compare=NODE,NODE`.

import { fill, h } from "../dom.js";
import { count, plural } from "../format.js";
import { errorText, oneLine } from "../text.js";
import { branchesView, focusOn } from "../tree/branches_view.js";
import { comparisonView } from "../tree/comparison.js";
import { exchangesOf, pathTo } from "../tree/exchanges.js";
import { headsIn, turnActions } from "../tree/turn_actions.js";
import { turnView } from "../tree/turn_view.js";

// The most nodes that the hub draws, and its deepest level.
const MOST_NODES = 10_000;
const DEEPEST = 100_000;

export function show(root, { hub, path, query }) {
  const sessionName = query.get("session");
  const heading = h("h1", { tabindex: "-1" }, sessionName ? `Tree of ${oneLine(sessionName, 60)}` : "Tree");
  const summary = h("p", { class: "dim" });
  const banner = h("div", { role: "status" });
  const place = h("div", {}, h("p", { class: "dim" }, "Reading …"));
  const toHead = h("button", { type: "button", hidden: true }, "Go to the head");
  const ended = new AbortController();
  const context = {
    hub,
    treeId: path[0] ?? "",
    sessionName,
    heads: [],
    isOnPath: () => false,
    choose,
    compareFrom,
    reload: load,
  };
  context.actions = (exchange) => turnActions(exchange, context);
  const turn = (exchange) => turnView(exchange, context);
  let compared = null;

  async function load(focusedId = null) {
    if (hub.state !== "open") return;
    try {
      if (!context.treeId) context.treeId = (await hub.one("claudecode.get_tree", { name: sessionName })).tree_id;
      const [{ tree_id: treeId, nodes, more }, heads] = await Promise.all([
        hub.one("arbor.tree_render", {
          tree_id: context.treeId,
          resolve: true,
          limit: MOST_NODES,
          depth: DEEPEST,
          width: 300,
        }),
        headsIn(hub, context.treeId),
      ]);
      if (ended.signal.aborted) return;
      Object.assign(context, { treeId, heads });
      draw(exchangesOf(nodes), more, focusedId);
    } catch (error) {
      if (error.code !== "disconnected") fill(place, h("p", { class: "problem" }, errorText(error)));
    }
  }

  function draw(exchanges, more, focusedId) {
    const turns = exchanges.filter(({ isPrompt }) => isPrompt).length;
    const ends = exchanges.filter(({ children }) => !children.length).length;
    const left = more ? ` · ${count(more)} newer nodes are not shown` : "";
    const branches = plural(ends, "branch", "branches");
    summary.textContent = `${oneLine(context.treeId.slice(0, 8))} · ${plural(turns, "turn")}, ${branches}${left}`;
    const compare = query.get("compare")?.split(",") ?? [];
    if (compare.length === 2) {
      const [one, other] = compare.map((id) => exchanges.find(({ nodes }) => nodes.some((node) => node.id === id)));
      const problem = h(
        "p",
        { class: "problem" },
        "One of the turns is not among the nodes of this tree that are shown.",
      );
      fill(
        place,
        h("p", {}, h("a", { href: address() }, "Back to the tree")),
        one && other ? comparisonView(one, other, { hub, treeId: context.treeId, makeTurn: turn }) : problem,
      );
      return;
    }
    const head = exchanges.find(({ marks }) => sessionName && marks.includes(sessionName));
    const onPath = new Set(head ? pathTo(head) : []);
    context.isOnPath = (exchange) => onPath.has(exchange);
    const wanted = exchanges.find(({ id }) => id === focusedId) ?? head;
    const roots = exchanges.filter(({ parent }) => !parent);
    const view = branchesView(roots, turn, wanted);
    fill(place, sessionName && more > 0 && !head && hiddenHead(), view);
    toHead.hidden = !head;
    toHead.onclick = () => focusOn(scrollTo(view, head));
    const stop = wanted ? scrollTo(view, wanted) : view.querySelector(".stop");
    if (focusedId) focusOn(stop);
    else if (stop) stop.tabIndex = 0;
  }

  function hiddenHead() {
    return h(
      "p",
      { class: "warn" },
      `⚠ The head of ${oneLine(sessionName, 60)} is among the newer nodes, which are not shown. `,
      h("a", { href: `#/session/${encodeURIComponent(sessionName)}` }, "The page of the session"),
      " shows its newest turns.",
    );
  }

  // Bring a turn to the middle of the window, and return its stop.
  function scrollTo(view, exchange) {
    const element = view.querySelector(`[data-id="${CSS.escape(exchange.id)}"]`);
    element.scrollIntoView({ block: "center", inline: "center" });
    return element.querySelector(".stop");
  }

  function address(more = {}) {
    const params = new URLSearchParams({ ...(sessionName && { session: sessionName }), ...more });
    return `#/tree/${context.treeId}?${params}`;
  }

  function compareFrom(exchange) {
    compared = exchange;
    const cancel = h("button", { type: "button" }, "Cancel");
    cancel.addEventListener("click", () => {
      compared = null;
      fill(banner);
    });
    fill(
      banner,
      h(
        "p",
        { class: "card row" },
        `Choose the turn to compare with “${oneLine(exchange.prompt || "Start", 60)}”.`,
        cancel,
      ),
    );
    focusOn(place.querySelector(`[data-id="${CSS.escape(exchange.id)}"] .stop`));
  }

  function choose(exchange) {
    if (!compared || compared === exchange) return false;
    location.hash = address({ compare: `${compared.end.id},${exchange.end.id}` });
    return true;
  }

  hub.addEventListener("open", () => load(), { signal: ended.signal });
  fill(
    root,
    h(
      "div",
      { class: "row" },
      heading,
      summary,
      h(
        "div",
        { class: "row spread" },
        toHead,
        h("button", { type: "button", onclick: () => load() }, "Read again"),
      ),
    ),
    banner,
    place,
  );
  load();
  return () => ended.abort();
}
