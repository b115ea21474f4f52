// Questions of the page itself, in a modal dialog.

import { h } from "../dom.js";

// Ask before something that can't be undone. Resolves to true if it was confirmed.
export function confirmDialog(title, text, action) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { "aria-labelledby": "dialog-title", onclose: () => (dialog.remove(), resolve(dialog.returnValue === "yes")) },
      h("h2", { id: "dialog-title" }, title),
      text && h("pre", {}, text),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close("no") }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: () => dialog.close("yes") }, action),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
