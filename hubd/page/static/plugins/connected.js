// Loading parts of a page that need the hub.

import { fill, h } from "../dom.js";
import { described, visible } from "../text.js";

// Run `load` when the hub is connected, and again after each reconnect and, if `follow` is true,
// each change of the schema. An error is shown in `root`. Returns a function that ends it.
export function whenConnected(hub, root, load, { follow = false } = {}) {
  let isOver = false;
  const run = async () => {
    if (isOver || hub.state !== "open") return;
    try {
      await load();
    } catch (error) {
      // The next connection loads it again.
      if (!isOver && error.code !== "disconnected") fill(root, ...problem(error));
    }
  };
  hub.addEventListener("open", run);
  if (follow) hub.addEventListener("schema", run);
  run();
  return () => {
    isOver = true;
    hub.removeEventListener("open", run);
    hub.removeEventListener("schema", run);
  };
}

// Return the elements of an error, with the hub's advice.
export function problem(error) {
  const advice = error.guidance?.suggestion;
  return [h("p", { class: "problem", role: "alert" }, visible(error.message)), advice ? h("p", { class: "hint" }, visible(advice)) : null];
}

// Return the links to the pages above this one: pairs of a text and an address.
export function trail(...links) {
  return h(
    "nav",
    { class: "trail", "aria-label": "Above this page" },
    links.flatMap(([text, address], index) => [index > 0 && h("span", { "aria-hidden": "true" }, " / "), h("a", { href: address }, visible(text))]),
  );
}

// Return the address of a namespace or of one of its methods.
export function address(namespace, method = "") {
  return `#/plugins/${encodeURIComponent(namespace)}${method ? `/${encodeURIComponent(method)}` : ""}`;
}

// Return the paragraphs of a docstring. Lines of a paragraph flow; lists and indented lines stay.
export function paragraphs(text) {
  return (text ?? "")
    .split(/\n\s*\n/)
    .filter((part) => part.trim())
    .map((part) => {
      const isFlowing = !/^(\s+|[-*] |\d+\. )/m.test(part);
      return h("p", { class: "plain-text" }, described(isFlowing ? part.replace(/\n/g, " ") : part));
    });
}
