// The whole texts of an exchange, read from the hub.

import { isThinking } from "./exchanges.js";

// Handles that are resolved in one call.
const HANDLES_PER_CALL = 100;

// Return the parts of an exchange: `{kind, text, input, tool, isError, handle}`. The kinds are
// `prompt`, `answer`, `thinking`, `tool`, `result` and `other`.
export async function readParts(hub, treeId, exchange) {
  const nodes = shownNodes(exchange);
  const contents = await readNodes(hub, treeId, nodes);
  return nodes.map((node, index) => part(node, contents[index], exchange));
}

// Return the whole text of the answer.
export async function readAnswer(hub, treeId, exchange) {
  const contents = await readNodes(hub, treeId, exchange.answerNodes);
  return contents.map(textOf).filter(Boolean).join("\n\n");
}

// A prompt is a turn and a message, and the blocks of a message repeat it. Each is shown once.
function shownNodes({ nodes }) {
  const parents = new Set(nodes.filter(({ kind }) => kind === "block").map(({ parent }) => parent));
  return nodes.filter((node, index) => {
    if (node.role === "user" && index > 0) return false;
    return !(node.role === "assistant" && parents.has(node.id));
  });
}

// Return the data of each node: of its handle, or its own text.
async function readNodes(hub, treeId, nodes) {
  const handles = nodes.map(({ handle }) => handle).filter(Boolean);
  const data = new Map();
  for (let start = 0; start < handles.length; start += HANDLES_PER_CALL) {
    const handle = handles.slice(start, start + HANDLES_PER_CALL);
    for (const event of await hub.all(`${hub.root}.resolve_handle`, { handle }))
      data.set(event.handle, event.data ?? { text: event.message });
  }
  return Promise.all(
    nodes.map(async (node) => {
      if (node.handle) return data.get(node.handle) ?? { text: node.summary };
      const { node: whole } = await hub.one("arbor.node_get", { tree_id: treeId, node_id: node.id });
      return { text: whole.data.content };
    }),
  );
}

function part(node, data, exchange) {
  const base = { handle: node.handle ?? null, text: textOf(data), isError: data.is_error === true };
  if (node === exchange.nodes[0] && exchange.isPrompt) return { ...base, kind: "prompt" };
  if (node.tool_name) return { ...base, kind: "tool", tool: node.tool_name, input: data.input ?? {} };
  if (node.kind === "output") return { ...base, kind: "result" };
  if (isThinking(node)) return { ...base, kind: "thinking" };
  if (node.kind === "block" || node.role === "assistant") return { ...base, kind: "answer" };
  return { ...base, kind: "other" };
}

function textOf(data) {
  for (const name of ["text", "prompt", "output", "content"]) if (typeof data[name] === "string") return data[name];
  return JSON.stringify(data, null, 2);
}
