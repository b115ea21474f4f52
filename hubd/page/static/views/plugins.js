// Plugins: `#/plugins`, `#/plugins/NAMESPACE`, `#/plugins/NAMESPACE/METHOD?PARAM=VALUE`, and
// `#/plugins/handle/HANDLE`.

import { showHandle } from "../plugins/handle_page.js";
import { showMethod } from "../plugins/method_page.js";
import { showNamespaceList } from "../plugins/namespace_list.js";
import { showNamespace } from "../plugins/namespace_page.js";

// Show the part of the plugins that the address names. Returns a function that ends it.
export function show(root, { hub, path, query }) {
  const [namespace = "", name = ""] = path;
  // A handle has `::`, which a method's name never has.
  if (namespace === "handle" && name.includes("::")) return showHandle(root, hub, name);
  if (name) return showMethod(root, hub, namespace, name, query);
  return namespace ? showNamespace(root, hub, namespace) : showNamespaceList(root, hub);
}
