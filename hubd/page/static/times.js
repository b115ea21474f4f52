// Times that stay current while they are on the page.

import { h } from "./dom.js";
import { ago, duration, exactTime } from "./format.js";

const UPDATE_MS = 5000;

// Return an element that says how long ago a time in Unix seconds was.
export function timeAgo(seconds) {
  return timeElement(seconds, "ago");
}

// Return an element that says how long it is until a time in Unix seconds.
export function timeLeft(seconds) {
  return timeElement(seconds, "left");
}

// Let an element of this file show another time.
export function setTime(element, seconds) {
  element.dataset.seconds = seconds;
  element.dateTime = new Date(seconds * 1000).toISOString();
  element.title = exactTime(seconds);
  update(element);
}

function timeElement(seconds, direction) {
  const element = h("time", { "data-direction": direction });
  setTime(element, seconds);
  return element;
}

function update(element) {
  const seconds = Number(element.dataset.seconds);
  const left = seconds - Date.now() / 1000;
  const text = element.dataset.direction === "ago" ? ago(seconds) : left > 0 ? `in ${duration(left)}` : "now";
  if (element.textContent !== text) element.textContent = text;
}

setInterval(() => document.querySelectorAll("time[data-seconds]").forEach(update), UPDATE_MS);
