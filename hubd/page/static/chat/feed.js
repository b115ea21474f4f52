// The chats of one session: loaded from their end, followed live, and continued after a lost
// connection at the next seq, so that no event is missing and none comes twice.

import { ChatItems, messageItems } from "./items.js";

// Events in a page of older ones.
const PAGE = 200;
// Chats that are listed at first, and again while the page is open.
const FIRST_LIST = 200;
const LIST = 20;
const REFRESH_MS = 2000;
// Items that stay in memory while the reader follows the end.
const MOST_ITEMS = 4000;
const KEPT_ITEMS = 2000;
const OPEN = new Set(["queued", "running", "awaiting_permission"]);

// Events: `items` when items changed (see `takeChanges`), `session` when the session, its chats or
// their status changed, `problem` (detail: error).
export class ChatFeed extends EventTarget {
  // The answer of `claudecode.get`, and the sums of `claudecode.usage`.
  session = null;
  usage = null;
  // Set when the first page is loaded.
  isReady = false;
  // Whether everything before the first item is loaded.
  isComplete = false;
  #hub;
  #name;
  // All known chats, the oldest first: info, items (null if not loaded), call, isFollowed.
  #chats = [];
  // Items of the turns before a fork; null before they are loaded.
  #earlier = null;
  #hasAllChats = false;
  #isRebuilt = true;
  #isClosed = false;
  #isLoading = false;
  // One update runs at a time; another one was asked for meanwhile.
  #isUpdating = false;
  #isAsked = false;
  #timer = 0;

  constructor(hub, name) {
    super();
    this.#hub = hub;
    this.#name = name;
    hub.addEventListener("open", this.#refresh);
    hub.addEventListener("state", this.#tellSession);
    document.addEventListener("visibilitychange", this.#refresh);
    if (hub.state === "open") this.#refresh();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#hub.removeEventListener("open", this.#refresh);
    this.#hub.removeEventListener("state", this.#tellSession);
    document.removeEventListener("visibilitychange", this.#refresh);
    for (const chat of this.#chats) chat.call?.cancel();
  }

  // The chat that runs, or null.
  get running() {
    const isRunning = ({ info, items }) => ["running", "awaiting_permission"].includes(info.status) && !items?.isEnded;
    return this.#chats.find(isRunning)?.info ?? null;
  }

  // The chats that wait, the next one first.
  get queue() {
    return this.#chats.filter(({ info }) => info.status === "queued").map(({ info }) => info);
  }

  get items() {
    return [...(this.#earlier ?? []), ...this.#loaded().flatMap(({ items }) => items.items)];
  }

  // Return what changed since the last call: items `added` at the end and `changed` ones, or
  // `isRebuilt` if `items` must be read again.
  takeChanges() {
    const loaded = this.#loaded();
    const changes = loaded.map(({ items }) => items.takeChanges());
    const isRebuilt = this.#isRebuilt || changes.some((change, place) => change.isRebuilt || (change.added.length && place < loaded.length - 1));
    this.#isRebuilt = false;
    return { isRebuilt, added: changes.at(-1)?.added ?? [], changed: new Set(changes.flatMap(({ changed }) => [...changed])) };
  }

  // Ask for the session and its chats now, such as after a prompt was sent.
  refresh() {
    return this.#refresh();
  }

  // Forget old items if there are many. Called while the reader is at the end.
  trim() {
    const loaded = this.#loaded();
    const count = loaded.reduce((sum, { items }) => sum + items.items.length, 0);
    if (count <= MOST_ITEMS) return;
    let rest = KEPT_ITEMS;
    for (const chat of loaded.reverse()) {
      if (rest <= 0 && !chat.call) chat.items = null;
      else chat.items.trim(Math.max(rest, 1));
      rest -= chat.items?.items.length ?? 0;
    }
    this.#earlier = null;
    this.isComplete = false;
    this.#isRebuilt = true;
    this.#tellItems();
  }

  // Load a page of older events, from this chat or the one before it.
  async loadOlder() {
    if (this.#isLoading || this.isComplete || !this.isReady || this.#hub.state !== "open") return;
    this.#isLoading = true;
    try {
      const before = this.items.length;
      // Some events have no item, so a page may show nothing.
      for (let page = 0; page < 5 && !this.isComplete && this.items.length <= before; page += 1) await this.#loadPage();
    } catch (error) {
      this.#tellProblem(error);
    } finally {
      this.#isLoading = false;
    }
    this.#tellItems();
  }

  async #loadPage() {
    const [first] = this.#loaded();
    if (first && first.items.first > 0) {
      await this.#loadBefore(first, first.items.first);
      return;
    }
    const place = first ? this.#chats.indexOf(first) : this.#chats.length;
    if (place === 0 && !this.#hasAllChats) await this.#listChats(null);
    const previous = this.#chats[(first ? this.#chats.indexOf(first) : this.#chats.length) - 1];
    if (previous) await this.#load(previous);
    else await this.#loadEarlier();
  }

  async #loadBefore({ info, items }, end) {
    const from = Math.max(0, end - PAGE);
    const events = await this.#page(info, from, end - from);
    if (items.first !== end) return;
    items.addOlder(events);
    if (!events.length) items.first = 0;
  }

  // Return a page of events; none if the hub has removed them.
  async #page(info, from, limit) {
    try {
      const page = await this.#hub.one("claudecode.poll", { stream_id: info.stream_id, from_seq: from, limit });
      return page.events;
    } catch (error) {
      if (error.code === "cursor_expired") return [];
      throw error;
    }
  }

  // The messages from the root to the session's first chat: those before a fork or an import.
  async #loadEarlier() {
    const params = { name: this.#name };
    const [first] = this.#chats;
    if (first) params.node_id = await this.#firstNode(first);
    const messages = first && !params.node_id ? [] : await this.#hub.all("claudecode.get_conversation", params);
    if (first) messages.splice(messages.findIndex(({ node_id: node }) => node === params.node_id));
    const calls = new Map();
    const items = messages.flatMap((message, index) => messageItems(message, `earlier:${index}`, calls));
    this.#earlier = items.length ? [{ key: "earlier", kind: "earlier", depth: 0, items, isOpen: !first }] : [];
    if (!first) this.#earlier.push(...items);
    this.isComplete = true;
    this.#isRebuilt = true;
  }

  async #firstNode({ info }) {
    const events = await this.#page(info, 0, 5);
    return events.find(({ event }) => event.type === "user_message")?.event.position?.node_id;
  }

  // Show or hide the turns before a fork.
  toggleEarlier() {
    const [head] = this.#earlier ?? [];
    if (!head) return;
    head.isOpen = !head.isOpen;
    this.#earlier = head.isOpen ? [head, ...head.items] : [head];
    this.#isRebuilt = true;
    this.#tellItems();
  }

  #loaded() {
    return this.#chats.filter(({ items }) => items);
  }

  #refresh = async () => {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#hub.state !== "open" || (document.hidden && this.isReady)) return;
    this.#isAsked = true;
    if (this.#isUpdating) return;
    this.#isUpdating = true;
    while (this.#isAsked) {
      this.#isAsked = false;
      try {
        await this.#update();
      } catch (error) {
        if (error.code !== "disconnected") this.#tellProblem(error);
      }
    }
    this.#isUpdating = false;
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(this.#refresh, REFRESH_MS);
  };

  async #update() {
    const name = this.#name;
    const [session, usage] = await Promise.all([
      this.#hub.one("claudecode.get", { name }),
      this.#hub.one("claudecode.usage", { name }),
      this.#listChats(this.isReady ? LIST : FIRST_LIST),
    ]);
    if (this.#isClosed) return;
    this.session = session;
    this.usage = usage;
    await this.#showChats();
    this.#tellSession();
  }

  async #listChats(limit) {
    const params = limit ? { name: this.#name, limit } : { name: this.#name };
    const infos = (await this.#hub.all("claudecode.streams", params)).flatMap(({ streams }) => streams);
    if (!limit || infos.length < limit) this.#hasAllChats = true;
    const known = new Map(this.#chats.map((chat) => [chat.info.stream_id, chat]));
    const listed = infos.reverse().map((info) => Object.assign(known.get(info.stream_id) ?? { items: null, call: null }, { info }));
    const ids = new Set(infos.map(({ stream_id: id }) => id));
    this.#chats = [...this.#chats.filter(({ info }) => !ids.has(info.stream_id)), ...listed];
  }

  // Load the newest chat at first, and follow each chat that has started since.
  async #showChats() {
    const wasReady = this.isReady;
    const newest = this.#chats.findLastIndex(({ info }) => info.status !== "queued");
    const firstLoaded = this.#chats.findIndex(({ items }) => items);
    const from = firstLoaded < 0 ? newest : firstLoaded;
    for (const chat of this.#chats.slice(Math.max(from, 0))) {
      if (chat.info.status === "queued") continue;
      if (!chat.items) await this.#load(chat);
      else if (chat.items.isEnded || chat.call) continue;
      else if (OPEN.has(chat.info.status) || chat.items.next < chat.info.total_events) this.#follow(chat);
      else chat.items.addEnding(chat.info);
    }
    this.isReady = true;
    if (!wasReady) await this.loadOlder();
  }

  async #load(chat) {
    const { info } = chat;
    const from = Math.max(0, info.total_events - PAGE);
    const items = new ChatItems(info.stream_id, from);
    if (OPEN.has(info.status)) {
      chat.items = items;
      this.#isRebuilt = true;
      this.#follow(chat);
      return;
    }
    if (info.total_events) for (const record of await this.#page(info, from, PAGE)) items.add(record);
    if (!items.isEnded) items.addEnding(info);
    chat.items = items;
    this.#isRebuilt = true;
    this.#tellItems();
  }

  #follow(chat) {
    const call = this.#hub.stream("claudecode.follow", { stream_id: chat.info.stream_id, from_seq: chat.items.next }, {
      event: (content) => chat.call === call && this.#take(chat, content),
    });
    chat.call = call;
    call.done.then(
      () => this.#followed(chat, call),
      (error) => this.#followed(chat, call, error),
    );
  }

  #take(chat, content) {
    const isWhole = content.type === "event" ? chat.items.add(content) : chat.items.addLive(content.event);
    if (!isWhole) {
      // Start again at the next seq; a running block comes again from its beginning.
      const { call } = chat;
      this.#follow(chat);
      call.cancel();
    }
    if (chat.items.isEnded) this.#tellSession();
    this.#tellItems();
  }

  // A call that a lost connection ended is made again by `#showChats`.
  #followed(chat, call, error = null) {
    if (chat.call !== call) return;
    chat.call = null;
    if (error && error.code !== "disconnected" && error.code !== "cancelled") this.#tellProblem(error);
    if (!error) this.#refresh();
  }

  #tellItems() {
    if (!this.#isClosed) this.dispatchEvent(new Event("items"));
  }

  #tellSession = () => {
    if (!this.#isClosed) this.dispatchEvent(new Event("session"));
  };

  #tellProblem(error) {
    if (!this.#isClosed) this.dispatchEvent(new CustomEvent("problem", { detail: error }));
  }
}
