// The questions of an agent to its user, as a form.

import { h } from "../dom.js";
import { visible } from "../text.js";

const MOST_OPTIONS = 50;
let lastForm = 0;

// Return the questions of a call, or an empty list if it is not such a call.
export function questionsOf(approval) {
  const { questions } = approval.input;
  if (approval.tool_name !== "AskUserQuestion" || !Array.isArray(questions)) return [];
  return questions.filter((question) => typeof question?.question === "string");
}

// Return a field set for each question, and `answers()`, which returns the answers by the text of
// the questions, or null if one is missing.
export function questionFields(questions) {
  lastForm += 1;
  const parts = questions.map((question, index) => questionPart(question, `question-${lastForm}-${index}`));
  const answers = () => {
    const entries = parts.map(({ text, answer }) => [text, answer()]);
    return entries.every(([, answer]) => answer) ? Object.fromEntries(entries) : null;
  };
  return { fields: parts.map(({ element }) => element), answers };
}

function questionPart(question, name) {
  const options = Array.isArray(question.options) ? question.options.filter(isOption).slice(0, MOST_OPTIONS) : [];
  const type = question.multiSelect === true ? "checkbox" : "radio";
  const inputs = options.map((option, index) => h("input", { type, name, value: index }));
  const own = h("input", {
    type: "text",
    "aria-label": "Another answer",
    placeholder: options.length ? "Another answer" : "Your answer",
  });
  own.addEventListener("input", () => {
    if (type === "radio") inputs.forEach((input) => (input.checked = false));
  });
  inputs.forEach((input) => input.addEventListener("change", () => type === "radio" && (own.value = "")));
  const element = h(
    "fieldset",
    {},
    h(
      "legend",
      {},
      question.header && h("span", { class: "dim" }, `${visible(question.header)}: `),
      visible(question.question),
    ),
    options.map((option, index) => optionView(option, inputs[index])),
    own,
  );
  const answer = () => {
    const chosen = options.filter((_, index) => inputs[index].checked).map(({ label }) => label);
    return [...chosen, own.value.trim()].filter(Boolean).join(", ");
  };
  return { element, text: question.question, answer };
}

function isOption(option) {
  return typeof option?.label === "string";
}

function optionView(option, input) {
  const { label, description, preview } = option;
  return h(
    "label",
    { class: "choice" },
    input,
    h(
      "span",
      {},
      visible(label),
      typeof description === "string" &&
        description !== label &&
        h("span", { class: "hint" }, ` ${visible(description)}`),
      typeof preview === "string" && h("pre", {}, visible(preview)),
    ),
  );
}
