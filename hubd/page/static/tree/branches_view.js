// The branches of a tree side by side. What is not drawn at first is counted, and drawn on demand.

import { h } from "../dom.js";
import { oneLine } from "../text.js";
import { plural } from "../format.js";
import { countBelow, runFrom } from "./exchanges.js";

// The turns that are drawn at first, and for each pressed button.
const FIRST_TURNS = 150;
const MORE_TURNS = 500;
// The forks inside of each other, and the branches of one fork, that are drawn at first.
const MOST_NESTED = 6;
const MOST_BRANCHES = 6;
// The turns of a straight run that are drawn at its beginning and at its end.
const RUN_START = 4;
const RUN_END = 8;
const MOST_MARKS = 4;

// Return an element with all branches. `turnView(exchange)` returns the element of one turn.
export function branchesView(roots, turnView) {
  const view = h("div", { class: "branch-view" });
  view.addEventListener("keydown", moveFocus);
  const queue = [];
  addBranches(view, roots, 0, queue);
  drawQueue(queue, FIRST_TURNS, turnView);
  return view;
}

// Breadth first, so that a long branch does not keep the others from being drawn.
function drawQueue(queue, budget, turnView) {
  let left = budget;
  for (const place of queue) {
    if (left > 0 && place.nested < MOST_NESTED) left -= drawRun(place, queue, turnView);
    else foldBranch(place, turnView);
  }
}

function addBranches(parent, firsts, nested, queue) {
  const row = h("div", { class: ["branches", firsts.length > 1 && "forked"] });
  parent.append(row);
  const add = (part) =>
    part.map((first) => {
      const element = h("div", { class: "branch" });
      row.append(element);
      return { element, first, nested };
    });
  queue.push(...add(firsts.slice(0, MOST_BRANCHES)));
  if (firsts.length > MOST_BRANCHES) queue.push({ rest: firsts.slice(MOST_BRANCHES), row, nested });
}

// Draw the turns of a branch up to the next fork, and return their number.
function drawRun(place, queue, turnView) {
  if (place.rest) {
    foldRest(place, turnView);
    return 0;
  }
  const run = runFrom(place.first);
  const list = h("ol", { class: "turns" });
  const item = (exchange) => h("li", {}, turnView(exchange));
  const isLong = run.length > RUN_START + RUN_END + 1;
  const start = isLong ? run.slice(0, RUN_START) : run;
  list.append(...start.map(item));
  if (isLong) {
    list.append(foldedTurns(run.slice(RUN_START, -RUN_END), item), ...run.slice(-RUN_END).map(item));
  }
  place.element.append(list);
  const { children } = run.at(-1);
  if (children.length) addBranches(place.element, children, place.nested + 1, queue);
  return isLong ? RUN_START + RUN_END : run.length;
}

// Return a list item that counts turns of a run. Its button draws some of them before it.
function foldedTurns(hidden, item) {
  const button = foldButton(() => {
    const next = hidden.splice(0, MORE_TURNS).map(item);
    element.before(...next);
    focusOn(next[0].querySelector("button"));
    if (hidden.length) label();
    else element.remove();
  });
  const label = () =>
    (button.textContent = `… ${plural(hidden.length, "turn")}${marksText(hidden.flatMap(({ marks }) => marks))}`);
  label();
  const element = h("li", {}, button);
  return element;
}

function foldBranch(place, turnView) {
  if (place.rest) {
    foldRest(place, turnView);
    return;
  }
  const { turns, branches, marks } = countBelow([place.first]);
  const button = foldButton(() => {
    button.remove();
    const queue = [{ ...place, nested: 0 }];
    drawQueue(queue, FIRST_TURNS, turnView);
    focusOn(place.element.querySelector("button"));
  });
  const where = branches > 1 ? ` in ${plural(branches, "branch", "branches")}` : "";
  button.textContent = `… ${plural(turns, "turn")}${where}${marksText(marks)}`;
  place.element.append(button);
}

function foldRest({ rest, row, nested }, turnView) {
  const { turns, marks } = countBelow(rest);
  const element = h("div", { class: "branch" });
  const button = foldButton(() => {
    const queue = [];
    const container = h("div", {});
    addBranches(container, rest, nested, queue);
    drawQueue(queue, FIRST_TURNS, turnView);
    const added = [...container.firstChild.children];
    element.replaceWith(...added);
    focusOn(added[0].querySelector("button"));
  });
  const branches = plural(rest.length, "more branch", "more branches");
  button.textContent = `… ${branches}, ${plural(turns, "turn")}${marksText(marks)}`;
  element.append(button);
  row.append(element);
}

function foldButton(open) {
  return h("button", { type: "button", class: "fold stop", tabindex: "-1", onclick: open });
}

function marksText(marks) {
  if (!marks.length) return "";
  const names = marks.slice(0, MOST_MARKS).map((name) => oneLine(name, 30));
  return ` ← ${names.join(", ")}${marks.length > MOST_MARKS ? ", …" : ""}`;
}

// Give the focus to one of the stops. It alone is reached with Tab.
export function focusOn(stop) {
  if (!stop) return;
  for (const other of stop.closest(".branch-view")?.querySelectorAll('.stop[tabindex="0"]') ?? []) other.tabIndex = -1;
  stop.tabIndex = 0;
  stop.focus();
}

// Arrows move along a branch, and between the branches of a fork.
function moveFocus(event) {
  const stop = event.target.closest(".stop");
  if (!stop || event.ctrlKey || event.metaKey || event.altKey) return;
  const moves = { ArrowDown: below, ArrowUp: above, ArrowRight: nextBranch, ArrowLeft: previousBranch };
  if (!Object.hasOwn(moves, event.key)) return;
  event.preventDefault();
  focusOn(moves[event.key](stop));
}

function stopsOf(branch) {
  return [
    ...(branch?.querySelectorAll(":scope > ol > li > .stop, :scope > ol > li > .turn > .stop, :scope > .stop") ??
      []),
  ];
}

function below(stop) {
  const branch = stop.closest(".branch");
  const stops = stopsOf(branch);
  return stops[stops.indexOf(stop) + 1] ?? stopsOf(branch.querySelector(":scope > .branches > .branch"))[0];
}

function above(stop) {
  const branch = stop.closest(".branch");
  const stops = stopsOf(branch);
  return stops[stops.indexOf(stop) - 1] ?? stopsOf(branch.parentElement.closest(".branch")).at(-1);
}

function nextBranch(stop) {
  return sideways(stop, "nextElementSibling");
}

function previousBranch(stop) {
  return sideways(stop, "previousElementSibling");
}

function sideways(stop, direction) {
  for (let branch = stop.closest(".branch"); branch; branch = branch.parentElement.closest(".branch")) {
    if (branch[direction]) return stopsOf(branch[direction])[0];
  }
  return null;
}
