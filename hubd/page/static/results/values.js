// Values as people read them. The name of a field and the type of its value decide, so every
// plugin gets the same forms.

import { h } from "../dom.js";
import { ago, count, duration, exactTime, money, size } from "../format.js";
import { oneLine, visible } from "../text.js";
import { handleLink, isHandle } from "./handles.js";

const MAX_CELL = 300;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// A name and a UUID, such as those of an owner.
const OWNER = /^([\w.-]{1,100}:)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const TIME = /(_at|_since)$|^(since|timestamp)$/;
// Years that a calendar has.
const LATEST = 2 ** 37;
// The mark, the class and the words of each group of states.
const STATES = [
  ["●", "good", "active online open running started streaming"],
  ["?", "warn", "approval asking awaiting_approval awaiting_permission pending"],
  ["✓", "good", "allowed approved complete completed done finished healthy ok passed ready resolved succeeded success"],
  ["✗", "bad", "broken crashed denied error expired failed lost refused unhealthy"],
  ["◌", "dim", "idle paused queued scheduled waiting"],
  ["○", "dim", "archived cancelled canceled interrupted purged stopped timed_out withdrawn"],
];

// Return the node of a value in one line. `times` has the names of texts that are times.
export function valueNode(name, value, times = new Set()) {
  const field = name.split(".").at(-1);
  if (value === null || value === undefined || value === "") return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const moment = momentOf(field, value, times);
  if (moment !== null) return timeNode(moment);
  if (typeof value === "number") return numberText(field, value);
  if (typeof value === "string") return textNode(field, value);
  if (isPosition(value)) return h("span", { class: "mono" }, `${shortId(value.node_id)} in tree ${shortId(value.tree_id)}`);
  if (Array.isArray(value)) return listNode(field, value, times);
  return h("span", { class: "mono" }, oneLine(JSON.stringify(value), MAX_CELL));
}

function listNode(field, value, times) {
  const isPlain = value.length <= 20 && value.every((entry) => typeof entry !== "object" || entry === null);
  if (!isPlain) return h("span", { class: "mono" }, oneLine(JSON.stringify(value.slice(0, 50)), MAX_CELL));
  return h("span", {}, value.flatMap((entry, index) => [index ? ", " : "", valueNode(field, entry, times)]));
}

function textNode(field, value) {
  if (isHandle(value)) return handleLink(value);
  if (field === "status" || field === "state") return stateNode(value);
  if (UUID.test(value)) return h("span", { class: "mono id", title: value }, shortId(value));
  const owner = OWNER.exec(value);
  if (owner) return h("span", { title: value }, `${owner[1]}${shortId(owner[2])}…`);
  return oneLine(value, MAX_CELL);
}

// Return a moment in seconds if a value is a time, else null.
export function momentOf(field, value, times = new Set()) {
  if (Number.isInteger(value)) return (TIME.test(field) || times.has(field)) && value >= 0 && value < LATEST ? value : null;
  if (typeof value !== "string" || !times.has(field)) return null;
  const moment = Date.parse(value);
  return Number.isNaN(moment) ? null : moment / 1000;
}

// Return a time relative to now, with the exact one as its title.
export function timeNode(seconds) {
  const date = new Date(seconds * 1000);
  const now = Date.now() / 1000;
  const words = seconds > now + 5 ? `in ${duration(seconds - now)}` : ago(seconds, now);
  return h("time", { datetime: Number.isNaN(date.getTime()) ? null : date.toISOString(), title: exactTime(seconds) }, words);
}

// Return a number with the unit that the name of its field has.
export function numberText(field, value) {
  if (field.endsWith("_usd")) return money(value);
  if (Number.isInteger(value) && (field === "size" || field.endsWith("_bytes"))) return size(value);
  if (field.endsWith("_ms")) return lengthOfTime(value / 1000);
  if (/_(secs|seconds)$/.test(field)) return lengthOfTime(value);
  if (field.endsWith("_tokens")) return count(value);
  return Number.isInteger(value) && Math.abs(value) >= 10_000 && !/(^|_)(id|port|pid|year)$/.test(field) ? count(value) : String(value);
}

// Return a length of time: `240 ms`, `8.4 s`, `3m`.
export function lengthOfTime(seconds) {
  if (Math.abs(seconds) < 1) return seconds ? `${Math.round(seconds * 1000)} ms` : "0 s";
  return Math.abs(seconds) < 60 ? `${Number(seconds.toFixed(1))} s` : duration(seconds);
}

// Return a state with its mark; an unknown state has none.
export function stateNode(state) {
  const word = state.toLowerCase().replace(/[- ]/g, "_");
  const group = STATES.find(([, , words]) => words.split(" ").includes(word));
  const text = oneLine(state.replaceAll("_", " "), 60);
  if (!group) return text;
  return h("span", { class: "id" }, h("span", { class: group[1], "aria-hidden": "true" }, `${group[0]} `), text);
}

// Return the short form of a UUID that the hub accepts, or the text itself. An id of version 7
// begins with its time, so its end tells it apart.
export function shortId(value) {
  const match = UUID.exec(String(value));
  if (!match) return oneLine(value, 40);
  const digits = value.replaceAll("-", "");
  return match[1] === "7" ? digits.slice(-8) : digits.slice(0, 8);
}

export function isUuid(value) {
  return typeof value === "string" && UUID.test(value);
}

function isPosition(value) {
  const keys = Object.keys(value);
  return keys.length === 2 && typeof value.tree_id === "string" && typeof value.node_id === "string";
}

// Return a text with marked places; they are counted in whole characters of the text as it was sent.
export function markedText(text, places) {
  const characters = [...text];
  const isPlace = (place) => Array.isArray(place) && place.length === 2 && place.every(Number.isInteger);
  const nodes = [];
  let position = 0;
  for (const [start, end] of (Array.isArray(places) ? places.filter(isPlace) : []).toSorted((one, other) => one[0] - other[0])) {
    if (start < position || end <= start || end > characters.length) continue;
    nodes.push(visible(characters.slice(position, start).join("")));
    nodes.push(h("mark", {}, visible(characters.slice(start, end).join(""))));
    position = end;
  }
  nodes.push(visible(characters.slice(position).join("")));
  return nodes.filter((node) => node !== "");
}

// Return the name of a field in words, without its unit: `cost_usd` is `cost`.
export function heading(name) {
  return oneLine(name.replace(/(?<=.)_(at|usd|bytes|ms|secs|seconds)$/, "").replaceAll("_", " "), 60);
}
