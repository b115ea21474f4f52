// The form that changes the input of a call before it runs.

import { fill, h } from "../dom.js";
import { visible } from "../text.js";

// Return the form. `answer(params)` answers the approval. A command is edited as it is. Any other
// input, and text with hidden characters, is edited as JSON.
export function editForm(approval, answer) {
  const { command } = approval.input;
  const isCommand = typeof command === "string" && visible(command) === command;
  const text = isCommand ? command : escaped(JSON.stringify(approval.input, null, 2));
  const area = h("textarea", {
    rows: Math.min(16, text.split("\n").length + 1),
    spellcheck: "false",
    "aria-label": isCommand ? "Command" : "Input as JSON",
  });
  area.value = text;
  const problem = h("div", { role: "alert" });
  const form = h(
    "form",
    { class: "edit" },
    area,
    problem,
    h("div", { class: "row" }, h("button", { type: "submit", class: "first" }, "Run the edited call")),
  );
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    let input = { ...approval.input, command: area.value };
    if (!isCommand) {
      try {
        input = JSON.parse(area.value);
        if (input === null || typeof input !== "object" || Array.isArray(input))
          throw new Error("the input must be a JSON object");
      } catch (error) {
        fill(problem, h("p", { class: "problem" }, `This is not valid: ${visible(error.message)}`));
        return;
      }
    }
    answer({ approve: true, updated_input: input });
  });
  return form;
}

// Write hidden characters of JSON text as escapes, so that the text stays the same value.
function escaped(json) {
  return [...json]
    .map((character) =>
      character === "\n" || visible(character) === character ? character : unitEscapes(character),
    )
    .join("");
}

function unitEscapes(character) {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
    .join("");
}
