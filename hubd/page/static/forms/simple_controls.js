// Controls for single values: texts, numbers, yes or no, choices, JSON.
//
// A control has `element`, `content()` as params.js describes it, `problem(message)`, and `first`,
// the element that gets the focus.

import { h } from "../dom.js";
import { exactTime } from "../format.js";
import { oneLine, visible } from "../text.js";
import { offerValues } from "./completion.js";
import { frame, newId } from "./frame.js";
import { valueOf } from "./params.js";

// Return the control of a text, a number, or either.
export function textControl(field, content, { hub, changed }) {
  const isLong = field.multiline || (typeof content === "string" && content.includes("\n"));
  const input = h(isLong ? "textarea" : "input", {
    type: isLong ? null : "text",
    rows: isLong ? 3 : null,
    inputmode: field.kind === "number" && !field.isTime ? (field.integer ? "numeric" : "decimal") : null,
    placeholder: placeholder(field),
    spellcheck: field.multiline ? null : "false",
    autocapitalize: field.multiline ? null : "off",
    autocomplete: "off",
    class: [field.format && "mono", field.kind === "number" && "number"],
    oninput: changed,
  });
  input.value = content ?? "";
  const list = field.completes && !isLong ? offerValues(input, field.name, field.completes, hub) : null;
  const moment = field.isTime ? timeHint(field, input) : null;
  const nothing = nullSwitch(field, content, input, changed);
  const framed = frame(field, input, { extra: nothing?.element, after: [list, moment] });
  return { ...framed, first: input, content: () => (nothing?.isOn() ? null : input.value) };
}

function placeholder(field) {
  const value = field.default ?? field.examples?.[0];
  if (value === undefined || value === null || typeof value === "object") return null;
  return field.default === undefined || field.default === null ? `such as ${oneLine(value, 60)}` : oneLine(value, 60);
}

// The time that a number of seconds means.
function timeHint(field, input) {
  const shown = h("output", { class: "hint" });
  const update = () => {
    const seconds = input.value ? valueOf(field, input.value, [], []) : undefined;
    shown.textContent = seconds === undefined ? "" : exactTime(seconds);
  };
  input.addEventListener("input", update);
  update();
  return shown;
}

// A switch for null, for fields that differ from it when they are empty.
function nullSwitch(field, content, input, changed) {
  if (!field.nullable || (!field.required && (field.default === undefined || field.default === null))) return null;
  const box = h("input", {
    type: "checkbox",
    onchange: () => {
      input.disabled = box.checked;
      changed();
    },
  });
  box.checked = content === null;
  input.disabled = box.checked;
  return { element: h("label", { class: "inline spread" }, box, " null"), isOn: () => box.checked };
}

// Return the control of any value, written as JSON.
export function jsonControl(field, content, { changed }) {
  const example = field.default ?? field.examples?.[0];
  const input = h("textarea", {
    rows: 3,
    spellcheck: "false",
    placeholder: example === undefined || example === null ? (field.isObject ? "{ … }" : "JSON") : oneLine(JSON.stringify(example), 200),
    oninput: changed,
  });
  input.value = content === null ? "null" : (content ?? "");
  return { ...frame(field, input, { extra: h("span", { class: "hint spread" }, "JSON") }), first: input, content: () => input.value };
}

// Return the control of yes or no. Without a default, it also has a third state: not sent.
export function booleanControl(field, content, { changed }) {
  if (typeof field.default === "boolean" && !field.nullable) {
    const box = h("input", { type: "checkbox", id: newId(), onchange: changed });
    box.checked = content ?? field.default;
    return { ...switchFrame(field, box), first: box, content: () => box.checked };
  }
  const options = [["", field.required ? "choose" : "not set"], ["true", "yes"], ["false", "no"]];
  if (field.nullable && field.required) options.push(["null", "null"]);
  const select = choose(options, content === undefined ? "" : String(content), changed);
  return {
    ...frame(field, select),
    first: select,
    content: () => ({ true: true, false: false, null: null })[select.value],
  };
}

function switchFrame(field, box) {
  const framed = frame(field, box);
  framed.element.classList.add("switch");
  return framed;
}

// Return the control of a choice among values.
export function choiceControl(field, content, { changed }) {
  const isSet = (value) => value !== undefined && value !== null;
  const none = isSet(field.default) ? `default: ${field.default}` : field.required ? "choose" : "not set";
  const options = [["", visible(none)], ...field.values.map((value, index) => [String(index), visible(String(value))])];
  if (field.nullable && (field.required || isSet(field.default))) options.push(["null", "null"]);
  const chosen = content === null ? "null" : content === undefined ? "" : String(field.values.indexOf(content));
  const select = choose(options, chosen, changed);
  return {
    ...frame(field, select),
    first: select,
    content: () => (select.value === "null" ? null : select.value === "" ? undefined : field.values[Number(select.value)]),
  };
}

function choose(options, value, changed) {
  const select = h("select", { onchange: changed }, options.map(([key, label]) => h("option", { value: key }, label)));
  select.value = value;
  return select;
}

// Return the control of a value that can't be changed, such as the tag of a variant. It shows nothing.
export function constantControl(field) {
  return { element: h("span", { hidden: true }), first: null, content: () => field.value, problem() {} };
}
