"""The blocking client against a real daemon."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hubd.client import Question, SyncHub
from hubd.errors import MethodNotFound
from tests.client.conftest import Address
from tests.support import PATIENCE_SECONDS


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_call_yields_the_contents_of_its_events(address: Address) -> None:
    with SyncHub.connect(**address) as hub:
        events = list(hub.call("echo.echo", message="hi", count=3))
        assert [event["count"] for event in events] == [1, 2, 3]
        assert hub.resolve(events[0]["handle"])["data"]["message"] == "hi"
        assert hub.schema("echo")["namespace"] == "echo"
        with pytest.raises(MethodNotFound):
            hub.call_one("echo.onse", message="hi")


def test_leaving_the_loop_cancels_the_call(address: Address, tmp_path: Path) -> None:
    marker = tmp_path / "ended"
    with SyncHub.connect(**address) as hub:
        with closing(hub.call("trouble.hang", marker=str(marker))) as events:
            assert next(events)["text"] == "hanging"
        until(marker.exists)


def test_functions_run_in_the_thread_of_the_call(address: Address) -> None:
    threads: set[threading.Thread] = set()

    def answer(question: Question) -> object:
        threads.add(threading.current_thread())
        return {"confirm": True, "prompt": "Ada", "select": "g", "custom": 7}[question.kind]

    def progress(message: str, percentage: float | None) -> None:
        threads.add(threading.current_thread())

    with SyncHub.connect(**address) as hub:
        caller = hub.calling(answer=answer, progress=progress)
        assert caller.call_one("trouble.ask_all")["text"] == "True Ada g 7"
        assert len(list(caller.call("trouble.with_progress"))) == 2
    assert threads == {threading.current_thread()}


def test_threads_share_a_connection(address: Address) -> None:
    messages: list[str] = []
    with SyncHub.connect(**address) as hub:

        def call(name: str) -> None:
            messages.append(hub.call_one("echo.once", message=name)["message"])

        names = [f"m{number}" for number in range(8)]
        threads = [threading.Thread(target=call, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(messages) == names
