// The start of the page: connect, show the page that the address names, and keep the title current.

import { watchApprovals } from "./approvals.js";
import { fill, h } from "./dom.js";
import { Hub } from "./hub.js";

// The pages in the order of the bar. Each module exports `show(root, { hub, path, query })`, which
// returns a function that ends the page.
const PAGES = [
  { name: "inbox", title: "Inbox", key: "i" },
  { name: "sessions", title: "Sessions", key: "s" },
  { name: "search", title: "Search", key: "/" },
  { name: "plugins", title: "Plugins", key: "p" },
];
// Pages that the bar does not have, and the page of the bar that they belong to.
const BELOW = { session: "sessions", tree: "sessions" };
const ALL = new Set([...PAGES.map((page) => page.name), ...Object.keys(BELOW)]);
const STATES = {
  connecting: "Connecting …",
  open: "",
  lost: "The hub does not answer. Trying again …",
  refused: "Signed out",
};

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const badge = h("span", { class: "badge", hidden: true });
const links = PAGES.map(({ name, title, key }) =>
  h("a", { href: `#/${name}`, title: `Key: g ${key}` }, title, name === "inbox" && badge),
);
const hub = new Hub(takeCode());
const approvals = watchApprovals(hub);
// Ends the page that is shown.
let leave = () => {};
// Counts the changes of the address, because a page is imported while the address may change again.
let turns = 0;

hub.addEventListener("state", showState);
approvals.addEventListener("change", showTitle);
addEventListener("hashchange", () => {
  // An address with a new code, opened in this tab, changes only the fragment.
  const code = takeCode();
  if (code) hub.signIn(code);
  route();
});
addEventListener("keydown", goByKey);
document.querySelector(".skip").addEventListener("click", (event) => {
  // The fragment is the address of the page that is shown.
  event.preventDefault();
  focusHeading();
});
fill(document.getElementById("pages"), links);
showState();
route();

// Return the one-time code of the address, and remove it from the address and the history.
function takeCode() {
  // Addresses of pages may have a parameter `code` too.
  const code = location.hash.startsWith("#code=") ? new URLSearchParams(location.hash.slice(1)).get("code") : null;
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

async function route() {
  const address = location.hash.slice(2) || "inbox";
  const path = address.split("?", 1)[0];
  const query = address.slice(path.length + 1);
  const [name, ...rest] = path.split("/").map(decode);
  const turn = (turns += 1);
  leave();
  leave = () => {};
  const page = ALL.has(name) ? name : "inbox";
  showBar(page);
  if (hub.state === "refused") {
    showSignedOut();
    return;
  }
  const view = await import(`./views/${page}.js`).catch(() => null);
  // The hub may have refused the key while the page was imported.
  if (turn !== turns || hub.state === "refused") return;
  main.className = `page-${page}`;
  if (!view) {
    showNotLoaded(page, turn);
    return;
  }
  fill(main);
  const ending = view.show(main, { hub, approvals, path: rest, query: new URLSearchParams(query) });
  leave = ending ?? (() => {});
  showTitle();
  // A page may have chosen another place. The first page leaves the focus to the browser.
  if (turn > 1 && !main.contains(document.activeElement)) focusHeading();
}

// The files of a page can't be loaded while the hub does not answer.
function showNotLoaded(page, turn) {
  hub.addEventListener("open", () => turn === turns && route(), { once: true });
  const { title } = PAGES.find(({ name }) => name === (BELOW[page] ?? page));
  fill(main, h("h1", {}, title), h("p", { class: "problem" }, "This page is loaded when the hub answers."));
  showTitle();
}

// Move the focus to the heading, so that screen readers read it and Tab continues from there.
function focusHeading() {
  const heading = main.querySelector("h1") ?? main;
  heading.tabIndex = -1;
  heading.focus();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The links stay the same elements, because one of them may have the focus.
function showBar(current) {
  PAGES.forEach(({ name }, index) => {
    if (name === (BELOW[current] ?? current)) links[index].setAttribute("aria-current", "page");
    else links[index].removeAttribute("aria-current");
  });
  const waiting = approvals.pending.length;
  badge.hidden = !waiting;
  fill(badge, String(waiting), h("span", { class: "for-readers" }, " waiting"));
}

function showTitle() {
  const waiting = approvals.pending.length;
  const heading = main.querySelector("h1")?.textContent ?? "hubd";
  document.title = `${waiting ? `(${waiting}) ` : ""}${heading} · hubd`;
  showBar(main.className.replace("page-", ""));
}

function showState() {
  connection.textContent = STATES[hub.state];
  connection.dataset.state = hub.state;
  if (hub.state === "refused") {
    leave();
    leave = () => {};
    showSignedOut();
  } else if (main.className === "page-signed-out") {
    route();
  }
}

function showSignedOut() {
  main.className = "page-signed-out";
  fill(
    main,
    h("h1", {}, "Signed out"),
    h("p", {}, "This tab has no valid key for the hub. A new address from this command signs it in:"),
    h("pre", {}, "hubd open"),
    h("p", { class: "dim" }, "An address works once, within a minute."),
  );
  document.title = "Signed out · hubd";
}

// `g` and then a letter opens a page, as in many web programs.
let isGoing = false;
function goByKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isGoing) {
    isGoing = false;
    const page = PAGES.find(({ key }) => key === event.key);
    if (page) {
      event.preventDefault();
      location.hash = `#/${page.name}`;
    }
  } else if (event.key === "g") {
    isGoing = true;
  } else if (event.key === "/") {
    event.preventDefault();
    location.hash = "#/search";
  }
}
