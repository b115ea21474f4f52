// A question of a running method, as a form.

import { h } from "../dom.js";
import { newId } from "../forms/frame.js";
import { oneLine, visible } from "../text.js";
import { jsonText } from "./json_view.js";

// The hub's value for a question without a time limit.
const NO_LIMIT = 2147483647;

// Return the form of a question. `answer(data)` sends an answer, and rejects if it does not fit.
export function questionForm(item, answer) {
  const question = typeof item.requestData === "object" && item.requestData !== null ? item.requestData : { data: item.requestData };
  const { body, read, buttons } = (Object.hasOwn(FORMS, question.type ?? "") ? FORMS[question.type] : customForm)(question);
  const titleId = newId();
  const problem = h("p", { class: "param-problem", role: "alert", hidden: true });
  const send = async (data) => {
    try {
      await answer(data);
    } catch (error) {
      problem.hidden = false;
      problem.textContent = visible(error.message);
    }
  };
  const form = h(
    "form",
    {
      class: "card question",
      role: "group",
      tabindex: "-1",
      "aria-labelledby": titleId,
      novalidate: true,
      onsubmit: (event) => {
        event.preventDefault();
        const data = read(event.submitter?.value);
        if (data.problem) {
          problem.hidden = false;
          problem.textContent = data.problem;
        } else send(data);
      },
    },
    h("p", { id: titleId, class: "question-text" }, visible(question.message ?? "The method asks for data")),
    body,
    problem,
    h(
      "div",
      { class: "row" },
      buttons ?? h("button", { type: "submit", class: "first" }, "Answer"),
      h("button", { type: "button", onclick: () => send({ type: "cancelled" }) }, "Decline"),
      limitHint(item.timeoutMs),
    ),
  );
  return form;
}

function limitHint(milliseconds) {
  if (!milliseconds || milliseconds >= NO_LIMIT) return null;
  return h("span", { class: "hint spread" }, `Answer within ${Math.round(milliseconds / 1000)} s`);
}

const FORMS = { confirm: confirmForm, prompt: promptForm, select: selectForm };

function confirmForm(question) {
  const button = (value, label) =>
    h("button", { type: "submit", value: String(value), class: question.default === value && "first" }, label);
  return {
    body: null,
    buttons: [button(true, "Yes"), button(false, "No")],
    read: (pressed) => (pressed === undefined ? { problem: "Choose yes or no." } : { type: "confirmed", value: pressed === "true" }),
  };
}

function promptForm(question) {
  const input = h(question.multiline ? "textarea" : "input", {
    type: question.multiline ? null : "text",
    rows: question.multiline ? 4 : null,
    placeholder: question.placeholder ? oneLine(question.placeholder, 80) : null,
    "aria-label": oneLine(question.message ?? "Answer", 200),
    autocomplete: "off",
  });
  input.value = question.default ?? "";
  return { body: input, read: () => ({ type: "text", value: input.value }) };
}

function selectForm(question) {
  const options = Array.isArray(question.options) ? question.options : [];
  const name = newId();
  const type = question.multiSelect ? "checkbox" : "radio";
  const inputs = options.map(() => h("input", { type, name }));
  const rows = options.map((option, index) =>
    h(
      "label",
      { class: "inline option" },
      inputs[index],
      ` ${oneLine(option.label ?? option.value, 200)}`,
      option.description && h("span", { class: "hint" }, ` ${oneLine(option.description, 300)}`),
    ),
  );
  const read = () => {
    const values = options.filter((_, index) => inputs[index].checked).map(({ value }) => value);
    if (!question.multiSelect && !values.length) return { problem: "Choose one of them." };
    return { type: "selected", values };
  };
  return { body: h("div", { class: "options" }, rows), read };
}

function customForm(question) {
  const input = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "Answer as JSON", placeholder: "JSON" });
  const read = () => {
    try {
      return { type: "custom", data: JSON.parse(input.value) };
    } catch {
      return { problem: "The answer must be JSON; a text needs double quotes." };
    }
  };
  return { body: h("div", {}, h("pre", {}, jsonText(question.data)), input), read };
}
