// How an approval has ended, in words.

import { oneLine } from "../text.js";

// Return the outcome of an approval, such as "Allowed by a person". `isElsewhere` means that it was
// not answered in this window.
export function outcomeText({ tool_name: tool, status, by = "", message = "", updated_input: edited, isElsewhere = false }) {
  if (status === "timed_out") return "Denied at its deadline";
  const isAnswer = tool === "AskUserQuestion";
  const verbs = {
    approved: isAnswer ? "Answered" : "Allowed",
    denied: "Denied",
    withdrawn: "Withdrawn",
    lost: "Lost",
  };
  const verb = Object.hasOwn(verbs, status) ? verbs[status] : oneLine(status, 40);
  const isDecided = ["approved", "denied"].includes(status);
  const decider = isDecided && by ? ` by ${deciderText(by)}` : "";
  const place = isDecided && isElsewhere ? " elsewhere" : "";
  const change = edited && !isAnswer ? " with another input" : "";
  const words = message ? `: ${oneLine(message, 200)}` : "";
  return `${verb}${decider}${place}${change}${words}`;
}

function deciderText(by) {
  const [kind, id = ""] = by.split(":");
  const deciders = {
    person: "a person",
    client: "an MCP client",
    hub: "the hub",
    session: `the agent of session ${oneLine(id, 8)}`,
    rule: `rule ${oneLine(id.slice(0, 8))}`,
  };
  return Object.hasOwn(deciders, kind) ? deciders[kind] : oneLine(by, 60);
}
