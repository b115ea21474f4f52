// Return what hinders people who use a keyboard, a screen reader, a phone or weak eyes in the page that
// is shown: a list of texts.
() => {
  const problems = [];
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const name = (element) => {
    const words = element.textContent.trim().slice(0, 40) || element.getAttribute("aria-label") || element.id;
    return `${element.localName}.${element.className} “${words}”`;
  };
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(isShown);

  // The parts of the page.
  for (const [selector, count] of [["h1", 1], ["main", 1], ["nav[aria-label]", null], ["header.bar", 1]]) {
    const found = shown(selector).length;
    if (count === null ? found < 1 : found !== count) problems.push(`${found} elements ${selector}`);
  }
  let level = 0;
  for (const heading of shown("h1, h2, h3, h4, h5, h6")) {
    const next = Number(heading.localName[1]);
    // Headings of a model's text begin at the third level.
    if (next > level + 1 && !heading.closest(".markdown")) problems.push(`the heading skips a level: ${name(heading)}`);
    level = next;
  }
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) problems.push(`two elements ${id}`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "for", "list"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) problems.push(`${attribute} of ${name(element)} leads nowhere`);
      }
    }
  }
  for (const element of [document.documentElement, document.querySelector("main")]) {
    if (element.scrollWidth > element.clientWidth) problems.push(`${element.localName} scrolls sideways`);
  }

  // Contrast of texts.
  const numbers = (colour) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return { parts: [red, green, blue], alpha: alpha / 255 };
  };
  const over = (top, below) => top.parts.map((part, index) => part * top.alpha + below[index] * (1 - top.alpha));
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    const own = numbers(getComputedStyle(element).backgroundColor);
    return own.alpha === 1 ? own.parts : over(own, ground(element.parentElement));
  };
  const light = (parts) => {
    const [red, green, blue] = parts.map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const seen = new Set();
  for (const element of shown("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!hasText || element.matches(":disabled, .for-readers, .unseen")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const key = `${style.color} ${below}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const ratio = contrast(over(numbers(style.color), below), below);
    if (ratio < 4.5) problems.push(`contrast ${ratio.toFixed(1)} of ${name(element)}`);
  }

  // Targets for fingers. Links in a sentence and small buttons beside a text may be smaller.
  const least = innerWidth <= 640 ? 44 : 24;
  for (const element of shown("button:not(.small), .button, #pages a, input:enabled, select, textarea")) {
    const box = element.matches("input[type=checkbox], input[type=radio]") ? element.closest("label, .param") ?? element : element;
    const { width, height } = box.getBoundingClientRect();
    if (height < least - 0.5 || width < 24) problems.push(`${Math.round(width)} × ${Math.round(height)} px: ${name(element)}`);
  }
  return problems;
}
