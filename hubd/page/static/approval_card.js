// One approval that waits: what a tool wants to do, and the answers that a person may give.

import { alwaysForm } from "./approval/always_form.js";
import { editForm } from "./approval/edit_form.js";
import { fill, h } from "./dom.js";
import { questionFields, questionsOf } from "./approval/question_form.js";
import { errorText, oneLine, visible } from "./text.js";
import { timeAgo, timeLeft } from "./times.js";
import { callView, verb } from "./approval/tool_call.js";

// Who is asked beside the person at this page.
const ASKED = {
  parent: "the agent that started the session is asked too",
  parent_then_human: "the agent that started the session was asked, and now people",
};

// Return a card that answers an approval. Its keys are y, n, e and a. `approvals` is the store of
// approvals.js, which reports when the approval is answered; the card itself stays as it is.
export function approvalCard(approval, approvals) {
  const questions = questionsOf(approval);
  const isPlan = approval.tool_name === "ExitPlanMode";
  const body = h("div", { class: "approval-body" });
  const formPlace = h("div", {});
  const problem = h("div", { role: "alert" });
  const title = `approval-${approval.id}`;
  const card = h("article", {
    class: "card approval",
    tabindex: "-1",
    "aria-labelledby": title,
    "data-id": approval.id,
  });

  // Answer, after the steps of `before`. Buttons can't be pressed twice meanwhile.
  async function answer(params, before = async () => {}) {
    if (card.ariaBusy === "true") return;
    card.ariaBusy = "true";
    fill(problem);
    try {
      await before();
      await approvals.respond(approval, params);
    } catch (error) {
      fill(problem, h("p", { class: "problem" }, errorText(error)));
    } finally {
      card.ariaBusy = "false";
    }
  }

  // Show one of the forms below the buttons; the same button hides it again.
  function toggle(button, make) {
    const isOpen = button.ariaExpanded === "true";
    for (const other of card.querySelectorAll("[aria-expanded]")) other.ariaExpanded = "false";
    fill(formPlace);
    if (isOpen) return;
    button.ariaExpanded = "true";
    const form = make();
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      toggle(button, make);
      button.focus();
    });
    fill(formPlace, form);
    form.querySelector("textarea, input")?.focus();
  }

  const { fields, answers } = questionFields(questions);
  const allow = () => {
    if (!questions.length) return answer({ approve: true });
    const given = answers();
    if (given) return answer({ approve: true, answers: given });
    return fill(problem, h("p", { class: "problem" }, "Choose or write an answer to each question."));
  };
  const words = questions.length
    ? ["Answer", "Don't answer"]
    : isPlan
      ? ["Start", "Keep planning"]
      : ["Allow", "Deny"];
  const buttons = [
    action("y", words[0], { class: "first" }, allow),
    action("n", `${words[1]} …`, { class: "danger", "aria-expanded": "false" }, (button) =>
      toggle(button, () => denyForm(words[1], answer)),
    ),
  ];
  if (!questions.length && !isPlan) {
    buttons.push(
      action("e", "Edit …", { "aria-expanded": "false" }, (button) =>
        toggle(button, () => editForm(approval, answer)),
      ),
      action("a", "Always allow …", { "aria-expanded": "false" }, (button) =>
        toggle(button, () => alwaysForm(approval, approvals.hub, answer)),
      ),
    );
  }
  card.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("textarea, input, select");
    // A key that is held down must not answer the next card too, nor one that has just moved here.
    if (isTyping || event.repeat || event.ctrlKey || event.metaKey || event.altKey || "arriving" in card.dataset)
      return;
    const button = buttons.find(({ dataset }) => dataset.key === event.key);
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  const showBody = () =>
    fill(body, questions.length ? fields : callView(approval.input, hubQuestion(approval, approvals)));
  // The comparison with the present file arrives a moment after the approval.
  if (typeof approval.input.content === "string" && !approvals.questions.has(approval.id)) {
    const arrived = new AbortController();
    const listener = ({ detail }) => {
      if (detail !== approval.id) return;
      arrived.abort();
      showBody();
    };
    approvals.addEventListener("question", listener, { signal: arrived.signal });
  }
  showBody();
  return fill(
    card,
    h(
      "h2",
      { id: title },
      visible(approval.tool_name),
      h("span", { class: "dim" }, ` ${verb(approval.tool_name)}`),
    ),
    origin(approval),
    body,
    !questions.length && wholeInput(approval.input),
    h("div", { class: "row actions" }, buttons),
    formPlace,
    problem,
  );
}

function action(key, text, props, run) {
  const button = h(
    "button",
    { type: "button", "data-key": key, "aria-keyshortcuts": key, ...props },
    text,
    h("kbd", { "aria-hidden": "true" }, key),
  );
  button.addEventListener("click", () => run(button));
  return button;
}

// Return the hub's words about an approval. The names in their first line could imitate other lines.
function hubQuestion(approval, { questions }) {
  const names = [approval.tool_name, approval.session_name, approval.working_dir, approval.agent_id];
  return names.some((name) => name?.includes("\n")) ? "" : questions.get(approval.id);
}

// Return the line about the session, the directory and the times of an approval.
function origin(approval) {
  const { session_name: name, working_dir: directory, agent_id: agent, approver } = approval;
  return h(
    "p",
    { class: "dim origin" },
    name && h("span", {}, "session ", h("a", { href: `#/session/${encodeURIComponent(name)}` }, oneLine(name, 80))),
    agent && h("span", {}, `subagent ${oneLine(agent, 40)}`),
    directory && h("span", { class: "mono" }, visible(directory)),
    h("span", {}, "asked ", timeAgo(approval.created_at)),
    approval.deadline_at && h("span", {}, "deadline ", timeLeft(approval.deadline_at)),
    Object.hasOwn(ASKED, approver ?? "") && h("span", {}, ASKED[approver]),
  );
}

function wholeInput(input) {
  const details = h("details", {}, h("summary", {}, "Whole input"));
  details.addEventListener(
    "toggle",
    () => details.append(h("pre", { tabindex: "0" }, visible(JSON.stringify(input, null, 2)))),
    { once: true },
  );
  return details;
}

function denyForm(text, answer) {
  const message = h("input", {
    type: "text",
    "aria-label": "Message to the agent",
    placeholder: "Message to the agent (optional)",
  });
  const form = h("form", { class: "row deny" }, message, h("button", { type: "submit", class: "danger" }, text));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer({ approve: false, message: message.value.trim() || null });
  });
  return form;
}
