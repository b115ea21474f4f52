"""Decide a tool call by rules: the most restrictive matching rule wins, and no rule means ask."""

from collections.abc import Sequence

from hubd.plugins.loopback.rules import globs, matching, patterns, scopes
from hubd.plugins.loopback.rules.matching import Match
from hubd.plugins.loopback.rules.rule import Decision, Rule, ToolCall
from hubd.plugins.loopback.rules.shell import changes_directory
from hubd.plugins.loopback.rules.subject import Subject, prepare
from hubd.wire.text import shorten

# The longest text of a command in an explanation.
_SHOWN = 200


def decide(call: ToolCall | Subject, rules: Sequence[Rule], now: int) -> Decision:
    """Decide a call.

    Args:
        call: The call. A prepared one makes this function pure: it reads no files.
        rules: All rules, in any order.
        now: The Unix time in seconds.
    """
    subject = call if isinstance(call, Subject) else prepare(call)
    return _Deciding(subject, now).decide(rules)


class _Deciding:
    """The state of one decision."""

    def __init__(self, subject: Subject, now: int) -> None:
        self.subject = subject
        self.now = now
        self.notes: list[str] = []

    def decide(self, rules: Sequence[Rule]) -> Decision:
        applicable = [rule for rule in _preferred(rules) if self._applies(rule)]
        if not applicable:
            self.notes.append("No rule applies, so an approver is asked.")
            return Decision("ask", (), self.notes)
        split = self.subject.split
        if split is not None and split.doubt is not None:
            self.notes.append(f"The command can't be split with certainty: {split.doubt}.")
        unsure: list[Rule] = []
        for effect in ("deny", "ask"):
            for rule in applicable:
                if rule.effect != effect:
                    continue
                match = matching.forbids(rule, self.subject)
                if match is Match.YES:
                    self.notes.append(f"{_label(rule)} matches.")
                    return Decision(rule.effect, (rule,), self.notes)
                if match is Match.UNSURE:
                    unsure.append(rule)
        allows = [rule for rule in applicable if rule.effect == "allow"]
        used = self._covering(allows, unsure)
        if used:
            return Decision("allow", used, self.notes)
        return Decision("ask", (), self.notes)

    def _applies(self, rule: Rule) -> bool:
        """Return whether a rule is usable for this call; note the reason if it isn't."""
        call = self.subject.call
        if not globs.matches(rule.tool, call.tool_name):
            return False
        if rule.expires_at is not None and rule.expires_at <= self.now:
            self.notes.append(f"{_label(rule)} is expired.")
        elif rule.uses_left is not None and rule.uses_left <= 0:
            self.notes.append(f"{_label(rule)} is used up.")
        elif not scopes.is_in_scope(rule.scope, rule.effect, call, self.subject.directory):
            self.notes.append(f"{_label(rule)} is for another scope, {rule.scope}.")
        else:
            return True
        return False

    def _covering(self, allows: list[Rule], unsure: list[Rule]) -> tuple[Rule, ...]:
        """Return the allow rules that together cover the call; none if they don't."""
        reasons: list[str] = []
        for rule in allows:
            refusal = matching.covers_call(rule, self.subject)
            if refusal is None:
                if unsure and not _is_exact(rule):
                    reasons.append(
                        f"{_label(rule)} matches, but {unsure[0]} might forbid the call, which "
                        "can't be read with certainty."
                    )
                    continue
                self.notes.append(f"{_label(rule)} matches.")
                return (rule,)
            if refusal.reason:
                reasons.append(f"{_label(rule)} does not match: {refusal.reason}.")
        split = self.subject.split
        is_split = split is not None and split.doubt is None
        if is_split and not unsure and not self.subject.leaves_sandbox:
            return self._covering_each(allows)
        self.notes += reasons or (["No allow rule matches."] if allows else [])
        return ()

    def _covering_each(self, allows: list[Rule]) -> tuple[Rule, ...]:
        """Return the allow rules that cover every simple command; none if one is left."""
        assert self.subject.split is not None
        used: list[Rule] = []
        moved = False
        is_covered = True
        for command in self.subject.split.commands:
            text = f"`{shorten(str(command), _SHOWN)}`"
            reasons: list[str] = []
            for rule in allows:
                refusal = matching.covers_command(rule, command, self.subject.kind, moved=moved)
                if refusal is None:
                    self.notes.append(f"{_label(rule)} matches {text}.")
                    used.append(rule)
                    break
                if refusal.reason:
                    reasons.append(f"{_label(rule)} does not match {text}: {refusal.reason}.")
            else:
                is_covered = False
                self.notes += reasons or [f"No allow rule matches {text}."]
            moved = moved or changes_directory(command)
        return tuple(dict.fromkeys(used)) if is_covered else ()


def _preferred(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules without a limit first, so that limited uses are kept; newest first."""
    return sorted(rules, key=lambda rule: (rule.uses_left is not None, -rule.key))


def _is_exact(rule: Rule) -> bool:
    """Return whether a rule allows only one text, which a person has seen."""
    if rule.pattern is None:
        return False
    pattern = patterns.read(rule.pattern)
    return pattern.field is not None and globs.literal(pattern.glob) is not None


def _label(rule: Rule) -> str:
    return f"R{str(rule)[1:]}"
