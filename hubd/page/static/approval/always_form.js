// The form that allows a call for ever: exactly this one, or all that match a pattern.

import { fill, h } from "../dom.js";
import { suggestedPatterns } from "./rule_patterns.js";
import { errorText, visible } from "../text.js";

const TEST_AFTER_MS = 250;

// Return the form. `answer(params)` answers the approval, after the rules are stored.
export function alwaysForm(approval, hub, answer) {
  const choices = {
    session: choice("session", "Exactly this call, in this session", true),
    always: choice("always", "Exactly this call, in all sessions"),
    pattern: choice("pattern", "Every call that matches a pattern"),
  };
  const patterns = h("textarea", { rows: 2, spellcheck: "false", "aria-label": "Patterns, one a line" });
  const scope = h("select", { "aria-label": "Sessions" }, scopesOf(approval));
  const verdict = h("div", { role: "status", class: "verdict" });
  const details = h(
    "div",
    { class: "pattern", hidden: true },
    h(
      "p",
      { class: "hint" },
      "One pattern a line: ",
      h("code", {}, "git log *"),
      " is any words after it, ",
      h("code", {}, "field=GLOB"),
      " is another field.",
    ),
    patterns,
    scope,
    verdict,
  );
  const submit = h("button", { type: "submit", class: "first" }, "Allow always");
  const form = h(
    "form",
    { class: "always" },
    Object.values(choices).map(({ element }) => element),
    details,
    h("div", { class: "row" }, submit),
  );

  const lines = () =>
    patterns.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  const call = {
    tool: approval.tool_name,
    input: approval.input,
    session: approval.session_id,
    cwd: approval.working_dir,
  };
  const test = (allow) => hub.one("loopback.rules_test", { ...call, allow, scope: scope.value });

  let timer = 0;
  let tests = 0;
  async function show() {
    const number = (tests += 1);
    if (!lines().length) {
      fill(verdict, h("p", { class: "dim" }, "Write a pattern."));
      return false;
    }
    try {
      const { effect, explanation } = await test(lines());
      if (number !== tests) return false;
      const isAllowed = effect === "allow";
      const words = isAllowed ? "✓ These patterns allow this call." : "✗ These patterns don't allow this call.";
      fill(
        verdict,
        h("p", { class: isAllowed ? "good" : "bad" }, words),
        reasons(explanation),
      );
      return isAllowed;
    } catch (error) {
      if (number === tests) fill(verdict, h("p", { class: "bad" }, errorText(error)));
      return false;
    }
  }
  const showSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(show, TEST_AFTER_MS);
  };
  patterns.addEventListener("input", showSoon);
  scope.addEventListener("change", showSoon);

  async function suggest() {
    const { commands } = await test([]);
    const first = suggestedPatterns(approval.tool_name, approval.input, commands);
    if (!first.length) {
      // A command that can't be split fits no pattern, and the explanation names the part that is unclear.
      const { explanation } = await test(["*"]);
      fill(verdict, h("p", { class: "bad" }, "No pattern fits this call. Allow exactly this call instead."), reasons(explanation));
      return;
    }
    const { effect } = await test(first);
    // A wide pattern may not cover options. Then the commands themselves are a start.
    if (!patterns.value) patterns.value = (effect === "allow" || !commands.length ? first : commands).join("\n");
    await show();
  }
  form.addEventListener("change", () => {
    const isPattern = choices.pattern.input.checked;
    details.hidden = !isPattern;
    if (isPattern && !patterns.value) suggest().catch(() => {});
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = Object.values(choices).find(({ input }) => input.checked).input.value;
    if (chosen !== "pattern") {
      await answer({ approve: true, remember: chosen });
      return;
    }
    if (!(await show())) return;
    await answer({ approve: true }, async () => {
      for (const pattern of lines()) {
        await hub.one("loopback.rules_add", {
          effect: "allow",
          tool: approval.tool_name,
          pattern,
          scope: scope.value,
        });
      }
    });
  });
  return form;

  function choice(value, text, checked = false) {
    const input = h("input", { type: "radio", name: `always-${approval.id}`, value, checked });
    return { input, element: h("label", { class: "choice" }, input, h("span", {}, text)) };
  }
}

function reasons(lines) {
  return h(
    "ul",
    { class: "hint" },
    lines.map((line) => h("li", {}, visible(line))),
  );
}

function scopesOf({ working_dir: directory, session_id: session, session_name: name }) {
  return [
    directory && h("option", { value: `dir:${directory}` }, `Sessions in ${visible(directory)} and below`),
    session && h("option", { value: `session:${session}` }, `Only session ${visible(name ?? session)}`),
    h("option", { value: "global" }, "All sessions"),
  ];
}
