// All namespaces of the hub, the most useful first.

import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { oneLine, visible } from "../text.js";
import { address, whenConnected } from "./connected.js";

// Show the list. Returns a function that ends it.
export function showNamespaceList(root, hub) {
  const filter = h("input", { type: "search", id: "namespace-filter", placeholder: "Filter namespaces and methods", "aria-label": "Filter namespaces and methods", autocomplete: "off" });
  const list = h("div", { class: "namespaces" });
  const empty = h("p", { class: "empty", hidden: true }, "No namespace and no method has these letters.");
  let rows = [];
  // The namespaces whose list below them is open, kept when the list is drawn again.
  const opened = new Set();

  const draw = () => {
    const words = filter.value.trim().toLowerCase();
    const focused = document.activeElement?.closest?.("[data-namespace]")?.dataset.namespace;
    const tops = rows.filter((row) => row.depth === 0).map((row) => namespaceRow(row, rows, words, opened));
    fill(list, tops);
    empty.hidden = tops.some(Boolean) || !rows.length;
    if (focused) list.querySelector(`[data-namespace="${CSS.escape(focused)}"] a`)?.focus();
  };
  filter.addEventListener("input", draw);
  fill(root, h("h1", {}, "Plugins"), filter, list, empty);
  return whenConnected(
    hub,
    list,
    async () => {
      rows = await readNamespaces(hub);
      draw();
    },
    { follow: true },
  );
}

// Return all namespaces in the order of an overview, the root last: `{path, description, methods, depth, problem}`.
async function readNamespaces(hub) {
  const events = await hub.all(`${hub.root}.activations`);
  const isNamespace = (event) => typeof event.namespace === "string" && Array.isArray(event.methods);
  const namespaces = events.filter(isNamespace).map((event) => ({
    path: event.namespace,
    description: event.description ?? "",
    methods: event.methods,
    depth: event.namespace === hub.root ? 0 : event.namespace.split(".").length - 1,
    isRoot: event.namespace === hub.root,
    weight: 0,
  }));
  const tops = namespaces.filter((row) => row.depth === 0);
  await Promise.all(
    tops.map(async (row) => {
      const schema = await hub.schema(row.path).catch(() => ({ methods: [] }));
      row.weight = row.isRoot ? -1 : Math.max(0, ...schema.methods.map((method) => method.annotations?.weight ?? 0));
    }),
  );
  tops.sort((one, other) => other.weight - one.weight || one.path.localeCompare(other.path));
  const failed = events.filter((event) => !isNamespace(event)).map((event) => ({
    path: String(event.name ?? event.plugin ?? event.namespace ?? "a plugin"),
    description: String(event.reason ?? event.message ?? event.error ?? "could not be loaded"),
    methods: [],
    depth: 0,
    isFailed: true,
  }));
  return [...tops, ...failed, ...namespaces.filter((row) => row.depth > 0)];
}

// Return the row of a namespace with those below it, or null if the filter leaves it out.
function namespaceRow(row, rows, words, opened) {
  const below = rows.filter(({ path, depth }) => depth === row.depth + 1 && path.startsWith(`${row.path}.`));
  const inner = row.isRoot || row.isFailed ? [] : below.map((child) => namespaceRow(child, rows, words, opened)).filter(Boolean);
  const isNamed = !words || `${row.path} ${row.description}`.toLowerCase().includes(words);
  const methods = words ? row.methods.filter((name) => name.toLowerCase().includes(words)) : [];
  if (!isNamed && !methods.length && !inner.length) return null;
  const total = row.isRoot ? 0 : rows.filter(({ path }) => path.startsWith(`${row.path}.`)).length;
  return h(
    "section",
    { class: "namespace", "data-namespace": row.path },
    h(
      "p",
      { class: "namespace-name" },
      row.isFailed ? h("strong", { class: "bad" }, `✗ ${visible(row.path)}`) : h("a", { href: address(row.path) }, visible(row.path)),
      h("span", { class: "purpose" }, ` ${oneLine(row.description, 300)}`),
      row.methods.length > 0 && h("span", { class: "dim optional" }, ` ${plural(row.methods.length, "method")}`),
    ),
    methods.length > 0 && h("p", { class: "found" }, methods.map((name) => h("a", { href: address(row.path, name) }, visible(name)))),
    inner.length > 0 && belowView(row, inner, total, words !== "" || opened.has(row.path), opened),
  );
}

function belowView(row, inner, total, isOpen, opened) {
  return h(
    "details",
    {
      open: isOpen,
      ontoggle: (event) => {
        if (event.target.open) opened.add(row.path);
        else opened.delete(row.path);
      },
    },
    h("summary", {}, `${plural(total, "namespace")} below`),
    inner,
  );
}
