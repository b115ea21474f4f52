"""Rules: add, list, remove and test them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from hubd.activation import InvalidParams, NotFound, method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit, limited
from hubd.activation.params import IdPrefix
from hubd.errors import ActivationNotFound
from hubd.plugins.claudecode.approvals import actors
from hubd.plugins.loopback import events, rule_store
from hubd.plugins.loopback.methods.base import LoopbackBase
from hubd.plugins.loopback.rules import decide, globs, paths, patterns, scopes, words
from hubd.plugins.loopback.rules import subject as subjects
from hubd.plugins.loopback.rules.rule import MAX_PATTERN, Effect, NewRule, Rule, ToolCall
from hubd.storage import ids

Tool = Annotated[str, Field(min_length=1, max_length=200, examples=["Bash"])]
PatternText = Annotated[str, Field(max_length=MAX_PATTERN, examples=["git *"])]
NewPatterns = Annotated[list[PatternText], Field(max_length=100, examples=[["git *"]])]
Scope = Annotated[str, Field(min_length=1, max_length=4096, examples=["global"])]
Seconds = Annotated[int, Field(ge=1, le=10 * 366 * 86400, examples=[3600])]
Uses = Annotated[int, Field(ge=1, le=1_000_000, examples=[1])]
Value = Annotated[str, Field(examples=["git log"])]

# More than any key.
_LAST_KEY: Final = 2**62
SCOPE_HINT: Final = "Write global, dir:PATH or session:NAME"
PATTERN_HINT: Final = "Try patterns with `synapse loopback rules-test`"


class Rules(LoopbackBase):
    """Methods about rules."""

    @method(needs_context=True)
    async def rules_add(
        self,
        effect: Effect,
        tool: Tool,
        pattern: PatternText | None = None,
        scope: Scope = "global",
        expires_secs: Seconds | None = None,
        uses: Uses | None = None,
    ) -> events.RuleAdded:
        """Add a rule that allows, denies or asks about tool calls.

        Of all rules that match a call, the most restrictive decides: deny, then ask, then allow.

        Args:
            effect: The decision: `allow`, `deny` or `ask`.
            tool: The tool's name, or a glob such as `mcp__github__*`.
            pattern: A glob for the command, path or URL, or `field=GLOB` for another field; every
                call of the tool by default.
            scope: The sessions: `global`, `dir:PATH` for sessions in a directory or below it, or
                `session:NAME`.
            expires_secs: The time in seconds until the rule expires; never by default.
            uses: The number of calls that the rule decides; without limit by default.
        """
        actor = self.check_person()
        now = int(time.time())
        new = replace(
            await self._new_rule(effect, tool, pattern, scope),
            expires_at=None if expires_secs is None else now + expires_secs,
            uses_left=uses,
            added_by=actors.actor_text(actor),
        )
        rule = await self.db.transaction(lambda tx: rule_store.add(tx, new, now))
        await self._warn(rule)
        return events.RuleAdded(**dict(rule_info(rule)))

    @method(read_only=True, render="table")
    async def rules_list(self, limit: RowLimit | None = None) -> AsyncIterator[events.RuleList]:
        """List the rules, the newest first, in pages.

        Args:
            limit: The maximum number of rules; all by default.
        """
        async for page in limited(self._rule_pages(), limit):
            yield events.RuleList(rules=list(map(rule_info, page)))

    @method(destructive=True, completes={"rule_id": "loopback.rules_list"})
    async def rules_remove(self, rule_id: IdPrefix) -> events.RuleRemoved:
        """Remove a rule.

        Args:
            rule_id: The id of the rule, or its first 8 or more digits.
        """
        self.check_person()
        rule = await self.db.transaction(lambda tx: rule_store.remove(tx, rule_id))
        return events.RuleRemoved(**dict(rule_info(rule)))

    @method(read_only=True, needs_context=True, render="text", one_of=("input", "value"))
    async def rules_test(
        self,
        tool: Tool,
        value: Value | None = None,
        input: dict[str, Any] | None = None,
        session: str | None = None,
        cwd: str | None = None,
        allow: NewPatterns | None = None,
        scope: Scope = "global",
    ) -> events.RuleTested:
        """Explain how the rules decide a tool call. The call is not made, and no use is counted.

        Args:
            tool: The tool's name.
            value: The command, path or URL of the call.
            input: The whole input of the call, as a JSON object.
            session: The name or id of the session that makes the call; none by default.
            cwd: The session's working directory; by default the session's own, or the caller's.
            allow: Patterns of rules to try: the answer is as if they allowed calls of the tool.
                They are not stored.
            scope: The scope of these rules.
        """
        session_id, session_name, directory = await self._session(session)
        call = ToolCall(
            tool_name=tool,
            input=input if input is not None else _input(tool, value or ""),
            cwd=self._directory(cwd) if cwd or not directory else directory,
            session_id=session_id,
            session_name=session_name,
        )
        subject = await self.host.in_thread(subjects.prepare, call)
        rules = list(await rule_store.all_rules(self.db))
        for pattern in allow or ():
            new = await self._new_rule("allow", tool, pattern, scope)
            rules.append(Rule(**{**vars(new), "key": _LAST_KEY}))
        decision = await self.host.in_thread(decide.decide, subject, rules, int(time.time()))
        return events.RuleTested(
            effect=decision.effect,
            rules=[ids.text(rule.id) for rule in decision.rules if rule.is_stored],
            commands=[str(part) for part in subject.split.commands] if subject.split else [],
            explanation=decision.explanation,
            text="\n".join([decision.effect, *decision.explanation]),
        )

    async def _new_rule(
        self, effect: Effect, tool: str, pattern: str | None, scope: str
    ) -> NewRule:
        """Return a rule that is not stored, after a check of its parts."""
        try:
            patterns.check(effect, tool, pattern)
        except words.InvalidPatternError as error:
            raise InvalidParams(str(error), suggestion=PATTERN_HINT) from None
        return NewRule(
            effect=effect,
            tool=tool,
            pattern=pattern,
            scope=await self.host.in_thread(_scope, scope, self._directory(None)),
            resolved=await self.host.in_thread(_resolved, tool, pattern),
        )

    async def _rule_pages(self) -> AsyncIterator[list[Rule]]:
        before, now = _LAST_KEY, int(time.time())
        while page := await rule_store.page(self.db, before, ROWS_PER_ITEM, now):
            yield page
            before = page[-1].key

    def _directory(self, cwd: str | None) -> str:
        """Return a given directory as an absolute path; the caller's by default, or the home."""
        caller = Path(self.host.context.cwd or Path.home())
        return str(caller / Path(cwd).expanduser()) if cwd else str(caller)

    async def _session(self, name: str | None) -> tuple[str | None, str | None, str]:
        """Return the id, the name and the directory of a session; only the name if it is new."""
        if name is None:
            return None, None, ""
        try:
            data = await self.host.call_one("claudecode.get", name=name)
        except (NotFound, ActivationNotFound):
            await self.host.advise("session", f"There is no session '{name[:200]}' yet.")
            return None, name, ""
        session = data["session"]
        return session["id"], session["name"], session["working_dir"]

    async def _warn(self, rule: Rule) -> None:
        """Send guidance about a rule that allows more than it seems."""
        if rule.effect != "allow" or rule.pattern is not None:
            return
        if globs.literal(rule.tool) is None:
            await self.host.advise(
                "rule",
                f"This rule allows every call of every tool that matches '{rule.tool}', with any "
                "input, unless a deny or ask rule matches. Give a pattern to allow less",
            )
        elif patterns.kind_of(rule.tool) == "command":
            await self.host.advise(
                "rule",
                "This rule allows every shell command. Give a pattern, such as `git *`, to allow "
                "less",
            )


def rule_info(rule: Rule) -> events.RuleInfo:
    """Return a rule as clients see it."""
    return events.RuleInfo(
        id=ids.text(rule.id),
        effect=rule.effect,
        tool=rule.tool,
        pattern=rule.pattern,
        scope=rule.scope,
        expires_at=rule.expires_at,
        uses_left=rule.uses_left,
        created_at=rule.created_at,
    )


def _scope(scope: str, cwd: str) -> str:
    try:
        return scopes.normalized(scope, cwd)
    except scopes.InvalidScopeError as error:
        raise InvalidParams(str(error), suggestion=SCOPE_HINT) from None


def _resolved(tool: str, pattern: str | None) -> str | None:
    """Return the resolved form of a pattern that may be compared with paths."""
    if pattern is None:
        return None
    may_be_file_tool = globs.literal(tool) is None or patterns.kind_of(tool) == "path"
    parsed = patterns.read(pattern)
    is_path = parsed.field is None or parsed.field in patterns.PATH_FIELDS
    return paths.resolved_pattern(parsed.glob) if may_be_file_tool and is_path else None


def _input(tool: str, value: str) -> dict[str, Any]:
    """Return the input of a call that has only the principal field."""
    kind = patterns.kind_of(tool)
    if kind is None:
        raise InvalidParams(
            f"{tool} has no principal field, so `value` is not enough",
            suggestion='Give the whole input: --input \'{"field": "value"}\'',
        )
    name = "notebook_path" if tool.startswith("Notebook") else patterns.PRINCIPAL_FIELDS[kind][0]
    return {name: value}
