// The form that starts a session with its first prompt.

import { fill, h } from "../dom.js";
import { errorText } from "../text.js";
import { startChat } from "./prompt_box.js";

// Show the form. `name` is the session's name if the address has one.
export function showNewSession(root, { hub, name = "", reason = "" }) {
  const fields = {
    name: h("input", { id: "new-name", required: true, maxlength: "200", value: name, autocomplete: "off", "aria-describedby": "new-name-hint" }),
    working_dir: h("input", { id: "new-dir", autocomplete: "off", spellcheck: "false", placeholder: "The home directory" }),
    model: h("input", { id: "new-model", list: "new-models", autocomplete: "off", spellcheck: "false", placeholder: "The agent's own" }),
    prompt: h("textarea", { id: "new-prompt", rows: "5", required: true }),
  };
  const problem = h("div", { role: "alert" });
  const button = h("button", { type: "submit", class: "first" }, "Start");
  const form = h(
    "form",
    { class: "card new-session" },
    field("Name", fields.name, h("span", { id: "new-name-hint", class: "hint" }, "A short word, such as fix")),
    field("Working directory", fields.working_dir),
    field("Model", fields.model, h("span", { class: "hint" }, "offline needs no account: it follows lines such as say: Hello or run: ls")),
    h("datalist", { id: "new-models" }, ["offline", "opus", "sonnet", "haiku"].map((value) => h("option", { value }))),
    field("Prompt", fields.prompt),
    problem,
    h("div", { class: "row" }, button, h("a", { class: "button", href: "#/sessions" }, "Cancel")),
  );

  async function submit(event) {
    event.preventDefault();
    const entries = Object.entries(fields).map(([key, input]) => [key, key === "prompt" ? input.value : input.value.trim()]);
    const params = Object.fromEntries(entries.filter(([, value]) => value));
    button.disabled = true;
    fill(problem);
    try {
      // A name that is taken would send the prompt to another session.
      if (await exists(hub, params.name)) throw new Error(`A session ${params.name} exists already`);
      await startChat(hub, params);
      const address = `#/session/${encodeURIComponent(params.name)}`;
      if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
      else location.hash = address;
    } catch (error) {
      fill(problem, h("p", { class: "problem" }, errorText(error)));
      button.disabled = false;
    }
  }

  form.addEventListener("submit", submit);
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  fill(root, h("h1", {}, "New session"), reason && h("p", { class: "dim" }, reason), form);
  fields[name ? "prompt" : "name"].focus();
}

function field(title, input, hint = null) {
  return h("div", { class: "field" }, h("label", { for: input.id }, title), input, hint);
}

async function exists(hub, name) {
  try {
    await hub.one("claudecode.get", { name });
    return true;
  } catch (error) {
    if (error.code === "not_found") return false;
    throw error;
  }
}
