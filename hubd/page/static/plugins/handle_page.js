// The data behind a handle.

import { fill, h } from "../dom.js";
import { handleView } from "../results/handle_view.js";
import { visible } from "../text.js";
import { copyButton } from "../forms/copy_button.js";
import { trail, whenConnected } from "./connected.js";

// Show a handle's data. Returns a function that ends it.
export function showHandle(root, hub, handle) {
  const space = h("div", { "aria-live": "polite" }, h("p", { class: "dim" }, "Loading …"));
  fill(
    root,
    h("div", {}, trail(["Plugins", "#/plugins"]), h("h1", {}, "Handle")),
    h("div", { class: "row" }, h("code", { class: "whole-handle" }, visible(handle)), copyButton(() => handle)),
    space,
  );
  return whenConnected(hub, space, async () => {
    const resolved = await hub.one(`${hub.root}.resolve_handle`, { handle });
    fill(space, handleView(resolved));
  });
}
