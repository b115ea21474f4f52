"""`plexus.search` finds the texts of chats: messages, thinking, tool calls, results and names."""

from pathlib import Path
from typing import Any

import pytest

from hubd.storage.search import service
from tests.plugins.claudecode.chat_support import World, run, say, think, world


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    # A search then sees every commit before it, on a slow machine too.
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)


async def hits(here: World, query: str, **filters: Any) -> list[tuple[str, str | None, str | None]]:
    """Return the kinds, roles and tools of the hits, sorted. Every handle resolves."""
    events = await here.call("plexus.search", query=query, **filters)
    for event in events:
        [resolved] = await here.call("plexus.resolve_handle", handle=event["handle"])
        assert (resolved["kind"], event["session"]) == (event["kind"], "zoo trip")
    return sorted((each["kind"], each["role"], each["tool"]) for each in events)


async def test_every_text_of_a_chat_is_found_by_filters_until_its_session_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, "offline") as here:
        steps = (think("maybe a zebra"), run("printf 'ze%s' bra"), say("the zebra sleeps"))
        await here.chat(*steps, name="zoo trip", allowed_tools=["Bash"])
        [session] = await here.call("get", name="zoo trip")
        session_id = session["session"]["id"] if "session" in session else session["id"]

        question = ("message", "user", None)
        answer = ("message", "assistant", None)
        thought = ("block", "assistant", None)
        call, result = ("block", "assistant", "Bash"), ("output", "user", "Bash")
        everything = sorted((question, answer, thought, result))
        assert await hits(here, "zebra") == everything
        assert await hits(here, "zoo trip") == [("session", None, None)]
        assert await hits(here, "printf", tool="Bash") == [call]
        for filters, expected in (
            ({"session": "zoo trip"}, everything),
            ({"session": session_id}, everything),
            ({"session": session_id[:8]}, everything),
            ({"session": "another"}, []),
            ({"role": "user"}, [question, result]),
            ({"tool": "Bash"}, [result]),
            ({"kind": "message"}, sorted((question, answer))),
            ({"kind": "message", "role": "assistant"}, [answer]),
            ({"since": "1d"}, everything),
            ({"until": "1d"}, []),
        ):
            assert await hits(here, "zebra", **filters) == expected, filters

        await here.one("delete", name="zoo trip")
        assert await here.call("plexus.search", query="zebra") == []
        assert await here.call("plexus.search", query="zoo") == []
