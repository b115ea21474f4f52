// The inline parts of Markdown: emphasis, code, links and line breaks, as DOM nodes.
//
// The text comes from a model, so the time is linear in its length: each quantifier has a bound,
// nesting is capped, and the budget limits the number of elements. Beyond them, text stays text.

import { h } from "../dom.js";
import { visible } from "../text.js";

// Emphasis inside emphasis, at most; more levels stay as they are written.
const DEEPEST = 12;
// Open brackets, at most; more of them stay as they are written.
const MOST_BRACKETS = 100;
const SPECIAL = /[\\`*_~[\]!<&\nhw]/g;
const TARGET =
  /\([ \t\n]{0,20}(?:<([^<>\n]{0,4096})>|((?:[^\s()<>\\]|\\.|\((?:[^\s()<>\\]|\\.){0,500}\)){0,4096}))(?:[ \t\n]{1,20}(?:"[^"]{0,500}"|'[^']{0,500}'))?[ \t\n]{0,20}\)/y;
const ADDRESS = /(?:https?:\/\/|www\.)[^\s<>"`]{1,4096}/iy;
const ANGLED = /<((?:https?:\/\/|mailto:)[^\s<>]{1,4096}|[\w.+-]{1,64}@[\w.-]{1,255})>/iy;
const ENTITY = /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/iy;
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
const PUNCTUATION = /[\p{P}\p{S}]/u;
const HOST = /(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,24}/giu;
const SAFE = new Set(["http:", "https:", "mailto:"]);

// Return the nodes of an inline text. `budget.left` counts the elements that may still be created.
export function inline(text, budget) {
  return new Inline(text, budget).nodes();
}

class Inline {
  #text;
  #budget;
  #place = 0;
  #plain = "";
  #root = document.createDocumentFragment();
  // Runs of * _ ~ that may open or close emphasis: node, character, count, canOpen, canClose.
  #runs = [];
  // Brackets that may start a link: node, isImage, number of runs before it, place of its text.
  #brackets = [];
  // The places of code spans' ends by their length, and how many of them are behind.
  #ticks = null;

  constructor(text, budget) {
    this.#text = text;
    this.#budget = budget;
  }

  nodes() {
    const text = this.#text;
    while (this.#place < text.length) {
      SPECIAL.lastIndex = this.#place;
      const special = SPECIAL.exec(text)?.index ?? text.length;
      this.#plain += text.slice(this.#place, special);
      this.#place = special;
      if (special < text.length) this.#take(text[special]);
    }
    this.#flush();
    this.#emphasise(0);
    return this.#root;
  }

  #take(character) {
    if (this.#budget.left <= 0) this.#literal(1);
    else if (character === "\\") this.#escape();
    else if (character === "\n") this.#lineBreak();
    else if (character === "`") this.#code();
    else if (character === "*" || character === "_" || character === "~") this.#run(character);
    else if (character === "[") this.#open(false);
    else if (character === "!" && this.#text[this.#place + 1] === "[") this.#open(true);
    else if (character === "]") this.#close();
    else if (character === "<") this.#angled();
    else if (character === "&") this.#entity();
    else if (character === "h" || character === "w") this.#bareAddress();
    else this.#literal(1);
  }

  #literal(length) {
    this.#plain += this.#text.slice(this.#place, this.#place + length);
    this.#place += length;
  }

  // Turn the collected text into a text node.
  #flush() {
    if (this.#plain) this.#root.append(visible(this.#plain));
    this.#plain = "";
  }

  #append(node) {
    this.#flush();
    this.#root.append(node);
    return node;
  }

  #element(tag, props, ...children) {
    this.#budget.left -= 1;
    return h(tag, props, ...children);
  }

  #escape() {
    const next = this.#text[this.#place + 1];
    if (next === "\n") {
      this.#place += 2;
      this.#append(this.#element("br"));
    } else if (next && next < "\u0080" && PUNCTUATION.test(next)) {
      this.#plain += next;
      this.#place += 2;
    } else this.#literal(1);
  }

  // Models write a line break where they mean one, so each is kept.
  #lineBreak() {
    this.#plain = this.#plain.replace(/[ \t]{1,100}$/, "");
    this.#append(this.#element("br"));
    this.#place += 1;
    while (this.#text[this.#place] === " ") this.#place += 1;
  }

  #code() {
    const length = runLength(this.#text, this.#place);
    const start = this.#place + length;
    const end = this.#endOfCode(length, start);
    if (end < 0) {
      this.#literal(length);
      return;
    }
    let code = this.#text.slice(start, end).replaceAll("\n", " ");
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
    this.#append(this.#element("code", {}, visible(code)));
    this.#place = end + length;
  }

  #endOfCode(length, start) {
    if (this.#ticks === null) {
      this.#ticks = new Map();
      for (const { 0: run, index } of this.#text.matchAll(/`+/g)) {
        const ends = this.#ticks.get(run.length) ?? { places: [], next: 0 };
        ends.places.push(index);
        this.#ticks.set(run.length, ends);
      }
    }
    const ends = this.#ticks.get(length);
    while (ends && ends.places[ends.next] < start) ends.next += 1;
    return ends?.places[ends.next] ?? -1;
  }

  #run(character) {
    const length = runLength(this.#text, this.#place);
    const before = this.#text[this.#place - 1] ?? " ";
    const after = this.#text[this.#place + length] ?? " ";
    const opens = !isSpace(after) && (!isMark(after) || isSpace(before) || isMark(before));
    const closes = !isSpace(before) && (!isMark(before) || isSpace(after) || isMark(after));
    const isInWord = character === "_" && opens && closes;
    if ((!opens && !closes) || (character === "~" && length !== 2)) {
      this.#literal(length);
      return;
    }
    const node = this.#append(document.createTextNode(character.repeat(length)));
    this.#runs.push({
      node,
      character,
      count: length,
      canOpen: opens && (!isInWord || isMark(before)),
      canClose: closes && (!isInWord || isMark(after)),
    });
    this.#place += length;
  }

  #open(isImage) {
    const mark = isImage ? "![" : "[";
    if (this.#brackets.length >= MOST_BRACKETS) {
      this.#literal(mark.length);
      return;
    }
    const node = this.#append(document.createTextNode(mark));
    this.#place += mark.length;
    this.#brackets.push({ node, isImage, runs: this.#runs.length, start: this.#place });
  }

  #close() {
    const bracket = this.#brackets.pop();
    TARGET.lastIndex = this.#place + 1;
    const target = bracket ? TARGET.exec(this.#text) : null;
    if (!target) {
      this.#literal(1);
      return;
    }
    const written = this.#text.slice(bracket.start, this.#place);
    this.#flush();
    this.#emphasise(bracket.runs);
    const children = [];
    while (bracket.node.nextSibling) children.push(bracket.node.parentNode.removeChild(bracket.node.nextSibling));
    bracket.node.remove();
    const label = bracket.isImage ? [`image: ${visible(plainText(written)) || "without a text"}`] : children;
    this.#budget.left -= 1;
    const address = unescaped(target[1] ?? target[2]);
    this.#root.append(link(address, label, bracket.isImage ? "" : written));
    this.#place = TARGET.lastIndex;
    // A link contains no other link.
    if (!bracket.isImage) this.#brackets = this.#brackets.filter((open) => open.isImage);
  }

  #angled() {
    ANGLED.lastIndex = this.#place;
    const match = ANGLED.exec(this.#text);
    if (!match) {
      this.#literal(1);
      return;
    }
    const isMail = !/^\w+:/.test(match[1]);
    this.#budget.left -= 1;
    this.#append(link(isMail ? `mailto:${match[1]}` : match[1], [visible(match[1])], match[1]));
    this.#place += match[0].length;
  }

  #entity() {
    ENTITY.lastIndex = this.#place;
    const match = ENTITY.exec(this.#text);
    if (!match) {
      this.#literal(1);
      return;
    }
    const [whole, decimal, hexadecimal, name] = match;
    const point = decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    if (name) this.#plain += NAMED[name.toLowerCase()];
    else this.#plain += point && point <= 0x10ffff && !(point >= 0xd800 && point < 0xe000) ? String.fromCodePoint(point) : "\ufffd";
    this.#place += whole.length;
  }

  #bareAddress() {
    ADDRESS.lastIndex = this.#place;
    const isInWord = /[\p{L}\p{N}]/u.test(this.#text[this.#place - 1] ?? " ");
    const match = isInWord || this.#brackets.length ? null : ADDRESS.exec(this.#text);
    if (!match) {
      this.#literal(1);
      return;
    }
    let address = match[0].replace(/[.,:;!?'*_~\]]{1,50}$/, "");
    // A bracket at the end belongs to the sentence, unless the address opened it.
    if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    this.#budget.left -= 1;
    const target = /^www\./i.test(address) ? `https://${address}` : address;
    this.#append(link(target, [visible(address)], address));
    this.#place += address.length;
  }

  // Turn the runs from this index on into elements, as CommonMark does, and forget them.
  #emphasise(from) {
    const open = [];
    // By character and count: the number of open runs below which none fits.
    const floors = new Map();
    for (const run of this.#runs.splice(from)) {
      while (run.canClose && run.count > 0) {
        const kind = `${run.character}${run.count % 3}${run.canOpen}`;
        const floor = floors.get(kind) ?? 0;
        let index = open.length - 1;
        while (index >= floor && !fits(open[index], run)) index -= 1;
        if (index < floor) {
          floors.set(kind, open.length);
          break;
        }
        open.length = index + 1;
        for (const [name, value] of floors) if (value > open.length) floors.set(name, open.length);
        // Beyond the limits the rest stays as it is written.
        if (!this.#wrap(open[index], run)) return;
        if (open[index].count === 0) open.pop();
      }
      if (run.canOpen && run.count > 0) open.push(run);
    }
  }

  // Put the nodes between two runs into an element; return false if it would be nested too deep.
  #wrap(opener, closer) {
    const count = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const tag = opener.character === "~" ? "del" : count === 2 ? "strong" : "em";
    const children = [];
    let depth = 1;
    for (let node = opener.node.nextSibling; node && node !== closer.node; node = node.nextSibling) {
      children.push(node);
      depth = Math.max(depth, (node.depth ?? 0) + 1);
    }
    if (depth > DEEPEST || this.#budget.left <= 0) return false;
    const element = this.#element(tag, {}, children);
    element.depth = depth;
    closer.node.before(element);
    for (const run of [opener, closer]) {
      run.count -= count;
      run.node.data = run.character.repeat(run.count);
    }
    return true;
  }
}

function fits(opener, closer) {
  if (opener.character !== closer.character || opener.count === 0) return false;
  const isBoth = opener.canClose || closer.canOpen;
  return !isBoth || (opener.count + closer.count) % 3 !== 0 || (opener.count % 3 === 0 && closer.count % 3 === 0);
}

// Return a link, or the text and the address if a browser should not open it.
function link(address, children, written) {
  const url = URL.parse?.(address) ?? parsed(address);
  if (!url || !SAFE.has(url.protocol)) {
    return h("span", {}, children, h("span", { class: "dim" }, ` (${visible(address.slice(0, 200))})`));
  }
  const real = url.protocol === "mailto:" ? decoded(url.pathname) : url.host;
  return h(
    "span",
    {},
    h("a", { class: "external", href: url.href, rel: "noreferrer noopener", target: "_blank" }, children.length ? children : visible(real)),
    isMisleading(written, url, real) && h("span", { class: "warn" }, ` (${visible(real)})`),
  );
}

// Return whether the text of a link looks like another address than its own.
function isMisleading(written, url, real) {
  const text = written.slice(0, 2000);
  if (url.protocol === "mailto:") return /@/.test(text) && !text.includes(real);
  const hosts = text.match(HOST) ?? [];
  const own = url.hostname.replace(/^www\./, "");
  return hosts.slice(0, 5).some((host) => host.toLowerCase().replace(/^www\./, "") !== own);
}

function parsed(address) {
  try {
    return new URL(address);
  } catch {
    return null;
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function unescaped(text) {
  return text.replace(/\\([!-/:-@[-`{-~])/g, "$1");
}

function plainText(written) {
  return written.slice(0, 500).replace(/[*_`[\]]/g, "");
}

function runLength(text, start) {
  let end = start + 1;
  while (text[end] === text[start]) end += 1;
  return end - start;
}

function isSpace(character) {
  return /\s/.test(character);
}

function isMark(character) {
  return PUNCTUATION.test(character);
}
