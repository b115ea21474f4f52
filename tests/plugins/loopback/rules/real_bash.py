"""Run commands in a real bash without any programs, and record the commands that it runs.

Bash gets an empty directory as its PATH, so every program is missing. It then calls
`command_not_found_handle`, which records the words of the command. Nothing else is executed except
builtins; files can only be written in the temporary directory.
"""

import resource
import subprocess
from collections import Counter
from pathlib import Path

_SCRIPT = r"""
command_not_found_handle() {
    printf '%s\0' "A=${A-}" "B=${B-}" "$@" $'\1' >>"$RECORD"
    return "$STATUS"
}
eval -- "$1"
wait
"""

Record = tuple[str, ...]


class Bash:
    """Runs commands in a directory."""

    def __init__(self, directory: Path) -> None:
        self._programs = directory / "programs"
        self._work = directory / "work"
        self._record = directory / "record"
        self._programs.mkdir()
        self._work.mkdir()

    def run(self, command: str, status: int) -> Counter[Record]:
        """Return the variables A and B and the words of each command that bash runs.

        Args:
            command: The command.
            status: The exit status of all programs.
        """
        self._record.write_bytes(b"")
        subprocess.run(
            ["/bin/bash", "--norc", "--noprofile", "-c", _SCRIPT, "bash", command],
            env={
                "PATH": str(self._programs),
                "RECORD": str(self._record),
                "STATUS": str(status),
                "LC_ALL": "C.UTF-8",
            },
            cwd=self._work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
            preexec_fn=_limit,
        )
        records = self._record.read_bytes().decode().split("\x00\x01\x00")[:-1]
        return Counter(tuple(record.split("\x00")) for record in records)

    def left_files(self) -> list[str]:
        """Return the files that commands have written."""
        return [path.name for path in self._work.iterdir()]


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
