// Search: `#/search?q=WORDS`, with filters in the address.

import { fill, h } from "../dom.js";
import { fieldOf } from "../forms/fields.js";
import { hiddenCharacters } from "../forms/hidden_characters.js";
import { control } from "../forms/nested_controls.js";
import { contentsFromQuery, paramsOf } from "../forms/params.js";
import { plural } from "../format.js";
import { whenConnected, problem } from "../plugins/connected.js";
import { handleAddress } from "../results/handles.js";
import { markedText, timeNode } from "../results/values.js";
import { oneLine, visible } from "../text.js";

const TYPING_MS = 250;
const FIRST_LIMIT = 50;
const MOST = 1000;
// The parameters that are not filters.
const OTHERS = new Set(["query", "limit"]);

// Show the page. Returns a function that ends it.
export function show(root, { hub, query }) {
  const page = new SearchPage(hub, query);
  fill(root, page.elements);
  page.start(root);
  return () => page.end();
}

class SearchPage {
  elements;
  #hub;
  #query;
  #box = h("input", { type: "search", id: "search-box", placeholder: "Words, or a phrase in double quotes", "aria-label": "Search for", autocomplete: "off", "aria-keyshortcuts": "/" });
  #filters = h("div", { class: "search-filters" });
  #filterPanel = h("details", { class: "filter-panel" }, h("summary", {}, "Filters"), this.#filters);
  #fields = [];
  #controls = new Map();
  #status = h("p", { role: "status", class: "dim" });
  #advice = h("ul", { class: "guidance" });
  #list = h("ol", { class: "hits", "aria-label": "Hits" });
  #more = h("button", { type: "button", hidden: true, onclick: () => this.#showMore() }, "Show more");
  #limit = FIRST_LIMIT;
  #call = null;
  #timer = 0;
  #stop = () => {};
  #isOver = false;

  constructor(hub, query) {
    this.#hub = hub;
    this.#query = query;
    this.#box.value = query.get("q") ?? "";
    const form = h(
      "form",
      { role: "search", onsubmit: (event) => (event.preventDefault(), this.#search()), oninput: () => this.#soon() },
      this.#box,
      hiddenCharacters(this.#box),
      this.#filterPanel,
    );
    this.elements = [h("h1", {}, "Search"), form, this.#status, this.#advice, this.#list, this.#more];
  }

  start(root) {
    document.addEventListener("keydown", this.#onkey);
    this.#stop = whenConnected(this.#hub, root, async () => {
      if (!this.#fields.length) await this.#readFilters();
      await this.#search();
    });
    this.#box.focus();
  }

  end() {
    this.#isOver = true;
    document.removeEventListener("keydown", this.#onkey);
    clearTimeout(this.#timer);
    this.#stop();
    this.#call?.cancel();
  }

  // The filters are the other parameters of the method.
  async #readFilters() {
    const schema = await this.#hub.schema();
    const params = schema.methods.find(({ name }) => name === "search").params;
    this.#fields = Object.keys(params.properties)
      .filter((name) => !OTHERS.has(name))
      .map((name) => fieldOf(name, params.properties[name], params));
    const contents = contentsFromQuery(this.#fields, this.#query, {}, params);
    const place = { hub: this.#hub, changed: () => this.#soon() };
    this.#controls = new Map(this.#fields.map((field) => [field.name, control(field, contents[field.name], place)]));
    fill(this.#filters, [...this.#controls.values()].map(({ element }) => element));
    this.#filterPanel.open = Object.keys(contents).length > 0;
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#limit = FIRST_LIMIT;
      this.#search();
    }, TYPING_MS);
  }

  #showMore() {
    this.#limit = Math.min(this.#limit * 4, MOST);
    this.#search();
  }

  async #search() {
    // The address belongs to another page by now.
    if (this.#isOver) return;
    clearTimeout(this.#timer);
    this.#call?.cancel();
    this.#call = null;
    const contents = Object.fromEntries([...this.#controls].map(([name, field]) => [name, field.content()]));
    const { params: filters } = paramsOf(this.#fields, contents);
    const words = this.#box.value.trim();
    this.#keepAddress(words, filters);
    this.#showFilterCount(filters);
    if (!words) {
      this.#clear(Object.keys(filters).length ? "Type words to search for." : "");
      return;
    }
    this.#status.textContent = "Searching …";
    await this.#run({ query: words, ...filters, limit: this.#limit });
  }

  async #run(params) {
    const hits = [];
    const advice = [];
    let isFirst = true;
    const call = this.#hub.stream(`${this.#hub.root}.search`, params, {
      event: (event) => {
        if (call !== this.#call) return;
        // The old hits stay until the first new one.
        if (isFirst) this.#list.replaceChildren();
        isFirst = false;
        hits.push(event);
        this.#list.append(hitRow(event));
      },
      guidance: (item) => advice.push(item),
    });
    this.#call = call;
    let error = null;
    await call.done.catch((reason) => (error = reason));
    if (call !== this.#call || error?.code === "disconnected") return;
    if (isFirst) this.#list.replaceChildren();
    this.#status.textContent = error ? "" : hits.length ? plural(hits.length, "hit") : "No text has all these words.";
    fill(this.#advice, advice.map(({ suggestion }) => h("li", {}, visible(suggestion ?? ""))));
    if (error) fill(this.#advice, h("li", {}, problem({ message: error.message })));
    this.#more.hidden = hits.length < this.#limit || this.#limit >= MOST;
  }

  #clear(text) {
    this.#list.replaceChildren();
    this.#advice.replaceChildren();
    this.#status.textContent = text;
    this.#more.hidden = true;
  }

  // The address can be kept and sent, but each letter is not a step of the history.
  #keepAddress(words, filters) {
    const query = new URLSearchParams(Object.entries({ ...(words && { q: words }), ...filters }));
    const text = query.toString();
    history.replaceState(null, "", `${location.pathname}#/search${text ? `?${text}` : ""}`);
  }

  #showFilterCount(filters) {
    const size = Object.keys(filters).length;
    this.#filterPanel.firstChild.textContent = size ? `Filters (${size})` : "Filters";
  }

  #onkey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.closest?.("input, textarea, select");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      // The page would otherwise open the search without its words.
      event.stopPropagation();
      this.#box.focus();
      this.#box.select();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.#move(event, event.key === "ArrowDown" ? 1 : -1);
    }
  };

  // Arrows move between the box and the hits. Enter opens a hit, because it is a link.
  #move(event, step) {
    const stops = [this.#box, ...this.#list.querySelectorAll("a.hit")];
    const hit = event.target.closest?.("li")?.querySelector("a.hit") ?? event.target;
    const index = stops.indexOf(hit);
    if (index < 0 || !stops[index + step]) return;
    event.preventDefault();
    stops[index + step].focus();
  }
}

function hitRow(hit) {
  const { snippet = "", matches, handle = "", kind = "", session, role, tool, created_at: created } = hit;
  const parts = [
    h("span", { class: "tag" }, oneLine(kind, 30)),
    session && h("a", { href: `#/session/${encodeURIComponent(session)}` }, oneLine(session, 60)),
    role && h("span", {}, oneLine(role, 30)),
    tool && h("span", {}, oneLine(tool, 60)),
    Number.isInteger(created) && timeNode(created),
  ];
  return h(
    "li",
    {},
    h("a", { class: "hit", href: handleAddress(handle) }, snippet ? markedText(snippet, matches) : visible(handle)),
    h("p", { class: "hit-source dim" }, parts.filter(Boolean)),
  );
}
