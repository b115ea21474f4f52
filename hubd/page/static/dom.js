// Build elements. Text always becomes a text node, so content can't become markup.

// Return a new element.
//
// `props` sets attributes. A function sets a listener (`onclick`), `class` may be a list with empty
// entries, and true or false adds or omits an attribute. Null children are left out.
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = [value].flat().filter(Boolean).join(" ");
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

// Replace the children of an element.
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
