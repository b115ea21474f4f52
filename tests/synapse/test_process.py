"""Methods with `render: process` behave as the command that they run."""

import json
from pathlib import Path

import pytest

from hubd.wire.terminal import clean_output
from tests.synapse.plugin_for_cli import HOSTILE, TAME
from tests.synapse.support import at_terminal, path_with_synapse, refusal, shell, synapse

BYTES = HOSTILE.encode() + b"\n\xff\\\0\nno end"


def test_a_pipe_gets_the_events(cli_home: Path) -> None:
    result = synapse("cli", "act", home=cli_home)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["type"] for event in events] == ["stdout", "stderr", "stdout", "stdout", "exit"]
    assert (result.returncode, result.stderr) == (0, "")


def test_raw_output_in_a_pipe_is_the_exact_bytes(cli_home: Path, tmp_path: Path) -> None:
    path_with_synapse(cli_home)
    script = f"synapse cli act --raw >{tmp_path}/out 2>{tmp_path}/err"
    assert shell(script, home=cli_home).returncode == 0
    assert (tmp_path / "out").read_bytes() == BYTES
    assert (tmp_path / "err").read_bytes() == b"careful\n"


def test_a_terminal_gets_text_and_colours_only(cli_home: Path) -> None:
    status, text = at_terminal("cli", "act", home=cli_home)
    assert status == 0
    first, second, *rest = text.replace("\r\n", "\n").split("\n")
    assert first == f"\x1b[31m{TAME}"
    assert second == "careful"
    # No style is left behind.
    assert rest == ["\\xff\\\\\\x00", "no end\x1b[0m"]
    _, plain = at_terminal("cli", "act", home=cli_home, NO_COLOR="1")
    assert "\x1b" not in plain
    assert plain.startswith(TAME)


def test_the_exit_status_is_that_of_the_command(cli_home: Path) -> None:
    for options in ((), ("--raw",), ("--json",), ("-o", "json")):
        result = synapse("cli", "act", "--code", "7", "--exit-code", *options, home=cli_home)
        assert result.returncode == 7
    assert at_terminal("cli", "act", "--code", "3", "--exit-code", home=cli_home)[0] == 3
    assert synapse("cli", "act", "--code", "7", home=cli_home).returncode == 0
    # A status that the system would cut to 0 is still a failure.
    assert synapse("cli", "act", "--code", "256", "--exit-code", home=cli_home).returncode == 1


def test_an_unknown_exit_status_is_a_failure(cli_home: Path) -> None:
    result = synapse("cli", "act", "--code=-1", "--exit-code", home=cli_home)
    assert result.returncode == 1
    assert result.stderr == "synapse: the exit status of the command is unknown\n"


def test_a_method_that_runs_no_command_has_no_exit_status(cli_home: Path) -> None:
    result = synapse("echo", "ping", "--exit-code", home=cli_home)
    assert "`echo ping` runs no command" in refusal(result, 2)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;38;5;8mgrey\x1b[0m", "\x1b[1;38;5;8mgrey\x1b[0m"),
        ("\x1b[38:2:1:2:8mcolour", "\x1b[38:2:1:2:8mcolour"),
        ("\x1b[8mhidden", "hidden"),
        ("\x1b[1;08mhidden", "hidden"),
        ("\x1b]0;a\x1b[31mb\x07", "0;a\x1b[31mb"),
        ("\x1b[2J\x1b[Hhome\rover", "homeover"),
        ("\x1b]52;c;x\x07clip \x1b[31", "clip 31"),
    ],
)
def test_only_styles_that_hide_nothing_reach_a_terminal(text: str, shown: str) -> None:
    assert clean_output(text) == shown
