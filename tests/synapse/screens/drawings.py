"""The drawings of all views. `python -m tests.synapse.screens.drawings` writes the files again."""

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support import Daemon
from tests.synapse.screens.emulator import Emulator
from tests.synapse.support import PLUGIN, Terminal, at_terminal, synapse

DIRECTORY = Path(__file__).parent / "drawings"
WIDTHS = (40, 100)


class View(NamedTuple):
    """A command, its exit status, and the keys that answer its question."""

    words: str
    status: int = 0
    keys: str = ""


VIEWS = {
    "chat": View("studio chat --name fix --prompt Fix-the-failing-test", 8),
    "chat_thinking": View("studio chat --name fix --prompt Hello --thinking --text Hi", 8),
    "chat_failed": View("studio chat --name fix --prompt Hello --text I-begin. --end error", 1),
    "chat_replayed": View("studio messages"),
    "approval": View("studio approve", 0, "?y"),
    "tree": View("studio tree"),
    "list": View("studio table"),
    "list_columns": View("views plain-jobs"),
    "record": View("studio record"),
    "text": View("studio words"),
    "error": View("studio fail", 3),
    "error_usage": View("studio chat", 2),
    "error_unknown": View("studio tabel", 2),
    "help_method": View("studio chat --help"),
    "help_namespace": View("studio --help"),
    "overview": View(""),
}


def path(name: str, columns: int) -> Path:
    """Return the file of a drawing."""
    return DIRECTORY / str(columns) / f"{name}.txt"


def draw(name: str, columns: int, home: Path) -> str:
    """Return the lines that a terminal shows, with the same digits in times that vary."""
    view = VIEWS[name]
    if view.keys:
        with Terminal(*view.words.split(), home=home, columns=columns) as terminal:
            for key in view.keys:
                terminal.until("?] ")
                terminal.type(key)
            status, text = terminal.finish()
    else:
        status, text = at_terminal(*view.words.split(), home=home, columns=columns)
    assert status == view.status, text
    emulator = Emulator(columns)
    emulator.write(text)
    lines = [re.sub(r"thought for \d+\.\d s", "thought", line) for line in emulator.all_lines()]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Write all drawings."""
    with tempfile.TemporaryDirectory() as name, Daemon(Path(name) / "home", *PLUGIN) as daemon:
        synapse("echo", "ping", home=daemon.home)
        for view in VIEWS:
            for columns in WIDTHS:
                path(view, columns).write_text(draw(view, columns, daemon.home))


if __name__ == "__main__":
    main()
