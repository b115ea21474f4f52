"""Modules that help does not use are imported by their first use."""

import subprocess
import sys

from tests.clean_environment import basic_variables

_HELP = "from synapse.commands.typer_import import OnlyForHelp\n"


def printed(program: str) -> list[str]:
    """Return the lines that a program prints in a new process."""
    result = subprocess.run(
        [sys.executable, "-c", _HELP + program],
        capture_output=True,
        text=True,
        env=basic_variables(),
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_the_modules_of_help_do_not_load_what_it_does_not_use() -> None:
    program = """
import sys
before = set(sys.modules)
with OnlyForHelp():
    import synapse.commands.help_screen
names = {"bz2", "difflib", "fractions", "ipaddress", "pathlib", "platform", "rich.markdown"}
names |= {"rich.traceback", "subprocess", "tokenize", "traceback", "uuid"}
print(sorted((names & set(sys.modules)) - before))
"""
    assert printed(program) == ["[]"]


def test_a_placeholder_becomes_its_module_when_it_is_used() -> None:
    program = """
with OnlyForHelp():
    import subprocess as first
    from typer import main
    from subprocess import Popen
import subprocess
print(first is subprocess, first.PIPE is subprocess.PIPE, Popen is subprocess.Popen)
print(main.subprocess.DEVNULL == subprocess.DEVNULL)
"""
    assert printed(program) == ["False True True", "True"]


def test_a_module_that_is_imported_already_stays() -> None:
    program = """
import subprocess
with OnlyForHelp():
    import subprocess as again
import rich.markdown
print(again is subprocess, bool(rich.markdown.Markdown("x").markup))
"""
    assert printed(program) == ["True True"]
