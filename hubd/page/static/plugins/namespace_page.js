// One namespace: its purpose, its methods in the order of its class, and its handle types.

import { fill, h } from "../dom.js";
import { described, oneLine, visible } from "../text.js";
import { address, paragraphs, trail, whenConnected } from "./connected.js";

// Show a namespace. Returns a function that ends it.
export function showNamespace(root, hub, namespace) {
  const space = h("div");
  fill(root, h("div", {}, trail(["Plugins", "#/plugins"], ...above(namespace)), h("h1", {}, visible(namespace))), space);
  let hash = "";
  return whenConnected(
    hub,
    space,
    async () => {
      const before = hash;
      // An error replaces what is shown, so the same schema is drawn again after it.
      hash = "";
      const schema = await hub.schema(namespace);
      hash = schema.hash;
      // A change elsewhere does not disturb the reader.
      if (hash !== before) draw(space, schema, hub);
    },
    { follow: true },
  );
}

// The links to the namespaces above one.
export function above(namespace) {
  const parts = namespace.split(".");
  return parts.slice(0, -1).map((part, index) => [part, address(parts.slice(0, index + 1).join("."))]);
}

function draw(space, schema, hub) {
  const isRoot = schema.namespace === hub.root;
  const children = isRoot ? [] : (schema.children ?? []);
  fill(
    space,
    h("p", { class: "lead" }, described(schema.description)),
    paragraphs(schema.long_description),
    h("p", { class: "dim" }, `Version ${oneLine(schema.version, 40)}`),
    h("h2", {}, "Methods"),
    h("ul", { class: "methods" }, schema.methods.map((method) => methodRow(schema.namespace, method))),
    children.length > 0 && [h("h2", {}, "Namespaces below"), h("ul", { class: "methods" }, children.map((child) => childRow(schema.namespace, child)))],
    schema.handles?.length > 0 && [h("h2", {}, "Handles"), handleTable(schema.handles)],
  );
}

function methodRow(namespace, method) {
  return h(
    "li",
    {},
    h("a", { class: "mono", href: address(namespace, method.name) }, visible(method.name)),
    h("span", { class: "purpose" }, oneLine(method.description, 300)),
    tags(method),
  );
}

// Return the properties of a method that a caller wants to know before a call.
export function tags(method) {
  const hints = method.annotations ?? {};
  const names = [hints.read_only && "read-only", hints.destructive && "destructive", method.streaming && "streams", method.bidirectional && "asks questions"];
  return h("span", { class: "tags" }, names.filter(Boolean).map((name) => h("span", { class: ["tag", name === "destructive" && "bad"] }, name)));
}

function childRow(namespace, child) {
  return h(
    "li",
    {},
    h("a", { class: "mono", href: address(`${namespace}.${child.namespace}`) }, visible(child.namespace)),
    h("span", { class: "purpose" }, oneLine(child.description, 300)),
  );
}

function handleTable(handles) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Handle types" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Handle", "Kind", "Data"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, handles.map((type) => h("tr", {}, h("td", { class: "mono" }, handleForm(type)), h("td", {}, oneLine(type.kind, 40)), h("td", {}, oneLine(type.description, 300))))),
    ),
  );
}

function handleForm(type) {
  const metas = (type.meta_fields ?? []).map(({ name, prefix = "", required }) => `:${prefix}${name.toUpperCase()}${required ? "" : "?"}`);
  return visible(`${type.plugin}@${type.version}::${type.method}${metas.join("")}`);
}
