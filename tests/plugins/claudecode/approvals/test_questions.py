"""When the program of a chat may end while its calls wait for approvals."""

from typing import Any, cast

import pytest

from hubd.activation import Actor, Host
from hubd.plugins.claudecode.approvals.questions import Question, Questions
from hubd.plugins.claudecode.protocol.updates import MessageStarted, ToolResult
from hubd.storage.database import Database


async def unused(*_: Any) -> Any:
    """Not called."""
    raise AssertionError


@pytest.fixture
def questions() -> Questions:
    hub, db = cast(Host, None), cast(Database, None)
    opened = Questions(hub, db, unused, 1, Actor("hub"), unused, lambda: None)
    opened._open["r"] = Question("toolu_1", None)
    return opened


def result_of(call: str) -> ToolResult:
    """The result of a call."""
    return ToolResult(call, None, "", is_error=False, block={}, uuid=None, raw={})


def test_a_program_whose_only_call_waits_can_be_parked(questions: Questions) -> None:
    assert questions.is_waiting
    assert questions.can_park


def test_a_program_is_not_parked_while_a_subagent_works(questions: Questions) -> None:
    questions.follow([MessageStarted("m", "toolu_2", None)])
    assert not questions.can_park
    questions.follow([result_of("toolu_2")])
    assert questions.can_park


def test_a_program_is_not_parked_while_another_call_runs(questions: Questions) -> None:
    questions._running.add("toolu_2")
    assert not questions.can_park
    questions.follow([result_of("toolu_2")])
    assert questions.can_park


def test_a_program_that_is_about_to_get_an_answer_is_not_parked(questions: Questions) -> None:
    questions._open["r"].is_answered = True
    assert not questions.is_waiting
    assert not questions.can_park


def test_a_program_with_a_subagents_question_is_not_parked(questions: Questions) -> None:
    questions._open["s"] = Question("toolu_2", "agent")
    assert questions.is_waiting
    assert not questions.can_park
