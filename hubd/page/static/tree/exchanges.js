// The nodes of a tree folded into exchanges: a prompt with its tools and its answer. Pure.
//
// The kinds of the data behind the nodes decide: a `turn`, or a `message` that is not the
// assistant's, begins an exchange. Messages, blocks and outputs below it belong to it. Any other
// node is an exchange of its own.

const BEGINNINGS = ["turn", "message"];
const PARTS = ["message", "block", "output"];

export class Exchange {
  parent = null;
  children = [];

  constructor(first) {
    this.nodes = [first];
  }

  get id() {
    return this.nodes[0].id;
  }

  get isRoot() {
    return this.nodes[0].parent === null;
  }

  get isPrompt() {
    const [{ kind, role }] = this.nodes;
    return kind === "turn" || role === "user";
  }

  // The node at which the conversation continues.
  get end() {
    return this.nodes.findLast(({ role }) => role === "assistant") ?? this.nodes[0];
  }

  get prompt() {
    const [first] = this.nodes;
    return (this.isPrompt && first.text) || first.label || first.text || first.summary;
  }

  get createdAt() {
    return this.nodes[0].created_at;
  }

  // The names of the sessions and cones that are at one of the nodes.
  get marks() {
    return this.nodes.flatMap(({ marks }) => marks ?? []);
  }

  // The number of nodes below that the hub left out.
  get more() {
    return this.nodes.reduce((sum, { more }) => sum + (more || 0), 0);
  }

  // The tool calls: the name, the beginning of the input, and whether the result is an error.
  get tools() {
    const failed = new Set(this.nodes.filter((node) => node.is_error).map((node) => node.tool_use_id));
    return this.nodes
      .filter((node) => node.tool_name)
      .map((node) => ({
        name: node.tool_name,
        text: node.text ?? "",
        isError: failed.has(node.tool_use_id),
      }));
  }

  // The beginning of the last text of the answer.
  get answer() {
    return this.answerNodes.findLast(({ text }) => text)?.text ?? "";
  }

  // The nodes with the texts of the answer: its blocks, else its messages.
  get answerNodes() {
    const rest = this.nodes.slice(1);
    const blocks = rest.filter((node) => node.kind === "block" && !node.tool_name && !isThinking(node));
    return blocks.length ? blocks : rest.filter(({ role }) => role === "assistant");
  }

  takes(node) {
    const [first] = this.nodes;
    if (!BEGINNINGS.includes(first.kind) || !PARTS.includes(node.kind)) return false;
    if (node.kind !== "message" || node.role === "assistant") return true;
    // The prompt of a turn repeats the turn's own text.
    const isFirst = this.nodes.every(({ kind }) => kind !== "message");
    return first.kind === "turn" && node.parent === first.id && isFirst;
  }
}

// Return whether a node is a block of thinking, by the type of its handle.
export function isThinking({ handle = "" }) {
  return (handle.split("::")[1] ?? "").split(":")[0].includes("thinking");
}

// Return the exchanges of a tree in the order of its nodes, each with its parent and children.
export function exchangesOf(nodes) {
  const owners = new Map();
  const exchanges = [];
  for (const node of nodes) {
    const above = owners.get(node.parent);
    if (above?.takes(node)) {
      above.nodes.push(node);
      owners.set(node.id, above);
      continue;
    }
    const exchange = new Exchange(node);
    exchange.parent = above ?? null;
    above?.children.push(exchange);
    exchanges.push(exchange);
    owners.set(node.id, exchange);
  }
  return exchanges;
}

// Return the exchanges from the root to this one.
export function pathTo(exchange) {
  const path = [];
  for (let each = exchange; each; each = each.parent) path.push(each);
  return path.reverse();
}

// Return the exchanges from this one to the next fork or end.
export function runFrom(exchange) {
  const run = [exchange];
  while (run.at(-1).children.length === 1) run.push(run.at(-1).children[0]);
  return run;
}

// Return the number of exchanges and of ends below these, and the names of the marks. The exchange
// `without` and those below it are not counted.
export function countBelow(firsts, without = null) {
  const sums = { turns: 0, branches: 0, marks: [], more: 0 };
  const waiting = [...firsts];
  while (waiting.length) {
    const exchange = waiting.pop();
    if (exchange === without) continue;
    sums.turns += 1;
    sums.more += exchange.more;
    sums.marks.push(...exchange.marks);
    if (!exchange.children.length) sums.branches += 1;
    for (const child of exchange.children) waiting.push(child);
  }
  return sums;
}
