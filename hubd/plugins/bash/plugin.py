"""The plugin bash: its methods, its resolver, and its life with the hub."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from hubd.activation import (
    Activation,
    Conflict,
    InvalidParams,
    NotFound,
    SearchSource,
    Unavailable,
    method,
    resolver,
)
from hubd.activation.cleanup import hourly
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import IdPrefix
from hubd.activation.working_directory import working_directory
from hubd.plugins.bash import events, search, store
from hubd.plugins.bash import execution as executions
from hubd.plugins.bash.handles import ExecutionRef
from hubd.plugins.bash.output_text import MAX_ANSWER_BYTES, read_output
from hubd.plugins.bash.places import Places
from hubd.plugins.bash.settings import Settings
from hubd.plugins.bash.store import ExecutionRow
from hubd.plugins.bash.tables import MIGRATIONS
from hubd.storage import ids

DAY: Final = 86_400
# Linux takes no longer argument.
MAX_COMMAND: Final = 128 * 1024 - 1
# In order of preference.
SHELLS: Final = ("bash", "sh")
LIST_IDS: Final = {"execution_id": "bash.list"}

CommandText = Annotated[str, Field(min_length=1, max_length=MAX_COMMAND, examples=["ls -l"])]
Seconds = Annotated[float, Field(gt=0, le=365 * DAY, examples=[60])]
Variables = Annotated[dict[str, str], Field(examples=[{"LANG": "C"}])]
Bytes = Annotated[int, Field(ge=0, le=2**53)]

log = logging.getLogger("hubd.bash")


class Bash(Activation, namespace="bash", version="1.0.0"):
    """Shell commands: their output as it comes, and as a record behind a handle.

    A command runs in the caller's directory and environment. It ends with its call: if the caller
    cancels, disconnects or the daemon stops, all its processes end.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    # Set by `lifespan` while the hub runs.
    _places: Places | None = None

    async def lifespan(self) -> AsyncIterator[None]:
        """Mark the commands of a daemon that died, and remove old ones every hour."""
        settings = self.settings(Settings)
        now = int(time.time())
        if count := await self.db.transaction(lambda tx: store.interrupt(tx, now)):
            log.warning("%d commands were interrupted by the end of the daemon", count)
        self._places = Places(settings.max_running)
        try:
            if settings.retention_days:
                days = settings.retention_days
                async with hourly(lambda: self._remove_old(days), "old executions", log):
                    yield
            else:
                yield
        finally:
            self._places = None

    @method(needs_context=True, render="process")
    async def execute(
        self,
        command: CommandText,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout_secs: Seconds | None = None,
        stdin: str = "",
        shell: Annotated[str, Field(min_length=1, examples=["bash"])] | None = None,
    ) -> AsyncIterator[events.Stdout | events.Stderr | events.Exit]:
        """Run a command, and stream its output line by line.

        The last event has the exit status and the handle of the record. A command that takes too
        long ends with the error `timeout`, which names the handle.

        Args:
            command: The command line, for the shell.
            cwd: The working directory; the caller's by default.
            env: Variables that are added to the caller's environment.
            timeout_secs: Seconds after which the command is ended; no limit by default.
            stdin: The standard input; empty by default.
            shell: The shell, which gets the command after `-c`; `bash` by default, else `sh`.
        """
        if self._places is None:
            raise Unavailable("bash is not running", suggestion="Try again in a moment")
        variables = {**self.host.environment, **(env or {})}
        _check_texts(command, variables, shell)
        to_run = executions.Command(
            text=command,
            cwd=working_directory(self.host, cwd, "cwd"),
            shell=shell or _default_shell(variables),
            env=variables,
            stdin=stdin.encode(),
            timeout_secs=timeout_secs,
        )
        limit = int(self.settings(Settings).max_output_mib * 1024**2)
        async with self._places.one():
            execution = executions.Execution(self.db, self.host, to_run, limit)
            async with aclosing(execution.run()) as run:
                async for event in run:
                    yield event

    @method(read_only=True, completes=LIST_IDS)
    async def get(
        self,
        execution_id: IdPrefix,
        encoding: Literal["text", "base64"] = "text",
        offset: Bytes = 0,
        max_bytes: Annotated[int, Field(ge=1, le=MAX_ANSWER_BYTES)] = MAX_ANSWER_BYTES,
    ) -> events.ExecutionData:
        """Show a command and its output.

        Args:
            execution_id: The id of the execution, or its first 8 or more digits.
            encoding: The form of the output: text, escaped if it is not UTF-8, or base64.
            offset: The first byte of each output.
            max_bytes: The maximum number of bytes of each output; 4 MiB by default.
        """
        row = await store.look_up(self.db, execution_id)
        return await self._data(
            row, as_base64=encoding == "base64", offset=offset, length=max_bytes
        )

    @method(name="list", read_only=True, render="table")
    async def list_executions(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.ExecutionList]:
        """List the commands, the newest first, in pages.

        Args:
            limit: The maximum number of commands; all by default.
        """
        async for page in limited(self._pages(), limit):
            yield events.ExecutionList(executions=list(map(_entry, page)))

    @method(destructive=True, completes=LIST_IDS)
    async def delete(self, execution_id: IdPrefix) -> events.ExecutionDeleted:
        """Delete a command and its output. Its handle does not resolve any more.

        Args:
            execution_id: The id of the execution, or its first 8 or more digits.
        """
        row = await store.look_up(self.db, execution_id)
        if not await self.db.transaction(lambda tx: store.delete(tx, row.key)):
            # It is running, or was deleted meanwhile; that is not found.
            row = await store.look_up(self.db, ids.text(row.id))
            raise Conflict(
                f"execution {ids.text(row.id)} is running",
                suggestion="Cancel its call, or wait for its end",
            )
        return events.ExecutionDeleted(execution_id=ids.text(row.id))

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the commands and their outputs."""
        return (search.source(),)

    @resolver(many=True)
    async def execution(
        self, refs: list[ExecutionRef]
    ) -> AsyncIterator[events.ExecutionData | NotFound]:
        """Read commands and the first 4 MiB of each output."""
        for row in await store.look_up_each(self.db, [ref.execution_id for ref in refs]):
            if isinstance(row, NotFound):
                yield row
            else:
                yield await self._data(row, as_base64=False, offset=0, length=MAX_ANSWER_BYTES)

    async def _data(
        self, row: ExecutionRow, *, as_base64: bool, offset: int, length: int
    ) -> events.ExecutionData:
        (stdout, stdout_encoding), (stderr, stderr_encoding) = [
            await read_output(self.db, digest, as_base64=as_base64, offset=offset, length=length)
            for digest in (row.stdout, row.stderr)
        ]
        return events.ExecutionData(
            handle=_handle(row),
            execution_id=ids.text(row.id),
            command=row.command,
            stdout=stdout,
            stderr=stderr,
            exit_code=row.exit_code,
            duration_ms=row.duration_ms,
            cwd=row.cwd,
            truncated=offset > 0
            or max(row.stdout_size, row.stderr_size) > length
            or bool(row.stdout_dropped or row.stderr_dropped),
            status=row.status,
            shell=row.shell,
            started_at=row.started_at,
            stdout_encoding=stdout_encoding,
            stderr_encoding=stderr_encoding,
            stdout_size=row.stdout_size,
            stderr_size=row.stderr_size,
            stdout_dropped=row.stdout_dropped,
            stderr_dropped=row.stderr_dropped,
        )

    async def _pages(self) -> AsyncIterator[list[ExecutionRow]]:
        before = store.NO_KEY
        while page := await store.page(self.db, before):
            yield page
            before = page[-1].key

    async def _remove_old(self, days: float) -> None:
        before = int(time.time() - days * DAY)
        total = 0
        while count := await self.db.transaction(lambda tx: store.remove_old(tx, before)):
            total += count
        if total:
            log.info("removed %d old executions", total)


def _entry(row: ExecutionRow) -> events.ExecutionEntry:
    """Return an execution as lists show it."""
    return events.ExecutionEntry(
        execution_id=ids.text(row.id),
        command=row.command,
        status=row.status,
        exit_code=row.exit_code,
        duration_ms=row.duration_ms,
        size=row.stdout_size + row.stderr_size,
        cwd=row.cwd,
        started_at=row.started_at,
        handle=_handle(row),
    )


def _handle(row: ExecutionRow) -> ExecutionRef:
    return ExecutionRef(execution_id=UUID(bytes=row.id), exit_code=row.exit_code)


def _default_shell(env: dict[str, str]) -> str:
    path = env.get("PATH")
    return next((name for name in SHELLS if shutil.which(name, path=path)), SHELLS[-1])


def _check_texts(command: str, env: dict[str, str], shell: str | None) -> None:
    """Refuse texts that the system can't pass to a program.

    Raises:
        InvalidParams: Names the parameter.
    """
    for parameter, text in (("command", command), ("shell", shell or "")):
        if "\0" in text:
            raise InvalidParams(f"{parameter} has a NUL character", suggestion="Remove it")
    for name, text in env.items():
        if not name or "=" in name or "\0" in name + text:
            raise InvalidParams(
                f"env: {name[:80]!r} can't be a variable",
                suggestion="A name is not empty and has no '='; neither part has a NUL character",
            )
