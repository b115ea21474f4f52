// Two branches of a tree compared: the part in common folded, and the two continuations side by side.

import { diffView } from "../diff_view.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { errorText, oneLine } from "../text.js";
import { pathTo } from "./exchanges.js";
import { readAnswer } from "./turn_texts.js";

const FIRST_PAIRS = 20;

// Return the comparison of the paths to two exchanges. `makeTurn(exchange)` returns the element of one.
export function comparisonView(one, other, { hub, treeId, makeTurn }) {
  const turn = (exchange) => {
    const element = makeTurn(exchange);
    // Outside of a tree the arrows don't move the focus, so each turn is reached with Tab.
    element.querySelector(".stop").tabIndex = 0;
    return element;
  };
  const [left, right] = [pathTo(one), pathTo(other)];
  let common = 0;
  while (common < Math.min(left.length, right.length) && left[common] === right[common]) common += 1;
  const shared = left.slice(0, common);
  const pairs = Array.from({ length: Math.max(left.length, right.length) - common }, (_, index) => [
    left[common + index],
    right[common + index],
  ]);
  const view = h("div", { class: "comparison" });
  const heads = [one, other].map((exchange) => h("h2", {}, headingOf(exchange)));
  view.append(sharedView(shared, turn), h("div", { class: "side-by-side" }, heads));
  const draw = (part) => part.map((pair) => pairView(pair, { hub, treeId, turn }));
  view.append(...draw(pairs.slice(0, FIRST_PAIRS)));
  if (!pairs.length) view.append(h("p", { class: "dim" }, "Both are the same turn."));
  if (pairs.length > FIRST_PAIRS) {
    const rest = pairs.slice(FIRST_PAIRS);
    const more = h(
      "button",
      { type: "button", onclick: () => more.replaceWith(...draw(rest.splice(0, rest.length))) },
      `Show ${plural(rest.length, "more turn")}`,
    );
    view.append(more);
  }
  return view;
}

function headingOf(exchange) {
  const marks = exchange.marks.map((name) => oneLine(name, 40)).join(", ");
  return `${oneLine(exchange.end.short_id ?? "", 20)} ${marks ? `← ${marks}` : oneLine(exchange.prompt, 60)}`;
}

function sharedView(shared, turn) {
  const last = oneLine(shared.at(-1)?.prompt || "Start", 80);
  const list = h("ol", { class: "turns" });
  const details = h(
    "details",
    {},
    h("summary", {}, `${plural(shared.filter(({ isPrompt }) => isPrompt).length, "turn")} in common, up to “${last}”`),
    list,
  );
  details.addEventListener("toggle", () => list.append(...shared.map((exchange) => h("li", {}, turn(exchange)))), {
    once: true,
  });
  return details;
}

function pairView([left, right], { hub, treeId, turn }) {
  const columns = [left, right].map((exchange) =>
    h("div", {}, exchange ? turn(exchange) : h("p", { class: "dim" }, "No further turn")),
  );
  const answers = h("div", { class: "answers" });
  if (left && right) readAnswers();
  return h("section", {}, h("div", { class: "side-by-side" }, columns), answers);

  async function readAnswers() {
    try {
      const [before, after] = await Promise.all([readAnswer(hub, treeId, left), readAnswer(hub, treeId, right)]);
      fill(answers, h("h3", {}, "Difference of the answers: − first, + second"), diffView(before, after));
    } catch (error) {
      fill(answers, h("p", { class: "problem" }, errorText(error)));
    }
  }
}
