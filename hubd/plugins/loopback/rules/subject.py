"""A tool call prepared for comparison with rules: split, resolved and parsed once."""

from functools import cached_property
from typing import Any

from hubd.plugins.loopback.rules import paths, patterns, urls
from hubd.plugins.loopback.rules.paths import CallPath
from hubd.plugins.loopback.rules.rule import ToolCall
from hubd.plugins.loopback.rules.shell import MAX_COMMAND, Split, loose_runs, split
from hubd.plugins.loopback.rules.urls import CallUrl
from hubd.wire.lazy_dataclass import dataclass

# An input of Bash that turns the agent's own sandbox off.
_NO_SANDBOX = "dangerouslyDisableSandbox"


@dataclass(frozen=True)
class Subject:
    """A tool call and everything that rules compare."""

    call: ToolCall
    kind: patterns.Kind | None
    # The session's resolved directory; None if it is not known.
    directory: str | None
    # The field `command` as the agent wrote it; None if it is not a text.
    command: str | None = None
    split: Split | None = None
    paths: tuple[CallPath, ...] = ()
    url: CallUrl | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the principal field can't be compared; None if it can."""
        if self.command is not None or self.paths or self.url:
            return None
        return f"the call has no {patterns.PRINCIPAL_FIELDS[self.kind or 'command'][0]} as text"

    @property
    def leaves_sandbox(self) -> bool:
        """Whether the call turns the agent's own sandbox off."""
        return self.kind == "command" and bool(self.call.input.get(_NO_SANDBOX))

    @cached_property
    def runs(self) -> list[tuple[str, ...]]:
        """The words of a command that can't be split."""
        if self.command is None or len(self.command) > MAX_COMMAND:
            return []
        return loose_runs(self.command)

    @cached_property
    def names(self) -> set[str]:
        """The words in `runs` and their last path segments, in lower case."""
        words = {word.casefold() for run in self.runs for word in run}
        return words | {word.rpartition("/")[2] for word in words}

    @cached_property
    def whole(self) -> str:
        """The whole input as JSON."""
        return patterns.canonical(dict(self.call.input))

    def field(self, name: str) -> str | None:
        """Return a field of the input as text; None if it is absent."""
        if name == patterns.WHOLE_INPUT:
            return self.whole
        if name not in self.call.input:
            return None
        return patterns.canonical(self.call.input[name])

    @cached_property
    def texts(self) -> list[str]:
        """All texts anywhere in the input."""
        texts: list[str] = []
        waiting: list[Any] = [dict(self.call.input)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, list | tuple):
                waiting += value
        return texts


def prepare(call: ToolCall) -> Subject:
    """Return a call prepared for rules. This resolves its paths in the file system."""
    kind = patterns.kind_of(call.tool_name)
    directory = paths.real_directory(call.cwd)
    names = patterns.PRINCIPAL_FIELDS[kind or "command"]
    given = [call.input[name] for name in names if name in call.input]
    texts = [value for value in given if isinstance(value, str)]
    if not texts or len(texts) < len(given):
        return Subject(call, kind, directory)
    if kind == "path":
        resolved = tuple(paths.call_path(text, call.cwd) for text in texts)
        return Subject(call, kind, directory, paths=resolved)
    if kind == "url":
        return Subject(call, kind, directory, url=urls.call_url(texts[0]))
    return Subject(call, kind, directory, command=texts[0], split=split(texts[0]))
