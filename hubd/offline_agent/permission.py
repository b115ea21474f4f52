"""The rules and modes for tool calls. `approval.py` asks the questions."""

import fnmatch
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import INTERACTIVE, Line
from hubd.offline_agent.options import Options, UsageError

# Tools that change files; other tools may always run.
ASKED_FOR: Final = ("Bash", "Write")

# The exit status of a hook that refuses.
REFUSED: Final = 2

MODES: Final = ("default", "manual", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan")

# Characters of a command that contains other commands.
_COMPOUND: Final = re.compile(r"[;&|<>`\n]|\$\(")


class Verdict(NamedTuple):
    """The decision about a call, with the fields of `tool_result_meta`."""

    behavior: str
    # The reason of a denial.
    message: str = ""
    source: str = "config"
    reason_type: str | None = None
    # `non_execution_kind` of a refusal.
    kind: str = "permission-rule"
    # An error of the call instead of a denial: the tool does not exist, or the question failed.
    is_failure: bool = False
    # Whether the turn ends too.
    interrupts: bool = False
    # The input that replaces the original.
    updated_input: Line | None = None

    @property
    def was_asked(self) -> bool:
        """Whether an answer allowed the call, not a rule."""
        return self.source == "user_temporary"

    def meta(self, tool_use_id: str) -> Line:
        """Return the entry of `tool_result_meta` for a call."""
        allowed = self.behavior == "allow"
        decision = {"decision": "accept" if allowed else "reject", "source": self.source}
        if self.reason_type:
            decision["reason_type"] = self.reason_type
        kind = {} if allowed else {"non_execution_kind": self.kind}
        return {"id": tool_use_id, **kind, "permission_decision": decision}


class Permissions:
    """The rules and the mode of one run. Answers to questions can change them."""

    def __init__(self, options: Options) -> None:
        settings = _settings(options.settings)
        permissions = settings.get("permissions", {})
        # Changed by `set_permission_mode` and by answers.
        self.mode = options.permission_mode
        self._allow = [*_rules(options.allowed_tools), *_rules(permissions.get("allow", ()))]
        self._deny = [*_rules(options.disallowed_tools), *_rules(permissions.get("deny", ()))]
        self._ask = _rules(permissions.get("ask", ()))
        self._hooks = _prompt_hooks(settings)

    def hides(self, tool: str) -> bool:
        """Return whether a tool is disabled."""
        return tool in self._deny

    def decide(self, call: Call) -> Verdict:
        """Return the decision of the rules: `allow`, `deny` or `ask`."""
        tool = call.tool
        if self.hides(tool):
            text = f"Error: No such tool available: {tool}. {tool} is disabled for this session."
            return Verdict("deny", text, is_failure=True)
        if any(_matches(rule, call) for rule in self._deny):
            detail = f" with command {call.input['command']}" if tool == "Bash" else ""
            text = f"Permission to use {tool}{detail} has been denied."
            return Verdict("deny", text, reason_type="rule")
        must_ask = tool in INTERACTIVE or any(_matches(rule, call) for rule in self._ask)
        if self.mode == "bypassPermissions" and not must_ask:
            return Verdict("allow", reason_type="mode")
        if not must_ask and any(_matches(rule, call, whole=True) for rule in self._allow):
            return Verdict("allow", reason_type="rule")
        if not must_ask and (tool not in ASKED_FOR or self._mode_allows(tool)):
            # A Task needs no reason, because each call of its agent is decided separately.
            return Verdict("allow", reason_type=None if tool == "Task" else "mode")
        if self.mode == "dontAsk":
            text = f"Permission to use {tool} has been denied: the mode is don't ask."
            return Verdict("deny", text, reason_type="mode")
        if self.mode == "plan" and tool == "Bash":
            text = "Permission to use Bash has been denied: the mode is plan."
            return Verdict("deny", text, reason_type="mode")
        return Verdict("ask")

    def blocking_hook(self) -> str | None:
        """Run the hooks for a prompt. Return the output of one that refuses it."""
        if not self._hooks:
            return None
        # Most runs have no hooks.
        import subprocess

        for command in self._hooks:
            process = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, check=False
            )
            if process.returncode == REFUSED:
                output = process.stderr.strip() or "No stderr output"
                return f"[{command}]: {output}"
        return None

    def update(self, updates: Iterable[Line]) -> None:
        """Apply the changes of an answer, for the rest of the run."""
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
    """Return the permanent rules that a question offers."""
    if call.tool == "Write":
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rule = {"toolName": call.tool, "ruleContent": call.input.get("command", "")}
    return [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"},
    ]


def _matches(rule: str, call: Call, *, whole: bool = False) -> bool:
    """Return whether a rule matches a call.

    Args:
        rule: `Tool`, `Tool(prefix:*)` or `Tool(pattern)`.
        call: The call.
        whole: Whether the rule must cover a compound command completely.
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
    """Return the rules of a flag. Commas or spaces separate rules in one value.

    Inside parentheses they belong to the rule. An unclosed parenthesis includes the rest of the
    value, so that an invalid rule never allows too much.
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


def _settings(value: str) -> dict[str, Any]:
    """Return the object in --settings, which is JSON or the name of a file."""
    if not value:
        return {}
    try:
        text = value if value.lstrip().startswith("{") else Path(value).read_text()
        settings: dict[str, Any] = json.loads(text)
    except (OSError, ValueError) as problem:
        raise UsageError(f"Error: Invalid settings: {problem}") from None
    return settings


def _prompt_hooks(settings: dict[str, Any]) -> list[str]:
    """Return the commands that run before a prompt."""
    groups = settings.get("hooks", {}).get("UserPromptSubmit", ())
    hooks = [hook for group in groups for hook in group.get("hooks", ())]
    return [hook["command"] for hook in hooks if hook.get("type") == "command"]
