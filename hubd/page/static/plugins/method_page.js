// One method: its description, a form for its parameters, and the results of its calls.

import { fill, h } from "../dom.js";
import { commandLine } from "../forms/command_line.js";
import { confirmDialog } from "../forms/confirm_dialog.js";
import { copyButton } from "../forms/copy_button.js";
import { MethodCall } from "../results/method_call.js";
import { SchemaForm } from "../schema_form.js";
import { described, visible } from "../text.js";
import { address, paragraphs, problem, trail, whenConnected } from "./connected.js";
import { above, tags } from "./namespace_page.js";

// Show a method. The query fills its form, but never calls it. Returns a function that ends it.
export function showMethod(root, hub, namespace, name, query) {
  const space = h("div");
  fill(
    root,
    h("div", {}, trail(["Plugins", "#/plugins"], ...above(namespace), [namespace.split(".").at(-1), address(namespace)]), h("h1", {}, visible(name))),
    space,
  );
  let page = null;
  const changes = h("div", { role: "status" });
  const draw = (method) => {
    page?.end();
    page = new MethodPage(hub, namespace, method, query);
    fill(changes);
    fill(space, changes, page.element);
  };
  const load = async () => {
    const schema = await hub.schema(namespace);
    const method = schema.methods.find((each) => each.name === name);
    if (!method) throw new Error(`${namespace} has no method ${name}.`);
    return method;
  };
  // The text of a form stays when the method changes or is removed, until the person wants the new form.
  const follow = async () => {
    try {
      const method = await load();
      const isNew = method.hash !== page.method.hash;
      fill(changes, isNew && h("p", { class: "card" }, "This method has changed. ", h("button", { type: "button", onclick: () => draw(method) }, "Show the new form")));
    } catch (error) {
      if (error.code !== "disconnected") fill(changes, problem(error));
    }
  };
  const stop = whenConnected(hub, space, async () => (page ? follow() : draw(await load())), { follow: true });
  return () => {
    stop();
    page?.end();
  };
}

class MethodPage {
  element;
  method;
  #hub;
  #namespace;
  #form;
  #call = null;
  #space = h("div");
  #command = h("pre", { class: "mono", tabindex: "0", "aria-label": "Command" });
  #run = h("button", { type: "submit", class: "first", title: "Ctrl-Enter" }, "Run");

  constructor(hub, namespace, method, query) {
    this.#hub = hub;
    this.#namespace = namespace;
    this.method = method;
    if (method.annotations?.destructive) this.#run.className = "danger";
    this.#form = new SchemaForm(method, hub, {
      query,
      changed: () => this.#showCommand(),
      submit: () => this.#submit(),
      buttons: [this.#run],
    });
    this.element = h(
      "div",
      { class: "method" },
      h("p", { class: "lead" }, described(method.description)),
      h("p", {}, tags(method)),
      paragraphs(method.long_description),
      method.annotations?.needs_context && h("p", { class: "hint" }, "A call from this page has no working directory. The method uses your home directory if it needs one."),
      this.#form.element,
      h("details", { class: "command", open: true }, h("summary", {}, "Command"), h("div", { class: "command-line" }, this.#command, copyButton(() => this.#command.textContent))),
      this.#space,
    );
    this.#showCommand();
    document.addEventListener("keydown", this.#onkey);
  }

  end() {
    document.removeEventListener("keydown", this.#onkey);
    this.#call?.cancel();
  }

  // A method that changes nothing can be repeated from anywhere in the page.
  #onkey = (event) => {
    const isRepeat = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented;
    if (!isRepeat || !this.method.annotations?.read_only || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("form.question")) return;
    event.preventDefault();
    this.#submit();
  };

  #showCommand() {
    const { params } = this.#form.read();
    this.#command.textContent = commandLine(this.#namespace, this.method, params);
  }

  async #submit() {
    if (this.#call?.isRunning) return;
    const { params, problems } = this.#form.read();
    this.#form.showProblems(problems);
    if (problems.length || !(await this.#isConfirmed(params))) return;
    this.#run.setAttribute("aria-disabled", "true");
    const call = new MethodCall(this.#hub, `${this.#namespace}.${this.method.name}`, this.method, params);
    this.#call = call;
    fill(this.#space, call.element);
    call.element.scrollIntoView({ block: "nearest" });
    const error = await call.done;
    this.#run.removeAttribute("aria-disabled");
    if (error?.code === "invalid_params") this.#form.showError(error);
  }

  async #isConfirmed(params) {
    if (!this.method.annotations?.destructive) return true;
    const tries = this.method.params?.properties?.dry_run?.default;
    if ((params.dry_run ?? tries) === true) return true;
    const words = `${this.#namespace} ${this.method.name}`;
    const values = Object.keys(params).length ? visible(JSON.stringify(params, null, 2)) : "";
    return confirmDialog(`${visible(words)} cannot be undone. Continue?`, values, "Continue");
  }
}
