// The box in which a prompt is written. Enter sends it; Shift-Enter starts a new line.

import { h } from "../dom.js";
import { note } from "../notes.js";
import { errorText } from "../text.js";

const MOST_ROWS = 12;

// Return an element and `update()`, which looks at the connection again.
//
// `send(prompt)` returns a promise. `name` keeps an unsent prompt for this tab.
export function promptBox({ hub, name, send }) {
  const draft = `hubd.draft.${name}`;
  const input = h("textarea", { rows: "2", placeholder: "Write a prompt", "aria-label": "Prompt", "aria-describedby": "prompt-hint", autocomplete: "off" });
  const button = h("button", { type: "submit", class: "first" }, "Send");
  const hint = h("p", { id: "prompt-hint", class: "hint", role: "status" });
  const problem = h("div", { role: "alert" });
  const form = h("form", { class: "prompt-box" }, problem, h("div", { class: "prompt-row" }, input, button), hint);
  // Prompts are sent one after the other, in the order in which they were written.
  let sending = Promise.resolve();
  input.value = sessionStorage.getItem(draft) ?? "";

  function submit(event) {
    event.preventDefault();
    const prompt = input.value;
    if (!prompt.trim() || hub.state !== "open") return;
    problem.replaceChildren();
    setValue("");
    sending = sending.then(() => send(prompt)).catch((error) => {
      problem.replaceChildren(h("p", { class: "problem" }, errorText(error)));
      // The prompt was not accepted, so it can be sent again.
      setValue([prompt, input.value].filter(Boolean).join("\n"));
    });
  }

  function setValue(text) {
    input.value = text;
    keep();
    grow();
  }

  function keep() {
    if (input.value) sessionStorage.setItem(draft, input.value);
    else sessionStorage.removeItem(draft);
  }

  function grow() {
    const lines = input.value.split("\n", MOST_ROWS).length;
    input.rows = Math.max(2, lines);
  }

  function update() {
    const isOpen = hub.state === "open";
    // The box stays usable, so that a restart of the hub takes neither the focus nor the text.
    button.disabled = !isOpen;
    const text = isOpen ? (isTouch() ? "" : "Enter sends, Shift-Enter starts a new line") : "The hub does not answer. You can send when it does.";
    if (hint.textContent !== text) hint.textContent = text;
  }

  form.addEventListener("submit", submit);
  input.addEventListener("input", () => {
    keep();
    grow();
  });
  input.addEventListener("keydown", (event) => {
    // The Enter that ends the choice of an input method sends nothing.
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    if (isTouch() && !event.ctrlKey && !event.metaKey) return;
    submit(event);
  });
  grow();
  update();
  return { element: form, input, update };
}

// The keyboard of a phone has no Shift-Enter, so its Enter starts a new line.
function isTouch() {
  return matchMedia("(hover: none) and (pointer: coarse)").matches;
}

// Start a chat, and show the hub's advice about it. The advice about a failure is in its error.
export async function startChat(hub, params) {
  const advice = [];
  await hub.stream("claudecode.chat_async", params, {
    guidance: (item) => advice.push(item.suggestion ?? item.message ?? ""),
  }).done;
  advice.forEach(note);
}
