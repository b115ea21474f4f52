"""`hubd.testing`: a hub in the test's own process."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hubd.activation import Activation, Event, InvalidParams, Option, Timeout, method
from hubd.errors import Cancelled, HandleTargetMissing
from hubd.testing import DECLINED, NO_ANSWER, InProcessHub, Question, hub
from tests.sample_plugins.notes import Notes
from tests.support import environment


class Text(Event):
    text: str


class Limits(BaseModel):
    most: int = 1


class Curious(Activation, namespace="curious", version="1.0.0"):
    """Asks its caller."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.produced = 0

    async def lifespan(self) -> AsyncIterator[None]:
        self.stages.append("started")
        yield
        self.stages.append("stopped")

    @method(bidirectional=True)
    async def ask(self) -> AsyncIterator[Text]:
        """Ask three questions."""
        yield Text(text=str(await self.host.confirm("Really?")))
        yield Text(text=await self.host.prompt("Name?"))
        options = [Option("a", "A"), Option("b", "B")]
        yield Text(text=",".join(await self.host.select("Which?", options, multi=True)))

    @method(bidirectional=True)
    async def default(self) -> Text:
        """Ask with a default."""
        return Text(text=await self.host.prompt("Name?", default="none"))

    @method
    async def where(self) -> Text:
        """Report the caller context."""
        return Text(text=f"{self.host.context.cwd} {self.host.context.env.get('LANG')}")

    @method
    async def limit(self) -> Text:
        """Report a setting."""
        return Text(text=str(self.settings(Limits).most))

    @method
    async def count(self) -> AsyncIterator[Text]:
        """Count without end."""
        try:
            while True:
                self.produced += 1
                yield Text(text=str(self.produced))
        finally:
            self.stages.append("count ended")

    @method
    async def wait(self) -> Text:
        """Wait without end."""
        await self.host.progress("waiting", 10)
        await asyncio.Event().wait()
        return Text(text="")


class Broken(Activation, namespace="broken", version="1.0.0"):
    """Cannot start."""

    async def lifespan(self) -> AsyncIterator[None]:
        raise RuntimeError("no licence")
        yield


async def texts(h: InProcessHub, path: str) -> list[str]:
    return [event["text"] async for event in h.call(path)]


async def test_a_call_returns_the_contents_of_the_events() -> None:
    async with hub(Notes()) as h:
        added = await h.call_one("notes.add", text="milk")
        [note] = [event async for event in h.call("notes.latest")]
        assert note == {"type": "note", "ref": added["ref"], "text": "milk"}
        resolved = await h.resolve(added["ref"])
        assert (resolved.kind, resolved.data, resolved.text) == ("document", note, "milk")


async def test_items_are_the_whole_stream() -> None:
    async with hub(Notes()) as h:
        items = [item async for item in h.items("notes.add", text="milk")]
        assert [item["type"] for item in items] == ["data", "done"]
        assert items[0]["metadata"]["provenance"] == ["plexus", "notes", "add"]
        failed = [item["type"] async for item in h.items("notes.add")]
        assert failed == ["guidance", "error", "done"]


async def test_a_failed_call_raises_its_typed_error() -> None:
    async with hub(Notes()) as h:
        with pytest.raises(InvalidParams, match="'text' is missing") as failed:
            await h.call_one("notes.add", txt="milk")
        assert failed.value.code == "invalid_params"
        assert "text" in failed.value.suggestion + str(failed.value.available)
        ref = (await h.call_one("notes.add", text="milk"))["ref"]
        await h.database.execute("DELETE FROM notes_note")
        with pytest.raises(HandleTargetMissing):
            await h.resolve(ref)


async def test_call_one_refuses_any_other_number_of_events() -> None:
    async with hub(Notes()) as h:
        with pytest.raises(AssertionError, match=r"notes\.latest yielded 0 events, not one"):
            await h.call_one("notes.latest")


async def test_questions_get_the_scripted_answers_in_order() -> None:
    async with hub(Curious()) as h:
        h.answers(True, "Ada", ["a", "b"])
        assert await texts(h, "curious.ask") == ["True", "Ada", "a,b"]


async def test_a_function_can_answer_questions() -> None:
    questions: list[Question] = []

    def answer(question: Question) -> Any:
        questions.append(question)
        return {"confirm": False, "prompt": question.message, "select": "b"}[question.kind]

    async with hub(Curious(), answer=answer) as h:
        assert await texts(h, "curious.ask") == ["False", "Name?", "b"]
    assert [option["value"] for option in questions[2].data["options"]] == ["a", "b"]
    assert {question.method for question in questions} == {"curious.ask"}


async def test_a_question_without_an_answer_fails_the_test() -> None:
    async with hub(Curious()) as h:
        with pytest.raises(AssertionError, match=r"confirm 'Really\?' of curious\.ask"):
            await texts(h, "curious.ask")


async def test_an_answer_of_the_wrong_type_fails_the_test() -> None:
    async with hub(Curious()) as h:
        h.answers("yes")
        with pytest.raises(AssertionError, match="'yes' does not answer the confirm"):
            await texts(h, "curious.ask")


async def test_an_answer_that_is_left_fails_the_test() -> None:
    running = hub(Curious())
    h = await running.__aenter__()
    h.answers("Ada", "x")
    assert await texts(h, "curious.default") == ["Ada"]
    with pytest.raises(AssertionError, match=r"no question asked for these answers: \['x'\]"):
        await running.__aexit__(None, None, None)


async def test_callers_can_decline_or_let_the_time_pass() -> None:
    async with hub(Curious()) as h:
        h.answers(DECLINED, NO_ANSWER, NO_ANSWER)
        with pytest.raises(Cancelled):
            await texts(h, "curious.ask")
        with pytest.raises(Timeout):
            await texts(h, "curious.ask")
        assert await texts(h, "curious.default") == ["none"]


async def test_methods_see_the_caller_context(tmp_path: Path) -> None:
    async with hub(Curious()) as h:
        caller = h.calling(cwd=tmp_path, env={"LANG": "C"})
        assert await texts(caller, "curious.where") == [f"{tmp_path} C"]
        assert await texts(h, "curious.where") == ["None None"]


async def test_plugins_get_their_settings() -> None:
    async with hub(Curious(), settings={"curious": {"most": 7}}) as h:
        assert await texts(h, "curious.limit") == ["7"]


async def test_leaving_a_stream_ends_the_method() -> None:
    plugin = Curious()
    async with hub(plugin) as h:
        async with aclosing(h.call("curious.count")) as events:
            assert (await anext(events))["text"] == "1"
        assert plugin.stages == ["started", "count ended"]
        # The method runs at most a few events ahead.
        assert plugin.produced < 5
        async with aclosing(h.items("curious.wait")) as items:
            assert (await anext(items))["message"] == "waiting"
    assert plugin.stages == ["started", "count ended", "stopped"]


async def test_a_plugin_that_cannot_start_raises_its_error() -> None:
    with pytest.raises(RuntimeError, match="no licence"):
        async with hub(Notes(), Broken()):
            pass


async def test_a_database_can_be_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    async with hub(Notes(), path=file) as h:
        await h.call_one("notes.add", text="milk")
    async with hub(Notes(), path=file) as h:
        assert (await h.call_one("notes.latest"))["text"] == "milk"
    async with hub(Notes()) as h:
        assert [event async for event in h.call("notes.latest")] == []


PLUGIN_TEST = """
from tests.sample_plugins.notes import Notes

async def test_notes_survive(plexus_hub):
    async with plexus_hub(Notes()) as h:
        await h.call_one("notes.add", text="milk")
    async with plexus_hub(Notes()) as h:
        assert (await h.call_one("notes.latest"))["text"] == "milk"
"""


def test_pytest_finds_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        'from hubd.testing import hub\n\npytest_plugins = ["hubd.testing"]\n'
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    (tmp_path / "test_notes.py").write_text(PLUGIN_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), cwd=tmp_path
    )
    assert "1 passed" in result.stdout, result.stdout + result.stderr
