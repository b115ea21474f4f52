// Controls for values with parts: lists, objects, maps and unions. Their parts are controls too.
//
// Besides the parts of every control they have `part(key)`: the control of an entry or a property.
// A field with `isEntry` is inside a frame that has its name already.

import { fill, h } from "../dom.js";
import { visible } from "../text.js";
import { groupFrame, newId } from "./frame.js";
import { hiddenCharacters } from "./hidden_characters.js";
import { own } from "./json_schema.js";
import { booleanControl, choiceControl, constantControl, jsonControl, textControl } from "./simple_controls.js";

const CONTROLS = {
  text: textControl,
  number: textControl,
  scalar: textControl,
  json: jsonControl,
  boolean: booleanControl,
  choice: choiceControl,
  constant: constantControl,
  list: listControl,
  object: optional(objectControl),
  map: mapControl,
  union: optional(unionControl),
};

// Return the control of a field. `place` has the `hub`, and `changed` to be called after each change.
export function control(field, content, place) {
  return CONTROLS[field.kind](field, content, place);
}

// An optional object is not sent until it is added.
function optional(makeControl) {
  return (field, content, place) => {
    if (field.required && !field.nullable) return makeControl(field, content, place);
    let inner = null;
    const space = h("div");
    const button = h("button", { type: "button" });
    const framed = groupFrame(field, button, space);
    const set = (next) => {
      inner = next;
      button.textContent = inner ? "Remove" : "Add";
      button.setAttribute("aria-label", `${button.textContent} ${visible(field.title)}`);
      fill(space, inner?.element);
    };
    // The frame of the part has the description, and this one the button.
    const bare = { ...field, description: "", default: undefined, required: true, isEntry: true };
    button.addEventListener("click", () => {
      set(inner ? null : makeControl(bare, undefined, place));
      inner?.first?.focus();
      place.changed();
    });
    set(content === undefined || content === null ? null : makeControl(bare, content, place));
    return {
      ...framed,
      first: button,
      content: () => (inner ? inner.content() : field.required ? null : undefined),
      part: (key) => inner?.part(key) ?? inner,
    };
  };
}

function objectControl(field, content, place) {
  const parts = new Map(field.fields().map((part) => [part.name, control(part, own(content ?? {}, part.name), place)]));
  const framed = groupFrame(field, ...[...parts.values()].map((part) => part.element));
  return {
    ...framed,
    first: [...parts.values()].find((part) => part.first)?.first,
    content: () => Object.fromEntries([...parts].map(([name, part]) => [name, part.content()])),
    part: (key) => parts.get(String(key)),
  };
}

function unionControl(field, content, place) {
  const select = h(
    "select",
    { id: newId(), "aria-label": `Kind of ${visible(field.title)}` },
    field.variants.map(({ title }, index) => h("option", { value: index }, visible(title))),
  );
  const hint = h("p", { class: "hint" });
  const space = h("div");
  let inner = null;
  const set = (variant, value) => {
    const { field: makeField, description } = field.variants[variant];
    inner = control({ ...makeField(), title: field.title, description: "", isEntry: true }, value, place);
    hint.textContent = visible(description);
    fill(space, inner.element);
  };
  select.value = String(content?.variant ?? 0);
  set(Number(select.value), content?.content);
  select.addEventListener("change", () => {
    set(Number(select.value), undefined);
    place.changed();
  });
  return {
    ...groupFrame(field, select, hint, space),
    first: select,
    content: () => ({ variant: Number(select.value), content: inner.content() }),
    part: (key) => inner.part?.(key) ?? inner,
  };
}

function listControl(field, content, place) {
  const rows = rowsControl(field, place, {
    noun: "entry",
    makeRow: (value, index) => {
      const part = field.fixed[index]?.() ?? field.item(index);
      return control({ ...part, title: `${field.title} ${index + 1}`, isEntry: true }, value, place);
    },
    canAdd: (size) => field.hasMore && size < (field.maxItems ?? Infinity),
    canRemove: (index) => index >= field.fixed.length,
  });
  const initial = content ?? Array.from({ length: field.required ? Math.max(field.fixed.length, Math.min(field.minItems ?? 0, 20)) : 0 });
  for (const value of initial) rows.add(value);
  // A fixed list has all its entries or none.
  if (!initial.length && field.fixed.length) rows.onFirst(() => field.fixed.slice(1).forEach(() => rows.add(undefined)));
  return {
    ...rows,
    content: () => (rows.rows.length ? rows.rows.map((row) => row.control.content()) : undefined),
    part: (key) => rows.rows[Number(key)]?.control,
  };
}

function mapControl(field, content, place) {
  const rows = rowsControl(field, place, {
    noun: "pair",
    makeRow: ([key, value] = [], index) => {
      const input = h("input", {
        type: "text",
        class: "mono",
        placeholder: "key",
        "aria-label": `Key ${index + 1} of ${visible(field.title)}`,
        autocomplete: "off",
        oninput: place.changed,
      });
      input.value = key ?? "";
      const part = control({ ...field.value(), title: `value of ${field.title}`, isEntry: true }, value, place);
      return { ...part, element: h("div", { class: "pair" }, input, part.element, hiddenCharacters(input)), first: input, key: () => input.value };
    },
    canAdd: () => true,
    canRemove: () => true,
  });
  for (const pair of content ?? []) rows.add(pair);
  return {
    ...rows,
    content: () => (rows.rows.length ? rows.rows.map(({ control: row }) => [row.key(), row.content()]) : undefined),
    part: (key) => (typeof key === "number" ? rows.rows[key] : rows.rows.find((row) => row.control.key() === key))?.control,
  };
}

// Rows that can be added and removed. Both keep the focus near.
function rowsControl(field, place, { noun, makeRow, canAdd, canRemove }) {
  const rows = [];
  let first = () => {};
  const list = h("div", { class: "rows" });
  const button = h("button", { type: "button" }, `Add ${noun}`);
  button.setAttribute("aria-label", `Add ${noun} to ${visible(field.title)}`);
  const update = () => {
    button.hidden = !canAdd(rows.length) && !(field.fixed?.length && !rows.length);
  };
  const add = (value) => {
    const row = { control: makeRow(value, rows.length) };
    const remove = h("button", { type: "button", class: "remove", "aria-label": `Remove ${noun} ${rows.length + 1}` }, "✕");
    row.element = h("div", { class: "entry" }, row.control.element, canRemove(rows.length) && remove);
    remove.addEventListener("click", () => {
      const index = rows.indexOf(row);
      rows.splice(index, 1);
      row.element.remove();
      (rows[Math.min(index, rows.length - 1)]?.control.first ?? button).focus();
      update();
      place.changed();
    });
    rows.push(row);
    list.append(row.element);
    update();
    return row;
  };
  button.addEventListener("click", () => {
    const row = add(undefined);
    if (rows.length === 1) first();
    row.control.first?.focus();
    place.changed();
  });
  update();
  return { ...groupFrame(field, list, button), first: button, rows, add, onFirst: (then) => (first = then) };
}
