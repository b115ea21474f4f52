// A form for any method, from its JSON Schema.

import { fill, h } from "./dom.js";
import { checkParams } from "./forms/check.js";
import { methodFields } from "./forms/fields.js";
import { newId } from "./forms/frame.js";
import { hiddenCharacters } from "./forms/hidden_characters.js";
import { choiceRule, isObject, own } from "./forms/json_schema.js";
import { control } from "./forms/nested_controls.js";
import { contentOf, contentsFromQuery, paramsOf } from "./forms/params.js";
import { plural } from "./format.js";
import { visible } from "./text.js";

// More optional fields than these are folded.
const MAX_OPTIONAL = 6;

// The form of one method. `element` is the form, and `params` its current params.
export class SchemaForm {
  element;
  #method;
  #hub;
  #fields;
  #controls = new Map();
  #changed;
  #space = h("div", { class: "params" });
  #problem = h("p", { class: "problem", role: "alert", tabindex: "-1", hidden: true });
  // The text area for all params as JSON; null while the fields are shown.
  #raw = null;
  #switch = h("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Raw JSON");

  // `changed()` is called after each change, and `submit()` for the button and the Enter key.
  constructor(method, hub, { query = new URLSearchParams(), changed = () => {}, submit = () => {}, buttons = [] }) {
    this.#method = method;
    this.#hub = hub;
    this.#changed = changed;
    this.#fields = methodFields(method);
    const contents = contentsFromQuery(this.#fields, query, method.annotations?.aliases, method.params);
    this.#showFields(contents);
    this.#switch.addEventListener("click", () => this.#toggleRaw());
    this.element = h(
      "form",
      {
        class: "schema-form",
        novalidate: true,
        "aria-label": `Parameters of ${visible(method.name)}`,
        onsubmit: (event) => {
          event.preventDefault();
          submit();
        },
        onkeydown: (event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          submit();
        },
      },
      this.#space,
      this.#problem,
      h("div", { class: "row actions" }, buttons, this.#fields.length > 0 && this.#switch),
    );
  }

  // Return `{params, problems}` as the form has them now.
  read() {
    if (this.#raw) {
      const { params, problems } = readJson(this.#raw.value);
      return problems.length ? { params: {}, problems } : { params, problems: checkParams(params, this.#method.params) };
    }
    const { params, problems } = paramsOf(this.#fields, this.#contents());
    return problems.length ? { params, problems } : { params, problems: checkParams(params, this.#method.params) };
  }

  // Show problems at their fields, and move the focus to the first one. An empty list removes them.
  showProblems(problems) {
    this.#clear();
    const others = [];
    let first = null;
    for (const { path, message } of problems) {
      const place = this.#raw ? null : this.#at(path);
      if (place) {
        place.problem(message);
        const folded = place.element.closest("details");
        if (folded) folded.open = true;
      }
      if (!place) others.push(path.length ? `${path.join(".")} ${message}` : message);
      first ??= place?.first;
    }
    this.#problem.textContent = visible(others.join("\n"));
    this.#problem.hidden = !others.length;
    if (problems.length) (first ?? this.#raw ?? this.#problem).focus();
  }

  // Show an error of the hub: at the field that it names, else above the buttons.
  showError(error) {
    const match = /^(?:unknown )?parameter '([^']+)' (.*)$/s.exec(error.message);
    const path = match ? match[1].split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part)) : [];
    this.showProblems([{ path, message: match ? match[2] : error.message }]);
  }

  #contents() {
    return Object.fromEntries([...this.#controls].map(([name, field]) => [name, field.content()]));
  }

  #showFields(contents) {
    const place = { hub: this.#hub, changed: () => this.#changed() };
    this.#controls = new Map(this.#fields.map((field) => [field.name, control(field, own(contents, field.name), place)]));
    const rule = choiceRule(this.#method.params ?? {});
    fill(
      this.#space,
      rule && h("p", { class: "hint" }, `Give ${rule.exactly ? "exactly" : "at least"} one of: ${visible(rule.names.join(", "))}.`),
      this.#arrange(contents),
      !this.#fields.length && h("p", { class: "hint" }, "This method has no parameters."),
    );
  }

  // Many optional fields are folded, unless one of them has a value.
  #arrange(contents) {
    const element = ({ name }) => this.#controls.get(name).element;
    const optional = this.#fields.filter((field) => !field.required);
    if (optional.length <= MAX_OPTIONAL) return this.#fields.map(element);
    const folded = optional.slice(this.#fields.length > optional.length ? 0 : MAX_OPTIONAL);
    const isOpen = folded.some(({ name }) => own(contents, name) !== undefined);
    return [
      this.#fields.filter((field) => !folded.includes(field)).map(element),
      h("details", { class: "optional-fields", open: isOpen }, h("summary", {}, plural(folded.length, "optional parameter")), folded.map(element)),
    ];
  }

  #toggleRaw() {
    if (this.#raw) {
      const { params, problems } = readJson(this.#raw.value);
      if (problems.length) {
        this.showProblems(problems);
        return;
      }
      this.#raw = null;
      const root = this.#method.params;
      this.#showFields(Object.fromEntries(this.#fields.map((field) => [field.name, contentOf(field, own(params, field.name), root)])));
    } else {
      const { params } = paramsOf(this.#fields, this.#contents());
      const id = newId();
      this.#raw = h("textarea", { id, rows: 10, spellcheck: "false", oninput: () => this.#changed() });
      this.#raw.value = JSON.stringify(params, null, 2);
      fill(this.#space, h("div", { class: "param" }, h("label", { for: id }, "Parameters as JSON"), this.#raw, hiddenCharacters(this.#raw)));
    }
    this.#switch.setAttribute("aria-pressed", String(this.#raw !== null));
    this.showProblems([]);
    this.#changed();
  }

  // Return the deepest control on a path that can show a problem.
  #at(path) {
    let place = this.#controls.get(String(path[0]));
    for (const key of path.slice(1)) place = place?.part?.(key) ?? place;
    return place;
  }

  #clear() {
    for (const element of this.#space.querySelectorAll(".param-problem")) {
      element.hidden = true;
      element.textContent = "";
    }
    for (const input of this.#space.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }
}

function readJson(text) {
  try {
    const params = JSON.parse(text.trim() || "{}");
    return isObject(params)
      ? { params, problems: [] }
      : { params: {}, problems: [{ path: [], message: "The parameters must be a JSON object." }] };
  } catch (error) {
    return { params: {}, problems: [{ path: [], message: `This is not JSON: ${error.message}` }] };
  }
}
