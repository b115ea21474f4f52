// The difference of two texts, line by line. Pure.

// Beyond this many changed lines, the lines between the first and the last change are not compared.
const MOST_CHANGES = 500;
const CONTEXT_LINES = 3;
const NO_NEWLINE = "\\ No newline at end of text";

// Return the lines of a comparison: `{kind, text}` with the kind `same`, `add` or `remove`, and
// `{kind: "skip", count}` for equal lines far from a change. If only one text ends with a line feed,
// a line of the kind `note` follows the last line of the other.
export function lineDiff(before, after, context = CONTEXT_LINES) {
  const [one, other] = [linesOf(before), linesOf(after)];
  const isEnded = before.endsWith("\n");
  if (before && after && isEnded !== after.endsWith("\n")) {
    // A line feed inside of a line makes it differ from every other line.
    const lines = isEnded ? other : one;
    lines.push(`${lines.pop()}\n`);
  }
  return folded(compared(one, other).flatMap(noted), context);
}

function noted({ kind, text }) {
  if (!text.endsWith("\n")) return [{ kind, text }];
  return [
    { kind, text: text.slice(0, -1) },
    { kind: "note", text: NO_NEWLINE },
  ];
}

// Return the lines of a text. The line feed at the end does not begin another line.
export function linesOf(text) {
  if (!text) return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

function compared(before, after) {
  let start = 0;
  const shorter = Math.min(before.length, after.length);
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const removed = before.slice(start, before.length - end);
  const added = after.slice(start, after.length - end);
  return [
    ...marked("same", before.slice(0, start)),
    ...(shortestEdit(removed, added) ?? [...marked("remove", removed), ...marked("add", added)]),
    ...marked("same", before.slice(before.length - end)),
  ];
}

function marked(kind, lines) {
  return lines.map((text) => ({ kind, text }));
}

// Return the shortest edit by Myers' algorithm, or null if it has too many changes. `furthest` maps
// a diagonal to the lines of `before` that were reached with the changes made so far.
function shortestEdit(before, after) {
  const rounds = [];
  let furthest = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(MOST_CHANGES, before.length + after.length); changes += 1) {
    rounds.push(furthest);
    const next = new Map(furthest);
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = furthest.get(origin(furthest, diagonal, changes));
      if (origin(furthest, diagonal, changes) < diagonal) x += 1;
      let y = x - diagonal;
      while (x < before.length && y < after.length && before[x] === after[y]) {
        x += 1;
        y += 1;
      }
      next.set(diagonal, x);
      if (x >= before.length && y >= after.length) return path(rounds, before, after);
    }
    furthest = next;
  }
  return null;
}

// Return the diagonal that a step comes from: above for an added line, below for a removed one.
function origin(furthest, diagonal, changes) {
  const isDown =
    diagonal === -changes || (diagonal !== changes && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
  return isDown ? diagonal + 1 : diagonal - 1;
}

function path(rounds, before, after) {
  const lines = [];
  let [x, y] = [before.length, after.length];
  for (let changes = rounds.length - 1; changes >= 0; changes -= 1) {
    const furthest = rounds[changes];
    const diagonal = x - y;
    const previous = origin(furthest, diagonal, changes);
    const fromX = furthest.get(previous);
    const fromY = fromX - previous;
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      lines.push({ kind: "same", text: before[x] });
    }
    if (changes > 0)
      lines.push(x === fromX ? { kind: "add", text: after[fromY] } : { kind: "remove", text: before[fromX] });
    [x, y] = [fromX, fromY];
  }
  return lines.reverse();
}

// Replace runs of equal lines by their number, except the lines next to a change.
function folded(lines, context) {
  const isNear = new Uint8Array(lines.length);
  lines.forEach(({ kind }, index) => {
    if (kind !== "same") isNear.fill(1, Math.max(0, index - context), index + context + 1);
  });
  const shown = [];
  for (let index = 0; index < lines.length;) {
    let end = index;
    while (end < lines.length && !isNear[end]) end += 1;
    if (end - index > 1) shown.push({ kind: "skip", count: end - index });
    else if (end > index) shown.push(lines[index]);
    if (end < lines.length) shown.push(lines[end]);
    index = end + 1;
  }
  return shown;
}
