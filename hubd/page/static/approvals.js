// The approvals that wait for this person, shared by all pages.

import { oneLine } from "./text.js";

const REFRESH_MS = 1000;

// Return the approvals of a hub, kept current.
export function watchApprovals(hub) {
  return new Approvals(hub);
}

// Events: `change` when `pending` changed; `question` (detail: the approval's id) when the hub's words
// about an approval arrived; `answered` (detail: approval, status, by, message) when one was answered,
// by this page or elsewhere.
class Approvals extends EventTarget {
  // The newest first.
  pending = [];
  // The hub's own words about each pending approval, by id. They compare a file that a call would
  // write with its present content.
  questions = new Map();
  hub;
  #timer = 0;
  // Approvals that this page answered, and those that the hub has put to it.
  #own = new Set();
  #announced = new Set();
  // Counts the reads of the pending approvals. Only the newest one counts.
  #reads = 0;

  constructor(hub) {
    super();
    this.hub = hub;
    hub.addEventListener("open", () => this.#start());
  }

  // Answer an approval. `answer` has the params of `loopback.respond`.
  async respond(approval, answer) {
    this.#own.add(approval.id);
    try {
      await this.hub.one("loopback.respond", { approval_id: approval.id, ...answer });
    } catch (error) {
      this.#own.delete(approval.id);
      throw error;
    } finally {
      await this.#refresh();
    }
  }

  // A browser slows the timers of a hidden page down, but not its WebSocket. So the hub reports
  // each new approval, and the page declines the question that comes with it: it answers with
  // `respond`, several at a time and in any order.
  #start() {
    let asked = null;
    this.hub.stream(
      "loopback.watch",
      {},
      {
        event: (event) => {
          if (event.type !== "asked") return;
          asked = event.approval;
          this.#announce(asked);
        },
        request: (item) => {
          this.questions.set(asked.id, item.requestData.message ?? "");
          this.dispatchEvent(new CustomEvent("question", { detail: asked.id }));
          this.hub.respond(item.requestId, { type: "cancelled" }).catch(() => {});
        },
      },
    );
    this.#refresh();
  }

  async #refresh() {
    clearTimeout(this.#timer);
    const read = (this.#reads += 1);
    try {
      const { approvals } = await this.hub.one("loopback.pending");
      if (read !== this.#reads) return;
      this.#set(approvals);
    } catch (error) {
      // The next connection starts again. A hub without this plugin has no approvals. Any other
      // failure may pass.
      if (["disconnected", "activation_not_found"].includes(error.code)) return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), REFRESH_MS);
  }

  #set(approvals) {
    const newest = [...approvals].reverse().sort((one, other) => other.created_at - one.created_at);
    const ids = new Set(newest.map(({ id }) => id));
    const gone = this.pending.filter(({ id }) => !ids.has(id));
    const isSame = !gone.length && newest.length === this.pending.length;
    this.pending = newest;
    for (const approval of gone) {
      this.questions.delete(approval.id);
      this.#announced.delete(approval.id);
      this.#report(approval);
    }
    if (!isSame) this.dispatchEvent(new Event("change"));
  }

  async #report(approval) {
    let decision = {};
    try {
      const resolved = await this.hub.one(`${this.hub.root}.resolve_handle`, { handle: approval.handle });
      decision = resolved.data.approval;
    } catch {
      // The approval is gone with its session.
    }
    const { status = "withdrawn", by = "", message = "" } = decision;
    const isOwn = this.#own.delete(approval.id);
    this.dispatchEvent(new CustomEvent("answered", { detail: { approval, status, by, message, isOwn } }));
  }

  #announce(approval) {
    // A read may have found the approval before, but a new connection announces it again.
    const isKnown = this.#announced.has(approval.id);
    this.#announced.add(approval.id);
    this.#refresh();
    if (isKnown || !document.hidden || globalThis.Notification?.permission !== "granted") return;
    const note = new Notification(`${oneLine(approval.tool_name, 60)} waits for an approval`, {
      body: `${oneLine(approval.session_name ?? "", 60)}: ${oneLine(approval.summary ?? "", 120)}`,
      tag: approval.id,
    });
    note.onclick = () => {
      focus();
      location.hash = "#/inbox";
      note.close();
    };
  }
}
