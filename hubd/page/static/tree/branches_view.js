// The branches of a tree side by side. What is not drawn at first is counted, and drawn on demand.

import { h } from "../dom.js";
import { oneLine } from "../text.js";
import { plural } from "../format.js";
import { countBelow, pathTo, runFrom } from "./exchanges.js";

// The turns that are drawn at first, and for each pressed button.
const FIRST_TURNS = 150;
const MORE_TURNS = 500;
// The turns of a list that the browser skips as a whole.
const LIST_TURNS = 50;
// The forks inside of each other, and the branches of one fork, that are drawn at first.
const MOST_NESTED = 6;
const MOST_BRANCHES = 6;
// The turns of a straight run that are drawn at its beginning and at its end.
const RUN_START = 4;
const RUN_END = 8;
// The turns of a run that are drawn before and after the wanted one.
const AROUND_WANTED = 2;
// The forks above the wanted turn that are drawn, even if those above them are folded.
const WANTED_FORKS = 1;
const MOST_MARKS = 4;

// Return an element with all branches. `turnView(exchange)` returns the element of one turn. The
// turn `wanted` is always drawn, with the turns around it.
export function branchesView(roots, turnView, wanted = null) {
  const view = h("div", { class: "branch-view" });
  view.addEventListener("keydown", moveFocus);
  const path = wanted ? pathTo(wanted) : [];
  const tail = wanted && tailTo(wanted);
  const plan = { turnView, wanted, tail, path: new Set(path), near: new Set(path.slice(path.indexOf(tail))) };
  const queue = [];
  addBranches(view, roots, 0, queue, plan);
  drawQueue(queue, FIRST_TURNS, plan);
  return view;
}

// Return the first turn of the branch that is drawn for a wanted turn at any depth.
function tailTo(wanted) {
  let first = wanted;
  for (let forks = 0; first.parent; first = first.parent) {
    if (first.parent.children.length > 1) forks += 1;
    if (forks > WANTED_FORKS) break;
  }
  return first;
}

// Breadth first, so that a long branch does not keep the others from being drawn.
function drawQueue(queue, budget, plan) {
  let left = budget;
  for (const place of queue) {
    const isDrawn = plan.near.has(place.first) || (left > 0 && place.nested < MOST_NESTED);
    if (place.rest) foldRest(place, plan);
    else if (isDrawn) left -= drawRun(place, queue, plan);
    else foldBranch(place, queue, plan);
  }
}

function addBranches(parent, firsts, nested, queue, plan) {
  const row = h("div", { class: ["branches", firsts.length > 1 && "forked"] });
  parent.append(row);
  const drawn = firsts.slice(0, MOST_BRANCHES);
  const further = firsts.slice(MOST_BRANCHES).find((first) => plan.path.has(first));
  if (further) drawn.splice(-1, 1, further);
  for (const first of drawn) {
    const element = h("div", { class: "branch" });
    row.append(element);
    queue.push({ element, first, nested });
  }
  const rest = firsts.filter((first) => !drawn.includes(first));
  if (rest.length) queue.push({ rest, row, nested });
}

// Draw the turns of a branch up to the next fork, and return their number.
function drawRun(place, queue, plan) {
  const run = runFrom(place.first);
  const parts = partsOf(run, plan.wanted);
  const lists = parts.map((part) => (part.isDrawn ? turnList(part.turns, plan) : foldedTurns(part.turns, plan)));
  place.element.append(...lists);
  const { children } = run.at(-1);
  if (children.length) addBranches(place.element, children, place.nested + 1, queue, plan);
  return parts.reduce((sum, { isDrawn, turns }) => sum + (isDrawn ? turns.length : 0), 0);
}

function turnList(exchanges, plan) {
  const items = exchanges.map((exchange) => h("li", {}, plan.turnView(exchange)));
  return h("ol", { class: "turns" }, items);
}

// Return lists of turns that the browser skips as a whole while they are far from the visible part.
// Skipping each turn by itself would take long for thousands of them. `turnPixels` is the height of
// a turn in a list that has not been laid out.
function skippedLists(exchanges, turnPixels, plan) {
  const lists = [];
  for (let start = 0; start < exchanges.length; start += LIST_TURNS) {
    const list = turnList(exchanges.slice(start, start + LIST_TURNS), plan);
    list.classList.add("skipped");
    list.style.containIntrinsicBlockSize = `auto ${list.children.length * turnPixels}px`;
    lists.push(list);
  }
  return lists;
}

// Return the parts of a run: turns in a row that are drawn or folded.
function partsOf(run, wanted) {
  const place = run.indexOf(wanted);
  const isNearEnd = (index) => index < RUN_START || index >= run.length - RUN_END;
  const isNearWanted = (index) => place >= 0 && Math.abs(index - place) <= AROUND_WANTED;
  const isNear = (index) => isNearEnd(index) || isNearWanted(index);
  const parts = [];
  run.forEach((exchange, index) => {
    // A button would need the room of a single turn.
    const isDrawn = isNear(index) || (isNear(index - 1) && isNear(index + 1));
    if (parts.at(-1)?.isDrawn === isDrawn) parts.at(-1).turns.push(exchange);
    else parts.push({ isDrawn, turns: [exchange] });
  });
  return parts;
}

// Return a list whose only item counts turns of a run. Its button draws some of them before it.
function foldedTurns(hidden, plan) {
  const button = foldButton(() => {
    const before = element.previousElementSibling;
    const turnPixels = before.offsetHeight / before.children.length;
    const next = skippedLists(hidden.splice(0, MORE_TURNS), turnPixels, plan);
    element.before(...next);
    focusOn(next[0].querySelector("button"));
    if (hidden.length) label();
    else element.remove();
  });
  const label = () =>
    (button.textContent = `… ${plural(hidden.length, "turn")}${marksText(hidden.flatMap(({ marks }) => marks))}`);
  label();
  const element = h("ol", { class: "turns" }, h("li", {}, button));
  return element;
}

// Count the turns of a branch. If the wanted turn is among them, draw its end of the branch.
function foldBranch(place, queue, plan) {
  const tail = plan.path.has(place.first) ? plan.tail : null;
  const { turns, branches, marks } = countBelow([place.first], tail);
  const button = foldButton(() => {
    place.element.replaceChildren();
    drawQueue([{ ...place, nested: 0 }], FIRST_TURNS, plan);
    focusOn(place.element.querySelector("button"));
  });
  const where = branches > 1 ? ` in ${plural(branches, "branch", "branches")}` : "";
  button.textContent = `… ${plural(turns, "turn")}${where}${marksText(marks)}`;
  place.element.append(button);
  if (tail) addBranches(place.element, [tail], place.nested, queue, plan);
}

function foldRest({ rest, row, nested }, plan) {
  const { turns, marks } = countBelow(rest);
  const element = h("div", { class: "branch" });
  const button = foldButton(() => {
    const queue = [];
    const container = h("div", {});
    addBranches(container, rest, nested, queue, plan);
    drawQueue(queue, FIRST_TURNS, plan);
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
