"""Questions of methods, and the options of calls."""

import json
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

from hubd.wire.item import ANSWERS
from hubd.wire.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Question:
    """A question that a method asks its caller."""

    # The path of the called method.
    method: str
    # `confirm`, `prompt`, `select` or `custom`.
    kind: str
    # The fields of the question: `message`, `default`, and for a `select` also `options`.
    data: Mapping[str, Any]
    # Seconds until the hub stops waiting for an answer.
    timeout_seconds: float

    @property
    def message(self) -> str:
        """The text of the question; empty for a custom one."""
        return str(self.data.get("message", ""))

    @classmethod
    def from_item(cls, method: str, item: Mapping[str, Any]) -> "Question":
        """Read a request item."""
        data = dict(item["requestData"])
        return cls(method, data.pop("type"), data, item["timeoutMs"] / 1000)

    def response(self, answer: Any) -> dict[str, Any]:
        """Return an answer as the hub reads it; None declines to answer."""
        kind, field = ANSWERS.get(self.kind, ("", ""))
        if answer is None or not kind:
            return {"type": "cancelled"}
        if self.kind == "select" and isinstance(answer, str):
            answer = [answer]
        return {"type": kind, field: answer}

    def __str__(self) -> str:
        return f"{self.kind} {self.message or json.dumps(dict(self.data))!r} of {self.method}"


@dataclass(frozen=True)
class Options:
    """The options of calls: see `Hub.calling`."""

    answer: Callable[[Question], Any] | None = None
    progress: Callable[[str, float | None], None] | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None

    def changed(
        self,
        answer: Callable[[Question], Any] | None,
        progress: Callable[[str, float | None], None] | None,
        cwd: str | PathLike[str] | None,
        env: Mapping[str, str] | None,
    ) -> "Options":
        """Return these options with every one replaced that is not None."""
        return Options(
            answer=answer or self.answer,
            progress=progress or self.progress,
            cwd=self.cwd if cwd is None else fspath(cwd),
            env=self.env if env is None else env,
        )
