// A warning about characters that an input does not show, such as those of an address that fills it.

import { h } from "../dom.js";
import { visible } from "../text.js";

// Characters before and after the first hidden one.
const BEFORE = 40;
const AFTER = 160;

// Return a line for the place below an input. It shows the text around the first hidden character.
export function hiddenCharacters(input) {
  const line = h("p", { class: "warn", role: "status", hidden: true });
  const update = () => {
    const { value } = input;
    const shown = visible(value);
    line.hidden = shown === value;
    if (line.hidden) return;
    let place = 0;
    while (shown[place] === value[place]) place += 1;
    line.textContent = `⚠ Hidden characters: ${shown.slice(Math.max(0, place - BEFORE), place + AFTER)}`;
  };
  input.addEventListener("input", update);
  update();
  return line;
}
