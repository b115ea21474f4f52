"""The methods about rules, and their storage."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Conflict, InvalidParams, NotFound
from hubd.errors import Ambiguous
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.loopback import rule_store
from hubd.plugins.loopback.plugin import Loopback
from hubd.plugins.loopback.rules.rule import NewRule
from hubd.storage.database import Database, Tx
from hubd.testing import InProcessHub, hub

NOW = 1_700_000_000


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[InProcessHub]:
    async with hub(Loopback(), ClaudeCode(), path=tmp_path / "hub.db") as started:
        yield started


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with hub(Loopback(), path=tmp_path / "hub.db") as started:
        yield started.database


async def add(running: InProcessHub, effect: str, tool: str, **others: Any) -> dict[str, Any]:
    added = await running.call_one("loopback.rules_add", effect=effect, tool=tool, **others)
    assert added.pop("type") == "rule_added"
    return added


async def guidance(running: InProcessHub, method: str, **params: Any) -> list[str]:
    items = [item async for item in running.items(method, **params)]
    return [item["suggestion"] for item in items if item["type"] == "guidance"]


async def test_a_rule_is_added_listed_used_in_a_test_and_removed(running: InProcessHub) -> None:
    rule = await add(running, "allow", "Bash", pattern="git *")
    other = await add(running, "deny", "Bash", pattern="rm *", uses=2, expires_secs=60)
    listed = await running.call_one("loopback.rules_list")
    assert listed["rules"] == [other, rule]
    assert other["uses_left"] == 2
    assert other["expires_at"] == other["created_at"] + 60
    test = await running.call_one("loopback.rules_test", tool="Bash", value="git log; git diff")
    assert (test["effect"], test["rules"]) == ("allow", [rule["id"]])
    assert test["commands"] == ["git log", "git diff"]
    removed = await running.call_one("loopback.rules_remove", rule_id=rule["id"][:8])
    assert removed == {"type": "rule_removed", **rule}
    test = await running.call_one("loopback.rules_test", tool="Bash", value="git log")
    assert test["effect"] == "ask"
    with pytest.raises(NotFound):
        await running.call_one("loopback.rules_remove", rule_id=rule["id"])


async def test_the_same_rule_is_stored_once(running: InProcessHub) -> None:
    first = await add(running, "allow", "Bash", pattern="git *")
    assert await add(running, "allow", "Bash", pattern="git *") == first
    assert await add(running, "allow", "Bash", pattern="git *", uses=1) != first


@pytest.mark.parametrize(
    ("params", "fix"),
    [
        ({"scope": "everywhere"}, "Write global, dir:PATH or session:NAME"),
        ({"scope": "dir:"}, "Write global, dir:PATH or session:NAME"),
        ({"pattern": ""}, "rules-test"),
        ({"pattern": "git | sh"}, "rules-test"),
        ({"uses": 0}, ""),
        ({"expires_secs": 0}, ""),
        ({"effect": "maybe"}, ""),
        ({"tool": ""}, ""),
        ({"tool": "Bash(git *)"}, "rules-test"),
    ],
)
async def test_invalid_rules_are_refused(
    running: InProcessHub, params: dict[str, Any], fix: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        await running.call_one(
            "loopback.rules_add", **{"effect": "allow", "tool": "Bash", **params}
        )
    assert fix in caught.value.suggestion


async def test_a_rule_that_allows_everything_is_explained(running: InProcessHub) -> None:
    [text] = await guidance(running, "loopback.rules_add", effect="allow", tool="*")
    assert "every call of every tool" in text
    [text] = await guidance(running, "loopback.rules_add", effect="allow", tool="Bash")
    assert "every shell command" in text
    for params in [{"effect": "deny", "tool": "*"}, {"effect": "allow", "tool": "Read"}]:
        assert await guidance(running, "loopback.rules_add", **params) == []


async def test_scopes_and_paths_are_resolved_when_a_rule_is_added(
    running: InProcessHub, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    there = running.calling(cwd=str(tmp_path))
    rule = await there.call_one(
        "loopback.rules_add", effect="allow", tool="Bash", scope="dir:link", pattern="make"
    )
    assert rule["scope"] == f"dir:{os.path.realpath(tmp_path / 'real')}"
    test = {"tool": "Bash", "value": "make"}
    assert (await there.call_one("loopback.rules_test", **test))["effect"] == "ask"
    assert (await there.call_one("loopback.rules_test", **test, cwd="real"))["effect"] == "allow"
    await add(running, "allow", "Read", pattern=f"{tmp_path}/link/*")
    reading = await there.call_one("loopback.rules_test", tool="Read", value="real/x")
    assert reading["effect"] == "allow"


async def test_a_test_for_a_session_uses_its_name_its_id_and_its_directory(
    running: InProcessHub, tmp_path: Path
) -> None:
    created = await running.call_one("claudecode.create", name="s", working_dir=str(tmp_path))
    await add(running, "allow", "Bash", pattern="a", scope="session:s")
    await add(running, "allow", "Bash", pattern="b", scope=f"session:{created['id']}")
    await add(running, "allow", "Bash", pattern="c", scope=f"dir:{tmp_path}")
    for command in "abc":
        for session in ("s", created["id"]):
            test = await running.call_one(
                "loopback.rules_test", tool="Bash", value=command, session=session
            )
            assert test["effect"] == "allow", (command, session)
        test = await running.call_one("loopback.rules_test", tool="Bash", value=command)
        assert test["effect"] == "ask"
    [text] = await guidance(
        running, "loopback.rules_test", tool="Bash", value="a", session="unknown"
    )
    assert "no session 'unknown'" in text


async def test_a_test_of_a_tool_without_a_principal_field_needs_the_input(
    running: InProcessHub,
) -> None:
    await add(running, "allow", "mcp__x__y", pattern="q=a*")
    with pytest.raises(InvalidParams):
        await running.call_one("loopback.rules_test", tool="mcp__x__y", value="a")
    test = await running.call_one("loopback.rules_test", tool="mcp__x__y", input={"q": "ab"})
    assert test["effect"] == "allow"
    for tool in ("Read", "NotebookEdit", "WebFetch"):
        await add(running, "allow", tool, pattern="*")
        value = "https://a.org/" if tool == "WebFetch" else "x"
        test = await running.call_one("loopback.rules_test", tool=tool, value=value)
        assert test["effect"] == "allow", tool


async def test_a_last_use_is_used_by_one_of_two_calls(db: Database) -> None:
    rule = await db.transaction(
        lambda tx: rule_store.add(tx, NewRule("allow", "Bash", uses_left=1), NOW)
    )
    used = await asyncio.gather(
        *(db.transaction(lambda tx: rule_store.use(tx, rule.id, NOW)) for _ in range(2))
    )
    assert sorted(used) == [False, True]
    assert await rule_store.page(db, 2**62, 10, NOW) == []
    assert await db.transaction(lambda tx: rule_store.usable(tx, NOW)) == []
    assert [kept.uses_left for kept in await rule_store.all_rules(db)] == [0]


async def test_expired_rules_are_not_used_and_removed_by_the_next_one(db: Database) -> None:
    new = NewRule("allow", "Bash", expires_at=NOW + 10)
    rule = await db.transaction(lambda tx: rule_store.add(tx, new, NOW))

    def outcome(tx: Tx, now: int) -> tuple[int, bool]:
        return len(rule_store.usable(tx, now)), rule_store.use(tx, rule.id, now)

    assert await db.transaction(lambda tx: outcome(tx, NOW + 9)) == (1, True)
    assert await db.transaction(lambda tx: outcome(tx, NOW + 10)) == (0, False)
    assert len(await rule_store.all_rules(db)) == 1
    await db.transaction(lambda tx: rule_store.add(tx, NewRule("deny", "Bash"), NOW + 10))
    assert [kept.effect for kept in await rule_store.all_rules(db)] == ["deny"]


async def test_a_removed_rule_is_not_used(db: Database) -> None:
    rule = await db.transaction(lambda tx: rule_store.add(tx, NewRule("allow", "Bash"), NOW))
    await db.transaction(lambda tx: rule_store.remove(tx, rule.id.hex()))
    assert not await db.transaction(lambda tx: rule_store.use(tx, rule.id, NOW))


async def test_an_ambiguous_prefix_is_refused(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(2))
    monkeypatch.setattr("hubd.storage.ids.uuid4", lambda: b"same" * 3 + next(numbers).to_bytes(4))
    for tool in ("A", "B"):
        await db.transaction(lambda tx, tool=tool: rule_store.add(tx, NewRule("deny", tool), NOW))  # type: ignore[misc]
    with pytest.raises(Ambiguous):
        await db.transaction(lambda tx: rule_store.remove(tx, b"same".hex()))
    for written in ("", "zz", "73616d6"):
        with pytest.raises(NotFound):
            await db.transaction(lambda tx, written=written: rule_store.remove(tx, written))  # type: ignore[misc]


async def test_the_number_of_rules_is_limited_and_the_list_is_paged(
    running: InProcessHub,
) -> None:
    def fill(tx: Tx) -> None:
        for number in range(rule_store.MAX_RULES):
            rule_store.add(tx, NewRule("deny", f"T{number}"), NOW)

    await running.database.transaction(fill)
    pages = [page async for page in running.call("loopback.rules_list", limit=250)]
    assert [len(page["rules"]) for page in pages] == [100, 100, 50]
    assert pages[0]["rules"][0]["tool"] == f"T{rule_store.MAX_RULES - 1}"
    with pytest.raises(Conflict):
        await add(running, "deny", "One")


async def test_rules_can_be_tried_before_they_are_stored(running: InProcessHub) -> None:
    async def test(*patterns: str, **params: object) -> dict[str, Any]:
        call = {"tool": "Bash", "value": "git log | wc -l", "allow": list(patterns), **params}
        return dict(await running.call_one("loopback.rules_test", **call))

    assert (await test("git *"))["effect"] == "ask"
    both = await test("git *", "wc *")
    assert both["effect"] == "allow"
    assert both["rules"] == []
    assert both["explanation"] == [
        "Rule to try (allow Bash git *) matches `git log`.",
        "Rule to try (allow Bash wc *) matches `wc -l`.",
    ]
    assert (await test("git *", "wc *", scope="session:other"))["effect"] == "ask"
    with pytest.raises(InvalidParams, match="empty"):
        await test(" ")
    assert (await running.call_one("loopback.rules_list"))["rules"] == []
