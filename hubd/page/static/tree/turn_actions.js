// What can be done at a turn of a tree: fork a session or a cone, move its head, compare.

import { fill, h } from "../dom.js";
import { note } from "../notes.js";
import { errorText, oneLine } from "../text.js";

const METHODS = {
  session: { fork: "claudecode.fork", move: "claudecode.set_head", address: (name) => ({ name }) },
  cone: { fork: "cone.fork", move: "cone.set_head", address: (name) => ({ identifier: name }) },
};

// Return the sessions and cones with their heads in a tree: `{kind, name}`.
export async function headsIn(hub, treeId) {
  const [sessions, cones] = await Promise.all([
    hub.all("claudecode.list").catch(() => []),
    hub.all("cone.list").catch(() => []),
  ]);
  const inTree = ({ head }) => head.tree_id === treeId;
  return [
    ...sessions
      .flatMap((page) => page.sessions)
      .filter(inTree)
      .map(({ name }) => ({ kind: "session", name })),
    ...cones
      .flatMap((page) => page.cones)
      .filter(inTree)
      .map(({ name }) => ({ kind: "cone", name })),
  ];
}

// Return the buttons for a turn. `context` has the hub, the heads, the name of the session that the
// page is about, `compareFrom(exchange)` and `reload(id)`.
export function turnActions(exchange, context) {
  const place = h("div", {});
  const problem = h("div", { role: "alert" });
  const node = exchange.end.id;

  async function attempt(work) {
    fill(problem);
    try {
      await work();
    } catch (error) {
      fill(problem, h("p", { class: "problem" }, errorText(error)));
    }
  }

  function open(text, fields, run) {
    const which = headSelect(context);
    const form = h(
      "form",
      { class: "row" },
      which.element,
      fields,
      h("button", { type: "submit", class: "first" }, text),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(() => run(which.head()));
    });
    fill(place, form);
    (form.querySelector("input") ?? form.querySelector("select")).focus();
  }

  const fork = () => {
    const name = h("input", {
      required: true,
      "aria-label": "Name of the new session",
      placeholder: "Name of the new session",
    });
    open("Fork", name, async (head) => {
      const { fork: method, address } = METHODS[head.kind];
      await context.hub.one(method, { ...address(head.name), new_name: name.value, at: node });
      note(`Forked ${oneLine(head.name, 60)} as ${oneLine(name.value, 60)}`);
      if (head.kind === "session") location.hash = `#/session/${encodeURIComponent(name.value)}`;
      else context.reload(exchange.id);
    });
  };
  const move = () =>
    open("Move the head here", null, async (head) => {
      const { move: method, address } = METHODS[head.kind];
      await context.hub.one(method, { ...address(head.name), node_id: node });
      note(`Moved the head of ${oneLine(head.name, 60)}. Its next chat continues from there.`);
      context.reload(exchange.id);
    });
  const hasHeads = context.heads.length > 0;
  return h(
    "div",
    { class: "turn-actions" },
    h(
      "div",
      { class: "row" },
      hasHeads && h("button", { type: "button", onclick: fork }, "Fork here …"),
      hasHeads && h("button", { type: "button", onclick: move }, "Move head here …"),
      h("button", { type: "button", onclick: () => context.compareFrom(exchange) }, "Compare with …"),
    ),
    place,
    problem,
  );
}

function headSelect({ heads, sessionName }) {
  const options = heads.map(({ kind, name }, index) =>
    h(
      "option",
      { value: index, selected: kind === "session" && name === sessionName },
      `${kind} ${oneLine(name, 60)}`,
    ),
  );
  const element = h("select", { "aria-label": "Session or cone" }, options);
  return { element, head: () => heads[Number(element.value)] };
}
