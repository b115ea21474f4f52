// The blocks of Markdown: headings, lists, quotes, code, tables and paragraphs, without a DOM.
//
// A block is read from its first line, without looking at the text before it. So a text that grows
// needs only its last block to be read again.

// Quotes and lists inside each other, at most; deeper ones are plain text.
const DEEPEST = 10;
const MOST_COLUMNS = 40;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]{0,100})/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,100}|(?:-[ \t]*){3,100}|(?:_[ \t]*){3,100})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,8})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|( {5,})|[ \t]*$|\t)/;
const TASK = /^\[([ xX])\] /;
// A single dash may be the start of a list that is still being written.
const UNDERLINE = /^ {0,3}(={2,}|-{2,})[ \t]*$/;
const DIVIDER = /^\|?[ \t]*:?-+:?(?:[ \t]*\|[ \t]*:?-+:?){0,40}[ \t]*\|?$/;
// A longer line is never a heading, an item or a rule. It bounds the work of the patterns.
const LONGEST_LINE = 4096;

// Return the block at a position: kind, end (the position behind it), source, and its content.
export function readBlock(text, start, end = text.length) {
  const lines = new Lines(text, start, end);
  const block = readLines(lines, 0);
  return { ...block, end: lines.position, source: text.slice(start, lines.position) };
}

// The lines of a part of a text, one after the other.
class Lines {
  constructor(text, start, end) {
    this.text = text;
    this.position = start;
    this.end = end;
    this.#read();
  }

  // The line at the position; null at the end.
  line = null;

  next() {
    const { line } = this;
    this.position = Math.min(this.position + line.length + 1, this.end);
    this.#read();
    return line;
  }

  #read() {
    if (this.position >= this.end) {
      this.line = null;
      return;
    }
    const stop = this.text.indexOf("\n", this.position);
    this.line = this.text.slice(this.position, stop < 0 ? this.end : Math.min(stop, this.end));
  }
}

function readLines(lines, depth) {
  const line = lines.line;
  if (isBlank(line)) {
    while (lines.line !== null && isBlank(lines.line)) lines.next();
    return { kind: "blank" };
  }
  const short = head(line);
  const fence = FENCE.exec(short);
  if (fence) return readCode(lines, fence);
  const heading = HEADING.exec(short);
  if (heading && line.length <= LONGEST_LINE) {
    lines.next();
    const title = line.slice(heading[0].length).trim();
    return { kind: "heading", level: heading[1].length, text: title.replace(/(?:^|[ \t])#{1,20}$/, "").trim() };
  }
  if (isRule(line)) {
    lines.next();
    return { kind: "rule" };
  }
  if (QUOTE.test(short)) return readQuote(lines, depth);
  if (isItem(short)) return readList(lines, depth);
  return readParagraph(lines);
}

function readAll(text, depth) {
  if (depth >= DEEPEST) return text.trim() ? [{ kind: "plain", text, source: text }] : [];
  const blocks = [];
  const lines = new Lines(text, 0, text.length);
  while (lines.line !== null) {
    const start = lines.position;
    const block = readLines(lines, depth);
    if (block.kind !== "blank") blocks.push({ ...block, source: text.slice(start, lines.position) });
    else if (blocks.length && lines.line !== null) blocks.hasGap = true;
  }
  return blocks;
}

function readCode(lines, [whole, mark, info]) {
  const indent = whole.indexOf(mark);
  lines.next();
  const code = [];
  while (lines.line !== null) {
    const line = lines.next();
    const close = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line.length > LONGEST_LINE ? "" : line);
    if (close && close[1].startsWith(mark)) break;
    code.push(indent ? line.replace(/^ {1,3}/, (spaces) => spaces.slice(indent)) : line);
  }
  return { kind: "code", language: info.trim().split(/\s/)[0], text: code.join("\n") };
}

function readQuote(lines, depth) {
  const inside = [];
  while (lines.line !== null && !isBlank(lines.line)) {
    const mark = QUOTE.exec(head(lines.line));
    // A line without a mark continues a paragraph, but starts nothing.
    if (!mark && startsBlock(lines.line)) break;
    inside.push(lines.next().slice(mark?.[0].length ?? 0));
  }
  return { kind: "quote", blocks: readAll(inside.join("\n"), depth + 1) };
}

function readList(lines, depth) {
  const [, , firstMark] = ITEM.exec(head(lines.line));
  const type = firstMark.at(-1);
  const items = [];
  let isTight = true;
  while (lines.line !== null) {
    const match = isRule(lines.line) ? null : ITEM.exec(head(lines.line));
    if (!match || match[2].at(-1) !== type) break;
    const { inside, hasGap, hasGapBehind } = readItem(lines, match);
    const task = TASK.exec(inside);
    const blocks = readAll(task ? inside.slice(4) : inside, depth + 1);
    items.push({ blocks, isDone: task ? task[1] !== " " : null });
    const isContinued = lines.line !== null && ITEM.exec(head(lines.line))?.[2].at(-1) === type;
    if ((hasGap && blocks.hasGap && blocks.every(({ kind }) => kind !== "list")) || (hasGapBehind && isContinued)) isTight = false;
  }
  const number = Number.parseInt(firstMark, 10);
  return { kind: "list", start: Number.isNaN(number) ? null : number, items, isTight };
}

// Return the text of an item without its indentation. It ends before a line that is indented less.
function readItem(lines, [mark, indent, bullet]) {
  const narrow = indent.length + bullet.length + 1;
  const width = mark.length > narrow + 3 ? narrow : Math.max(mark.length, narrow);
  // Models indent the items below a number by two columns, too.
  const least = Math.min(width, indent.length + 2);
  const inside = [lines.next().slice(width)];
  let blanks = 0;
  let hasGap = false;
  let fence = null;
  while (lines.line !== null) {
    const line = lines.line;
    if (isBlank(line)) {
      blanks += 1;
      lines.next();
      continue;
    }
    const own = /^ {0,20}/.exec(line)[0].length;
    const isInside = own >= least;
    const isLazy = !blanks && !fence && !startsBlock(line) && !isItem(head(line.trimStart()));
    if (!isInside && !isLazy) break;
    for (; blanks > 0; blanks -= 1) {
      inside.push("");
      hasGap = true;
    }
    const content = line.slice(Math.min(own, width));
    const mark = FENCE.exec(head(content));
    if (mark) fence = fence ? null : mark[1];
    inside.push(content);
    lines.next();
  }
  return { inside: inside.join("\n"), hasGap, hasGapBehind: blanks > 0 };
}

function readParagraph(lines) {
  const written = [lines.next()];
  if (lines.line !== null && isDivider(lines.line) && written[0].includes("|")) {
    const table = readTable(lines, written[0]);
    if (table) return table;
  }
  while (lines.line !== null && !isBlank(lines.line)) {
    const underline = UNDERLINE.exec(head(lines.line));
    if (underline) {
      lines.next();
      return { kind: "heading", level: underline[1][0] === "=" ? 1 : 2, text: written.join("\n").trim() };
    }
    if (startsBlock(lines.line)) break;
    written.push(lines.next());
  }
  return { kind: "paragraph", text: written.join("\n").trim() };
}

function readTable(lines, header) {
  const heads = cellsOf(header);
  const marks = cellsOf(lines.line);
  if (heads.length !== marks.length || heads.length > MOST_COLUMNS) return null;
  lines.next();
  const columns = marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "middle" : "number") : null));
  const rows = [];
  while (lines.line !== null && !isBlank(lines.line) && !startsBlock(lines.line)) rows.push(cellsOf(lines.next()));
  return { kind: "table", columns, head: heads, rows };
}

// Return the cells of a row. A bar behind a backslash or in code belongs to its cell.
function cellsOf(row) {
  const cells = [];
  let cell = "";
  let isCode = false;
  const line = row.trim().replace(/^\|/, "");
  for (let place = 0; place < line.length; place += 1) {
    const character = line[place];
    if (character === "\\" && line[place + 1] === "|") {
      cell += "|";
      place += 1;
    } else if (character === "|" && !isCode) {
      cells.push(cell.trim());
      cell = "";
      if (cells.length > MOST_COLUMNS) break;
    } else {
      if (character === "`") isCode = !isCode;
      cell += character;
    }
  }
  if (cell.trim()) cells.push(cell.trim());
  return cells;
}

function startsBlock(line) {
  const short = head(line);
  if (FENCE.test(short) || QUOTE.test(short) || isRule(line)) return true;
  if (line.length <= LONGEST_LINE && HEADING.test(short)) return true;
  // As in CommonMark, only a list that starts at 1 interrupts a paragraph, and no empty item does.
  const item = ITEM.exec(short);
  return Boolean(item && item[1].length < 4 && /^(?:\D|1[.)])/.test(item[2]) && line.length > item[0].length);
}

function isItem(short) {
  const item = ITEM.exec(short);
  return Boolean(item) && item[1].length < 4;
}

function isRule(line) {
  return line.length <= LONGEST_LINE && RULE.test(line);
}

function isDivider(line) {
  return line.length <= LONGEST_LINE && DIVIDER.test(line.trim());
}

function isBlank(line) {
  return !/\S/.test(line.length > LONGEST_LINE ? line.slice(0, LONGEST_LINE) : line);
}

function head(line) {
  return line.length > LONGEST_LINE ? line.slice(0, LONGEST_LINE) : line;
}
