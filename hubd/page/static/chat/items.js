// The events of one chat, folded into the items that a reader sees. Without a DOM.
//
// Durable events have a `seq`; the text of a block comes live before its durable event. Both make
// the same item, so nothing is shown twice. Pages of older events can be added in front.

// Live and durable events of a block: the name of the event, and the field with its text.
const BLOCKS = { thinking: "text", content: "text", tool_use: "partial_json" };
const PHASE = /^(thinking|content|tool_use)_(start|delta|end)$/;
// Events that repeat others, or that tell nothing to a reader.
const SILENT = new Set(["assistant_message", "pending"]);
// Lines of the agent about itself.
const OWN_LINES = /^(?:system\/|rate_limit)/;
const DEEPEST = 4;

// An item has `key`, `kind`, `depth` (of subagents), `seq` (absent while it is only live) and the
// fields of its kind:
//   prompt    text
//   thinking  text, isDone, seconds?
//   content   text, isDone, isCut
//   tool      name, id, input, partial, isDone, result?, approval?
//   result    result (its call is not loaded)
//   approval  approval (its call is not loaded)
//   end       event
//   error     message, code, event
//   other     title, data
export class ChatItems {
  items = [];
  // The first seq that is loaded, and the first one that is not.
  first;
  next;
  startedAt = null;
  isEnded = false;
  #prefix;
  #blocks = new Map();
  #calls = new Map();
  #approvals = new Map();
  // Answers whose question is not loaded.
  #answers = new Map();
  // What changed since the last `takeChanges`.
  #added = [];
  #changed = new Set();
  #isRebuilt = false;

  // `prefix` makes the keys of this chat unique; `from` is the seq of the first event to come.
  constructor(prefix, from = 0) {
    this.#prefix = prefix;
    this.first = from;
    this.next = from;
  }

  // Add a durable event. Return false if events before it are missing.
  add(record) {
    if (record.seq < this.next) return true;
    if (record.seq > this.next) return false;
    this.next = record.seq + 1;
    this.#fold(record);
    return true;
  }

  // Add a live event. Return false if text before it is missing.
  addLive(event, now = Date.now()) {
    const [, kind, phase] = PHASE.exec(event.type) ?? [];
    if (!kind) {
      if (!SILENT.has(event.type)) this.#other(event, undefined);
      return true;
    }
    const item = this.#block(kind, event, undefined);
    if (item.seq !== undefined || item.isDone) return true;
    item.startedAt ??= now;
    if (phase === "start") Object.assign(item, toolFields(event));
    if (phase === "end") this.#finish(item, event, now);
    this.#changed.add(item);
    return phase !== "delta" || grow(item, kind === "tool_use" ? "partial" : "text", event.offset, event[BLOCKS[kind]]);
  }

  // Add the events directly before the first loaded one.
  addOlder(records) {
    if (!records.length) return;
    const older = new ChatItems(this.#prefix, records[0].seq);
    for (const record of records) older.add(record);
    for (const [id, answer] of this.#answers) if (older.#answer(id, answer)) this.#answers.delete(id);
    const isAdopted = (item) =>
      (item.kind === "result" && older.#giveResult(item.result)) ||
      (item.kind === "approval" && older.#giveApproval(item.approval));
    this.items = [...older.items, ...this.items.filter((item) => !isAdopted(item))];
    this.#blocks = new Map([...older.#blocks, ...this.#blocks]);
    this.#calls = new Map([...older.#calls, ...this.#calls]);
    this.#approvals = new Map([...older.#approvals, ...this.#approvals]);
    this.#answers = new Map([...older.#answers, ...this.#answers]);
    this.startedAt = older.startedAt ?? this.startedAt;
    this.first = older.first;
    this.#isRebuilt = true;
  }

  // Forget the oldest items, all but this many. They can be added again with `addOlder`.
  trim(keep) {
    const first = this.items.at(-keep)?.seq;
    if (this.items.length <= keep || first === undefined) return;
    const isOld = ({ seq }) => seq !== undefined && seq < first;
    this.items = this.items.filter((item) => !isOld(item));
    for (const map of [this.#blocks, this.#calls]) for (const [key, item] of map) if (isOld(item)) map.delete(key);
    this.first = first;
    this.#isRebuilt = true;
  }

  // Return what changed since the last call: `added` at the end, `changed`, or all if `isRebuilt`.
  takeChanges() {
    const changes = { added: this.#added, changed: this.#changed, isRebuilt: this.#isRebuilt };
    for (const item of this.#added) this.#changed.delete(item);
    this.#added = [];
    this.#changed = new Set();
    this.#isRebuilt = false;
    return changes;
  }

  // Show the end of a chat that has no event about it, such as one cancelled in the queue.
  addEnding({ prompt, status, error }) {
    if (!this.items.length) this.#append({ kind: "prompt", depth: 0, text: prompt ?? "" }, "prompt");
    this.#append({ kind: "error", depth: 0, message: error ?? status, code: status, event: {} }, "ending");
    this.#end();
  }

  #fold({ seq, timestamp, event }) {
    const { type } = event;
    if (type === "start") this.startedAt = timestamp;
    if (type === "user_message") this.#append({ kind: "prompt", depth: 0, seq, at: timestamp, text: event.prompt ?? "" }, seq);
    else if (Object.hasOwn(BLOCKS, type)) this.#foldBlock(type, event, seq);
    else if (type === "tool_result") this.#foldResult(event, seq);
    else if (type === "awaiting_approval") this.#foldApproval(event, seq);
    else if (type === "approval_resolved") {
      if (!this.#answer(event.approval_id, event)) this.#answers.set(event.approval_id, event);
    } else if (type === "complete") {
      this.#append({ kind: "end", depth: 0, seq, event, at: timestamp }, seq);
      this.#end();
    } else if (type === "error") {
      this.#append({ kind: "error", depth: 0, seq, message: event.message, code: event.code, event, at: timestamp }, seq);
      this.#end();
    } else if (type === "start" ? event.attachments : !isSilent(event)) this.#other(event, seq);
  }

  #foldBlock(kind, event, seq) {
    const item = this.#block(kind, event, seq);
    item.seq = seq;
    if (kind === "tool_use") Object.assign(item, toolFields(event), { input: event.input, partial: "" });
    else item.text = event.text;
    item.isCut = event.complete === false;
    this.#finish(item, event, Date.now());
    if (item.id) this.#calls.set(item.id, item);
    this.#changed.add(item);
  }

  // Return the item of a block, which is new if this is its first event.
  #block(kind, event, seq) {
    const key = `${event.parent_tool_use_id ?? ""}/${event.message_id}/${event.block_index}/${kind}`;
    const known = this.#blocks.get(key);
    if (known) return known;
    const item = { kind: kind === "tool_use" ? "tool" : kind, depth: this.#depth(event), parent: event.parent_tool_use_id ?? null, seq, text: "", points: 0, isDone: false };
    if (kind === "tool_use") Object.assign(item, toolFields(event), { input: undefined, partial: "" });
    this.#blocks.set(key, item);
    return this.#append(item, key);
  }

  #finish(item, event, now) {
    if (item.kind === "thinking" && item.startedAt && !item.isDone) item.seconds = (now - item.startedAt) / 1000;
    if (item.kind === "tool" && event.input !== undefined) item.input = event.input;
    item.isDone = true;
  }

  #depth(event) {
    const parent = event.parent_tool_use_id;
    if (!parent) return 0;
    return Math.min(DEEPEST, (this.#calls.get(parent)?.depth ?? 0) + 1);
  }

  #foldResult(event, seq) {
    const result = {
      id: event.tool_use_id,
      output: typeof event.output === "string" ? event.output : JSON.stringify(event.output ?? ""),
      isError: Boolean(event.is_error),
      length: event.truncated ?? null,
      block: event.block ?? null,
    };
    if (this.#giveResult(result)) return;
    this.#append({ kind: "result", depth: this.#depth(event), seq, result }, seq);
  }

  #giveResult(result) {
    const call = this.#calls.get(result.id);
    if (!call) return false;
    call.result = result;
    this.#changed.add(call);
    return true;
  }

  #foldApproval(event, seq) {
    const { approval_id: id, tool_name: name, tool_use_id: call, input } = event;
    const approval = { id, name, call, input, status: "pending" };
    this.#approvals.set(id, approval);
    const answer = this.#answers.get(id);
    if (!this.#giveApproval(approval)) {
      approval.item = this.#append({ kind: "approval", depth: this.#depth(event), seq, approval }, seq);
    }
    if (answer) this.#answer(id, answer);
  }

  #giveApproval(approval) {
    const call = this.#calls.get(approval.call);
    if (!call) return false;
    call.approval = approval;
    approval.item = call;
    this.#approvals.set(approval.id, approval);
    this.#changed.add(call);
    return true;
  }

  #answer(id, event) {
    const approval = this.#approvals.get(id);
    if (!approval) return false;
    const { status, approved, by, message, updated_input: updated } = event;
    Object.assign(approval, { status: status ?? (approved ? "approved" : "denied"), by, message, updated });
    if (approval.item) this.#changed.add(approval.item);
    return true;
  }

  #other(event, seq) {
    const title = event.event_type ?? event.type ?? "event";
    this.#append({ kind: "other", depth: this.#depth(event), seq, title, data: event.data ?? event }, seq ?? `live${this.items.length}`);
  }

  #append(item, name) {
    item.key = `${this.#prefix}:${name}`;
    this.items.push(item);
    this.#added.push(item);
    return item;
  }

  // A block that was cut before the hub stored any of it has no durable event.
  #end() {
    this.isEnded = true;
    const isLost = (item) => item.seq === undefined && Object.hasOwn(item, "points");
    for (const [key, item] of this.#blocks) if (isLost(item)) this.#blocks.delete(key);
    if (!this.items.some(isLost)) return;
    this.items = this.items.filter((item) => !isLost(item));
    this.#isRebuilt = true;
  }
}

function isSilent({ type, event_type: line = "", data }) {
  // The prompt of a subagent is part of the call that started it.
  return SILENT.has(type) || OWN_LINES.test(line) || (line === "user" && Boolean(data?.parent_tool_use_id));
}

function toolFields(event) {
  if (event.tool_use_id === undefined) return {};
  return { id: event.tool_use_id, name: event.tool_name ?? "tool" };
}

// Add text at an offset, which counts code points. Text that is there already is left out. Return
// false if text is missing before it.
export function grow(item, field, offset, text) {
  if (offset > item.points) return false;
  let rest = text;
  if (offset < item.points) rest = [...text].slice(item.points - offset).join("");
  item[field] += rest;
  item.points += pointsOf(rest);
  return true;
}

function pointsOf(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

// Return the items of a message of a conversation, such as one before a fork.
export function messageItems(message, prefix, calls = new Map()) {
  const blocks = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
  const items = [];
  (Array.isArray(blocks) ? blocks : []).forEach((block, index) => {
    const base = { key: `${prefix}:${index}`, depth: 0, isDone: true };
    if (block.type === "text") items.push({ ...base, kind: message.role === "user" ? "prompt" : "content", text: block.text ?? "", at: message.created_at });
    else if (block.type === "thinking") items.push({ ...base, kind: "thinking", text: block.thinking ?? "" });
    else if (block.type === "tool_use") {
      const call = { ...base, kind: "tool", id: block.id, name: block.name ?? "tool", input: block.input, partial: "" };
      calls.set(block.id, call);
      items.push(call);
    } else if (block.type === "tool_result") {
      const result = { id: block.tool_use_id, output: joined(block.content), isError: Boolean(block.is_error), length: null, block: null };
      const call = calls.get(block.tool_use_id);
      if (call) call.result = result;
      else items.push({ ...base, kind: "result", result });
    } else items.push({ ...base, kind: "other", title: block.type ?? "block", data: block });
  });
  return items;
}

function joined(content) {
  if (typeof content === "string") return content;
  const texts = Array.isArray(content) ? content.map((block) => block?.text) : [];
  return texts.filter((text) => typeof text === "string").join("\n");
}
