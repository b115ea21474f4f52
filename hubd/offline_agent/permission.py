"""Whether a tool may run: rules and modes. Whom to ask, and how, is in asking.py."""

import fnmatch
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import Line
from hubd.offline_agent.options import Options, UsageError

# What changes something; everything else may always run.
ASKED_FOR: Final = ("Bash", "Write")

MODES: Final = ("default", "manual", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan")

# A command with one of these is more than the command it starts with.
_COMPOUND: Final = re.compile(r"[;&|<>`\n]|\$\(")


class Verdict(NamedTuple):
    """Whether a call may run, and who said so, in the words of `tool_result_meta`."""

    behavior: str
    # What the agent is told when it may not.
    message: str = ""
    source: str = "config"
    reason_type: str | None = None
    # `non_execution_kind` of a refusal.
    kind: str = "permission-rule"
    # The tool is not there at all, or the question failed: no denial, but an error of the call.
    is_failure: bool = False
    # The whole turn ends with it.
    interrupts: bool = False
    # What to run instead of what was asked for.
    updated_input: Line | None = None

    def meta(self, tool_use_id: str) -> Line:
        """The entry of `tool_result_meta` for this call."""
        allowed = self.behavior == "allow"
        decision = {"decision": "accept" if allowed else "reject", "source": self.source}
        if self.reason_type:
            decision["reason_type"] = self.reason_type
        kind = {} if allowed else {"non_execution_kind": self.kind}
        return {"id": tool_use_id, **kind, "permission_decision": decision}


class Permissions:
    """The rules and the mode of one run; answers to questions may add to them."""

    def __init__(self, options: Options) -> None:
        settings = _settings(options.settings)
        # Change with `set_permission_mode`, and with what comes along with an answer.
        self.mode = options.permission_mode
        self._allow = [*_rules(options.allowed_tools), *_rules(settings.get("allow", ()))]
        self._deny = [*_rules(options.disallowed_tools), *_rules(settings.get("deny", ()))]
        self._ask = _rules(settings.get("ask", ()))

    def hides(self, tool: str) -> bool:
        """Whether a tool is taken away altogether."""
        return tool in self._deny

    def decide(self, call: Call) -> Verdict:
        """What the rules say: `allow`, `deny` or `ask`."""
        tool = call.tool
        if self.hides(tool):
            text = f"Error: No such tool available: {tool}. {tool} is disabled for this session."
            return Verdict("deny", text, is_failure=True)
        if any(_matches(rule, call) for rule in self._deny):
            what = f" with command {call.input['command']}" if tool == "Bash" else ""
            text = f"Permission to use {tool}{what} has been denied."
            return Verdict("deny", text, reason_type="rule")
        must_ask = any(_matches(rule, call) for rule in self._ask)
        if self.mode == "bypassPermissions" and not must_ask:
            return Verdict("allow", reason_type="mode")
        if not must_ask and any(_matches(rule, call, whole=True) for rule in self._allow):
            return Verdict("allow", reason_type="rule")
        if not must_ask and (tool not in ASKED_FOR or self._mode_allows(tool)):
            # A Task is allowed without a reason: what its agent does is asked for by itself.
            return Verdict("allow", reason_type=None if tool == "Task" else "mode")
        if self.mode == "dontAsk":
            text = f"Permission to use {tool} has been denied: the mode is don't ask."
            return Verdict("deny", text, reason_type="mode")
        if self.mode == "plan" and tool == "Bash":
            text = "Permission to use Bash has been denied: the mode is plan."
            return Verdict("deny", text, reason_type="mode")
        return Verdict("ask")

    def update(self, updates: Iterable[Line]) -> None:
        """Take over what an answer adds, for the rest of this run."""
        for update in updates:
            if update.get("type") == "setMode" and update.get("mode") in MODES:
                self.mode = update["mode"]
            elif update.get("type") == "addRules":
                lists = {"allow": self._allow, "deny": self._deny, "ask": self._ask}
                target = lists.get(update.get("behavior", ""), [])
                for rule in update.get("rules", ()):
                    content = rule.get("ruleContent")
                    target.append(f"{rule['toolName']}({content})" if content else rule["toolName"])

    def _mode_allows(self, tool: str) -> bool:
        return tool == "Write" and self.mode in ("acceptEdits", "auto")


def suggestions(call: Call) -> list[Line]:
    """What an answer could allow for good, as the question offers it."""
    if call.tool == "Write":
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rule = {"toolName": call.tool, "ruleContent": call.input.get("command", "")}
    return [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"},
    ]


def _matches(rule: str, call: Call, *, whole: bool = False) -> bool:
    """Whether a rule is about this call.

    Args:
        rule: `Tool`, `Tool(prefix:*)` or `Tool(pattern)`.
        call: What is to run.
        whole: The rule has to cover all that a command does, not only how it starts.
    """
    tool, _, rest = rule.partition("(")
    if tool != call.tool:
        return False
    pattern = rest.removesuffix(")")
    if not pattern or pattern == "*":
        return True
    subject = str(call.input.get("command", call.input.get("file_path", "")))
    if subject == pattern:
        return True
    if whole and call.tool == "Bash" and _COMPOUND.search(subject):
        return False
    if pattern.endswith(":*"):
        prefix = pattern.removesuffix(":*")
        return subject == prefix or subject.startswith(f"{prefix} ")
    return fnmatch.fnmatchcase(subject, pattern)


def _rules(values: Iterable[str]) -> list[str]:
    """The rules of a flag: several in one value are separated by commas or spaces.

    Inside of parentheses those belong to the rule. A parenthesis that is never closed takes the
    rest along, so that a rule which was written badly never allows more than it says.
    """
    rules: list[str] = []
    for value in values:
        depth, rule = 0, ""
        for character in f"{value},":
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth <= 0 and character in ", \n\t":
                rules += [rule] if rule else []
                rule = ""
            else:
                rule += character
        rules += [rule.removesuffix(",")] if rule else []
    return rules


def _settings(value: str) -> dict[str, list[str]]:
    """The permissions in --settings, which is JSON or the name of a file."""
    if not value:
        return {}
    try:
        text = value if value.lstrip().startswith("{") else Path(value).read_text()
        permissions: dict[str, list[str]] = json.loads(text).get("permissions", {})
    except (OSError, ValueError) as problem:
        raise UsageError(f"Error: Invalid settings: {problem}") from None
    return permissions
