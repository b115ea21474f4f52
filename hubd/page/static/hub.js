// The connection to the hub: JSON-RPC over one WebSocket, which is opened again when it is lost.
//
// Events of a Hub: `state` when its state changed, `open` when calls can be made (again), `schema`
// when a namespace or a method was added, changed or removed.

const KEY = "hubd.key";
const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 3000;
// The hub closes with this code if it does not accept the key.
const REFUSED = 4401;

// A call that failed. `code` is one of the hub's error codes, or `disconnected`.
export class HubError extends Error {
  constructor(code, message, guidance = null) {
    super(message);
    this.code = code;
    this.guidance = guidance;
  }
}

export class Hub extends EventTarget {
  // `connecting`, `open`, `lost` (it tries again) or `refused` (it needs another code).
  state = "connecting";
  // The name of the root, which is the first word of the hub's own methods.
  root = "plexus";
  version = "";
  hash = "";
  #socket = null;
  #lastId = 0;
  // Requests without a reply, by id.
  #waiting = new Map();
  // Running calls by subscription.
  #calls = new Map();
  #schemas = new Map();
  #retryMs = FIRST_RETRY_MS;
  #retry = 0;
  #code;
  // Whether the last connection was opened with a code.
  #usedCode = false;

  // Connect with a one-time code, or with the key of this tab.
  constructor(code = null) {
    super();
    this.#code = code;
    for (const name of ["online", "focus"]) addEventListener(name, () => this.#retryNow());
    this.#connect();
  }

  // Connect with a new one-time code, unless this tab is signed in.
  signIn(code) {
    if (this.state === "open") return;
    this.#code = code;
    if (this.#socket === null) this.#connect();
  }

  // Return the first event of a method with one result.
  async one(method, params = {}) {
    const events = await this.all(method, params);
    return events[0];
  }

  // Return all events of a method.
  async all(method, params = {}) {
    const events = [];
    await this.stream(method, params, { event: (event) => events.push(event) }).done;
    return events;
  }

  // Call a method and pass its items to handlers: `event(content)`, `progress(item)`,
  // `guidance(item)`, `request(item)` for a question, `closed(item)` for a withdrawn one.
  // `done` resolves at the end and rejects with a HubError.
  stream(method, params = {}, handlers = {}) {
    const call = { handlers, guidance: null, error: null, subscription: null, cancelled: false };
    call.done = new Promise((resolve, reject) => Object.assign(call, { resolve, reject }));
    // The caller may look at `done` later, or never.
    call.done.catch(() => {});
    call.cancel = () => {
      call.cancelled = true;
      if (call.subscription !== null) this.#cancel(call.subscription);
    };
    this.#request(`${this.root}.call`, { method, params }, (subscription) => {
      call.subscription = subscription;
      this.#calls.set(subscription, call);
      if (call.cancelled) this.#cancel(subscription);
    }).catch(call.reject);
    return call;
  }

  // Answer a question of a running call.
  async respond(requestId, data) {
    const reply = await this.#request(`${this.root}.respond`, { request_id: requestId, response_data: data });
    if (!reply.success) throw new HubError("conflict", reply.message ?? "the question was withdrawn");
  }

  // Return the schema of a namespace; empty for the root's. It is kept until the hub's hash changes.
  schema(namespace = "") {
    const path = namespace || this.root;
    if (!this.#schemas.has(path)) {
      const asked = this.one(`${path}.schema`).then((event) => event.schema ?? event);
      asked.catch(() => this.#schemas.delete(path));
      this.#schemas.set(path, asked);
    }
    return this.#schemas.get(path);
  }

  #connect() {
    clearTimeout(this.#retry);
    const socket = new WebSocket(`ws://${location.host}/ws`);
    this.#socket = socket;
    socket.onopen = () => this.#authenticate();
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => this.#lose(code);
  }

  async #authenticate() {
    try {
      const code = this.#code;
      const key = sessionStorage.getItem(KEY);
      // A code works once, so a lost connection goes on with the key. A hub without
      // authentication needs neither.
      this.#code = null;
      this.#usedCode = Boolean(code);
      const reply = await this.#request("_authenticate", code ? { code } : key ? { key } : {});
      if (reply.key) sessionStorage.setItem(KEY, reply.key);
      const info = await this.#info();
      this.root = info.backend;
      this.version = info.version;
      this.#setHash(info.plexus_hash);
    } catch {
      return; // The connection is closed, and #lose decides what follows.
    }
    this.#retryMs = FIRST_RETRY_MS;
    this.#become("open");
    this.dispatchEvent(new Event("open"));
  }

  #info() {
    return new Promise((resolve, reject) => {
      const call = { handlers: { event: resolve }, resolve() {}, reject };
      this.#request("_info", {}, (subscription) => this.#calls.set(subscription, call)).catch(reject);
    });
  }

  #lose(code) {
    this.#socket = null;
    const error = new HubError("disconnected", "the connection to the hub was lost");
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
    if (code === REFUSED && this.#usedCode && sessionStorage.getItem(KEY)) {
      // An address that was used before does not sign this tab out.
      this.#connect();
      return;
    }
    if (code === REFUSED) {
      sessionStorage.removeItem(KEY);
      this.#become("refused");
      return;
    }
    this.#become("lost");
    this.#retry = setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, LONGEST_RETRY_MS);
  }

  #retryNow() {
    if (this.state === "lost" && this.#socket === null) this.#connect();
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #setHash(hash) {
    if (!hash || hash === this.hash) return;
    const isFirst = !this.hash;
    this.hash = hash;
    this.#schemas.clear();
    if (!isFirst) this.dispatchEvent(new Event("schema"));
  }

  // Send a request; `then` runs in the same turn as its reply, before the items that follow it.
  #request(method, params, then = () => {}) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) {
        reject(new HubError("disconnected", "the hub is not connected"));
        return;
      }
      this.#waiting.set(id, { resolve: (result) => resolve((then(result), result)), reject });
      this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  #cancel(subscription) {
    this.#request(`${this.root}.cancel`, { subscription }).catch(() => {});
  }

  #receive(message) {
    if (message.method === "subscription") {
      this.#take(message.params.subscription, message.params.result);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.reject(new HubError("invalid_method", message.error.message));
    else waiting?.resolve(message.result);
  }

  #take(subscription, item) {
    const call = this.#calls.get(subscription);
    if (!call) return;
    this.#setHash(item.metadata?.plexus_hash);
    const { handlers } = call;
    if (item.type === "data") handlers.event?.(item.content);
    else if (item.type === "progress") handlers.progress?.(item);
    else if (item.type === "request") handlers.request?.(item);
    else if (item.type === "request_closed") handlers.closed?.(item);
    else if (item.type === "guidance") {
      call.guidance = item;
      handlers.guidance?.(item);
    } else if (item.type === "error") {
      call.error = new HubError(item.code, item.message, call.guidance);
    } else if (item.type === "done") {
      this.#calls.delete(subscription);
      if (call.error) call.reject(call.error);
      else call.resolve();
    }
  }
}
