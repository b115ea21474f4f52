"""A rule, a tool call, and the decision about a call."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal

from hubd.wire.lazy_dataclass import dataclass

Effect = Literal["allow", "deny", "ask"]
# The calls that the rule of an answer is for: those of the session, or all.
Remember = Literal["session", "always"]
# Characters of the longest pattern. A longer value can't be remembered.
MAX_PATTERN: Final = 64 * 1024


@dataclass(frozen=True)
class ToolCall:
    """A tool call that an agent wants to make."""

    tool_name: str
    input: Mapping[str, Any]
    # The session's working directory; empty if it is not known.
    cwd: str = ""
    session_id: str | None = None
    session_name: str | None = None


@dataclass(frozen=True)
class NewRule:
    """A rule that is not stored yet. `patterns.py` describes `pattern`, `scopes.py` `scope`."""

    effect: Effect
    # A tool's name, or a glob.
    tool: str
    pattern: str | None = None
    scope: str = "global"
    # Unix time in seconds; None if the rule does not expire.
    expires_at: int | None = None
    # The number of calls that the rule still decides; None without a limit.
    uses_left: int | None = None
    # The pattern of a path with its directory resolved when the rule was added.
    resolved: str | None = None
    # The origin of the rule, such as an approval or a caller.
    added_by: str | None = None


@dataclass(frozen=True)
class Rule(NewRule):
    """A stored rule, or one that is tried before it is stored."""

    id: bytes = b""
    # The key of its row, which increases from rule to rule.
    key: int = 0
    created_at: int = 0

    @property
    def is_stored(self) -> bool:
        """Whether the rule is stored; others are only tried."""
        return bool(self.id)

    def __str__(self) -> str:
        """Return the rule in a few words, for explanations."""
        words = [self.effect, self.tool, *([self.pattern] if self.pattern else [])]
        name = self.id.hex()[:8] if self.is_stored else "to try"
        return f"rule {name} ({' '.join(words)})"


@dataclass(frozen=True)
class Decision:
    """The decision about a tool call."""

    effect: Effect
    # The rules that decided. All of them are used, so the caller counts a use of each.
    rules: tuple[Rule, ...] = ()
    # Plain sentences: the rules that matched, those that did not apply, and the reasons.
    explanation: list[str] = field(default_factory=list)

    @property
    def rule(self) -> Rule | None:
        """The first of the deciding rules; None if no rule decided."""
        return self.rules[0] if self.rules else None
