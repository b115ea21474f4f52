"""Commands at a pseudo-terminal: views, questions, Ctrl-C."""

import json
import re
import signal
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.screen import screen
from tests.synapse.plugin_for_cli import INVISIBLE, TAME
from tests.synapse.support import (
    MISSES_SIGNALS,
    SYNAPSE,
    Terminal,
    at_terminal,
    has_colour,
    synapse,
    without_own_sequences,
)


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def tell(home: Path, *words: str) -> dict[str, object]:
    """Make another call while one runs at the terminal."""
    result = synapse(*words, home=home)
    assert result.returncode == 0, result.stderr
    event: dict[str, object] = json.loads(result.stdout)
    return event


# -- views -------------------------------------------------------------------------------------


def test_help_is_shown_for_every_level(home: Path) -> None:
    for words, begin in (
        ((), "synapse NAMESPACE… METHOD"),
        (("solar",), "Usage: synapse solar METHOD [--param value]…"),
        (("cli", "say", "--help"), "Usage: synapse cli say --text TEXT [OPTIONS]"),
    ):
        status, text = at_terminal(*words, home=home)
        text = without_own_sequences(text).lstrip()
        assert (status, text[: len(begin)]) == (0, begin)


def test_events_of_a_stream_are_a_table(home: Path) -> None:
    status, text = at_terminal("solar", "observe", home=home, columns=200)
    header, *rows = without_own_sequences(text).splitlines()
    assert status == 0
    assert header.split()[:5] == ["NAME", "BODY", "TYPE", "PARENT", "MASS"]
    assert [row.split()[0] for row in rows[:3]] == ["Mercury", "Venus", "Earth"]
    assert '{"' not in text


def test_one_event_is_a_heading_and_its_fields_below_each_other(home: Path) -> None:
    status, text = at_terminal("solar", "earth", "info", home=home)
    rows = [line.split() for line in without_own_sequences(text).splitlines()]
    assert status == 0
    assert rows[0] == ["Earth"]
    assert ["moons", "Luna"] in rows


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("cli", "words"), ["plain words"]),
        (("cli", "branches"), ["t1 · 2 nodes", "● a  the root", "● b  a leaf"]),
        (("cli", "chat", "--end", "complete"), ["Hello", "✓ 0.0 s"]),
        (("cli", "pieces"), ["> Well?", "Half and half", "✓ 0.0 s"]),
        (("mustache", "render", "--template", "one\n\ntwo\n"), ["one", "", "two"]),
        (("mustache", "render", "--template", "end\n", "--raw"), ["end"]),
        (("cli", "words", "--raw"), ["plain words"]),
        (("cli", "words", "-j"), ['{"type":"note","text":"plain words"}']),
        (("cli", "rows", "--fields", "name", "--count", "1"), ["name  name-0"]),
        (
            ("cli", "pages", "--fields", "size,name", "--count", "2"),
            ["size  name", "   0  name-0", "   1  name-1"],
        ),
        (("cli", "pages", "--fields", "name", "--count", "0"), ["none"]),
        (("cli", "pages", "--fields", "type"), ["type  page"]),
        (("plexus", "methods", "--query", "qqqqq"), ["none"]),
        (
            ("plexus", "methods", "--query", "ping", "--limit", "1"),
            ["METHOD     DESCRIPTION", "echo.ping  Check whether the hub answers."],
        ),
    ],
)
def test_the_hint_of_the_method_decides_the_view(
    home: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    status, text = at_terminal(*words, home=home)
    text = re.sub(r"\d+\.\d s", "0.0 s", text)
    assert (status, screen(text, 80)) == (0, [*expected, ""])


@pytest.mark.parametrize(("end", "status"), [("waiting", 8), ("denied", 8), ("error", 1)])
def test_the_end_of_a_chat_decides_the_status_at_a_terminal(
    home: Path, end: str, status: int
) -> None:
    assert at_terminal("cli", "chat", "--end", end, home=home)[0] == status


@pytest.mark.parametrize("words", ["solar observe", "echo ping", "cli hostile", "cli pets"])
def test_json_is_the_same_with_and_without_a_terminal(home: Path, words: str) -> None:
    plain = synapse(*words.split(), "-o", "json", home=home)
    assert at_terminal(*words.split(), "-o", "json", home=home) == (0, plain.stdout)


def test_a_mistake_is_one_line_at_a_terminal_too(home: Path) -> None:
    status, text = at_terminal("echo", "once", "--mesage", "x", home=home)
    expected = "synapse: unknown parameter --mesage\n         Did you mean --message?\n"
    assert (status, text) == (2, expected)


@pytest.mark.parametrize("columns", [40, 100])
def test_a_tree_has_a_line_for_every_node_at_any_width(home: Path, columns: int) -> None:
    status, text = at_terminal("cli", "long-tree", home=home, columns=columns)
    shown = without_own_sequences(text).splitlines()
    assert (status, shown[0]) == (0, "t1 · 1,357 nodes")
    assert max(map(cell_len, shown)) <= columns
    end = next(number for number, line in enumerate(shown) if "more nodes" in line)
    names = [f"{kind}{turn}" for turn in range(30) for kind in "tuab"]
    drawn = [re.sub("^[ │├└─●]*", "", line).split()[0] for line in shown[1:end]]
    assert sorted(drawn) == sorted([*names, "f1", "f2", "f3", "…"])
    # The turns before the fork are flat, and so are those behind it, one step further in.
    turns = [line for line in shown if re.match("[ │├└─]*● t", line)]
    assert [line.partition("● ")[0] for line in turns] == [""] * 4 + ["├─"] + ["│ "] * 25
    assert all(cell_len(line.partition("●")[0]) <= 6 for line in shown if "●" in line)
    assert "… 7 more" in map(str.strip, shown)
    last = " ".join(shown[end:])
    assert last == "… 1,234 more nodes (--limit 10000; --all shows everything)"


def test_the_handles_of_a_tree_are_resolved_only_at_a_terminal(home: Path) -> None:
    words = ("cli", "long-tree", "--turns", "4")
    assert "handle t1" not in at_terminal(*words, home=home)[1]
    assert "handle t1" in at_terminal(*words, "--no-resolve", home=home)[1]
    assert "handle t1" in at_terminal(*words, "-j", home=home)[1]
    assert "handle t1" in synapse(*words, home=home).stdout


def test_the_nodes_of_a_stored_tree_are_drawn_with_short_ids(home: Path) -> None:
    status, text = at_terminal("cli", "tree-pages", home=home)
    shown = [line.rstrip() for line in without_own_sequences(text).splitlines()]
    assert (status, shown) == (
        0,
        ["t1 · 2 nodes", "state  ● active", "● 00000001  one", "● 00000002  echo@1.0.0::once:hi"],
    )


def test_a_message_shows_the_short_id_of_its_node(home: Path) -> None:
    _, text = at_terminal("cli", "messages", home=home)
    assert screen(text, 80)[:4] == ["> Well?  00000001", "● 00000002", "✻ thought", "The answer."]


# -- width and colour --------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "term"), [(40, "xterm"), (200, "xterm"), (40, "dumb")])
@pytest.mark.parametrize("words", ["", "cli stroke --help", "cli rows", "solar earth info"])
def test_no_line_is_longer_than_the_terminal_is_wide(
    home: Path, columns: int, term: str, words: str
) -> None:
    status, text = at_terminal(*words.split(), home=home, columns=columns, TERM=term)
    shown = without_own_sequences(text).splitlines()
    assert status == 0
    # An example stays in one piece, to be copied.
    lengths = [cell_len(line) for line in shown if not line.startswith("  synapse ")]
    assert max(lengths) <= columns
    # The room that there is, is used.
    if words in ("", "cli rows"):
        assert max(lengths) > columns * 3 // 4 or columns == 200


def test_the_variable_for_the_width_wins(home: Path) -> None:
    _, text = at_terminal("cli", "rows", home=home, columns=200, COLUMNS="50")
    assert max(cell_len(line) for line in without_own_sequences(text).splitlines()) == 50


def test_colour_can_be_switched_off(home: Path) -> None:
    words = ("self", "--help")
    assert has_colour(at_terminal(*words, home=home)[1])
    assert not has_colour(at_terminal(*words, home=home, NO_COLOR="1")[1])


@pytest.mark.parametrize("words", ["", "solar observe", "cli words", "self --help", "self doctor"])
def test_a_dumb_terminal_gets_no_sequences_at_all(home: Path, words: str) -> None:
    status, text = at_terminal(*words.split(), home=home, TERM="dumb")
    assert status == 0
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "words",
    [
        *("hostile", "hostile-stream", "hostile-text", "hostile-chat", "hostile-end"),
        *("hostile --raw", "hostile -j", "hostile-stream -o json", "hostile-text --items"),
        *("hostile-end -j", "hostile-end --items"),
    ],
)
def test_no_sequence_in_a_text_reaches_the_terminal(home: Path, words: str) -> None:
    _, text = at_terminal("cli", *words.split(), home=home, NO_COLOR="1")
    rest = without_own_sequences(text)
    # Rich draws its bar with carriage returns.
    controls = re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", rest.replace("\r", ""))
    assert controls == []
    assert "RED" in rest
    assert not has_colour(text)


@pytest.mark.parametrize("output", ["", "--raw", "-j", "-o json", "--items", "--fields text"])
def test_invisible_characters_are_shown_on_a_terminal(home: Path, output: str) -> None:
    _, text = at_terminal("cli", "invisible", *output.split(), home=home, columns=200)
    assert not set("\u202e\u200b\U000e0041\ufeff") & set(text)
    is_json = output in ("-j", "-o json", "--items")
    assert ("\\u202e" if is_json else "‹U+202E›") in text
    # What ordinary text needs stays.
    assert "👩\u200d💻 שלום\u200f" in text
    if output != "--raw":
        in_pipe = synapse("cli", "invisible", *output.split(), home=home).stdout
        assert INVISIBLE in in_pipe


def test_hubd_shows_invisible_characters_too(tmp_path: Path) -> None:
    entry = {"time": "now", "level": "info", "message": INVISIBLE}
    (tmp_path / "hubd.log").write_text(f"{json.dumps(entry)}\n")
    program = (sys.executable, "-m", "hubd")
    with Terminal("logs", home=tmp_path, program=program) as terminal:
        status, text = terminal.finish()
    assert (status, "‹U+202E›" in text, "\u202e" in text) == (0, True, False)


def test_a_text_without_its_sequences_is_readable(home: Path) -> None:
    assert at_terminal("cli", "hostile", "--raw", home=home) == (0, f"{TAME}\n")


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [(), ("-j",)])
def test_events_of_a_slow_stream_appear_before_its_end(home: Path, output: tuple[str, ...]) -> None:
    key = f"appear{output}"
    with Terminal("cli", "slow", "--key", key, *output, home=home) as terminal:
        for number in range(3):
            terminal.until(str(number))
            tell(home, "cli", "go", "--key", key)
        assert terminal.finish()[0] == 0


@pytest.mark.parametrize("output", [(), ("-j",)])
def test_ctrl_c_ends_the_call_and_harms_nothing(home: Path, output: tuple[str, ...]) -> None:
    key = f"interrupt{output}"
    with Terminal("cli", "slow", "--key", key, *output, home=home) as terminal:
        terminal.until("0")
        terminal.type("\x03")
        status, text = terminal.finish()
    assert status == 130
    assert "Traceback" not in text
    # The plugin's `finally` ran, and the daemon answers.
    assert tell(home, "cli", "ended", "--key", key)["text"] == "cleaned up"


def test_ctrl_c_on_a_chat_shows_how_to_watch_and_end_it(home: Path) -> None:
    with Terminal("cli", "linger", "--key", "my key", home=home) as terminal:
        terminal.until("waiting")
        terminal.type("\x03")
        status, text = terminal.finish()
    assert status == 130
    # Each command is on one line, to be copied.
    assert text.splitlines()[-3:] == [
        "The chat continues in the background.",
        "  Watch: synapse cli follow --key 'my key'",
        "  End: synapse cli cancel --key 'my key'",
    ]


@pytest.mark.parametrize("output", [(), ("--raw",)])
def test_a_waiting_chat_shows_the_reason(home: Path, output: tuple[str, ...]) -> None:
    key = f"queued{output}"
    with Terminal("cli", "linger", "--key", key, "--queued", *output, home=home) as terminal:
        terminal.until("queued behind 1 chat")
        tell(home, "cli", "go", "--key", key)
        status, text = terminal.finish()
    assert status == 0
    # The line is erased before the answer is shown.
    assert text.partition("\r\x1b[Kat last")[2] != ""


def test_ctrl_c_at_a_question_ends_the_call_and_the_line(home: Path) -> None:
    with Terminal("cli", "ask", "--kind", "prompt", home=home) as terminal:
        terminal.until("Well?: ")
        terminal.type("\x03")
        status, text = terminal.finish()
    assert (status, text[-1:]) == (130, "\n")
    assert tell(home, "echo", "ping")["message"] == "pong"


def test_a_ctrl_c_just_before_a_question_begins_to_wait_is_not_missed(home: Path) -> None:
    with Terminal("cli", "ask", "--kind", "prompt", home=home, program=MISSES_SIGNALS) as terminal:
        terminal.until("Well?: ")
        terminal.send_signal(signal.SIGUSR1)
        assert terminal.finish()[0] == 130


@pytest.mark.parametrize("end", ["done", "fail", "interrupt", "timeout"])
def test_progress_is_shown_while_it_lasts_and_the_cursor_comes_back(home: Path, end: str) -> None:
    key = f"{end} progress"
    options = ("--timeout", "1") if end == "timeout" else ()
    with Terminal("cli", "working", "--key", key, *options, home=home) as terminal:
        terminal.until("half way")
        if end == "interrupt":
            terminal.type("\x03")
        elif end != "timeout":
            tell(home, "cli", "go", "--key", key)
        status, text = terminal.finish()
    assert status == {"done": 0, "fail": 1, "interrupt": 130, "timeout": 6}[end]
    hidden, shown = text.count("\x1b[?25l"), text.count("\x1b[?25h")
    assert hidden == shown == 1


def test_progress_goes_to_stderr_and_the_data_to_stdout(home: Path, tmp_path: Path) -> None:
    for number, output in enumerate(((), ("-o", "table"))):
        file, key = tmp_path / f"out{number}", f"split{number}"
        command = ("cli", "working", "--key", key, *output)
        with Terminal(*command, home=home, stdout=file) as terminal:
            terminal.until("half way")
            tell(home, "cli", "go", "--key", key)
            status, text = terminal.finish()
        assert status == 0
        assert "worked" not in text
        assert "worked" in file.read_text()
        assert "half way" not in file.read_text()


# -- questions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "typed", "answer"),
    [
        ("confirm", ("yes\n",), "True"),
        ("confirm", ("maybe\n", "n\n"), "False"),
        ("prompt", ("a name\n",), "'a name'"),
        ("multiline", ("one\n", "two\n", ".\n"), "'one\\ntwo'"),
        ("select", ("2\n",), "['g']"),
        ("select", ("9\n", "blue\n"), "['b']"),
        ("many", ("1, g\n",), "['r', 'g']"),
        ("keys", ("y\n",), "['g']"),
        ("keys", ("Z\n",), "['b']"),
        ("keys", ("\n", "q\n", "?\n", "red\n"), "['r']"),
        ("custom", ('{"a": [1]}\n',), "{'a': [1]}"),
    ],
)
def test_a_question_is_answered_by_typing(
    home: Path, kind: str, typed: tuple[str, ...], answer: str
) -> None:
    with Terminal("cli", "ask", "--kind", kind, home=home) as terminal:
        terminal.until("Well?")
        for text in typed:
            terminal.type(text)
        status, text = terminal.finish()
    assert status == 0
    assert text.rstrip().endswith(answer)


@pytest.mark.parametrize(
    ("kind", "default", "shown", "answer"),
    [("confirm", "yes", "[Y/n]", "True"), ("prompt", "Tom", "[Tom]", "'Tom'")],
)
def test_an_empty_line_is_the_default(
    home: Path, kind: str, default: str, shown: str, answer: str
) -> None:
    with Terminal("cli", "ask", "--kind", kind, "--default", default, home=home) as terminal:
        terminal.until(f"Well? {shown}")
        terminal.type("\n")
        assert terminal.finish()[1].rstrip().endswith(answer)


@pytest.mark.parametrize("kind", ["confirm", "prompt", "select", "custom"])
def test_the_end_of_input_declines(home: Path, kind: str) -> None:
    with Terminal("cli", "ask", "--kind", kind, home=home) as terminal:
        terminal.until("Well?")
        terminal.type("\x04")
        status, text = terminal.finish()
    assert (status, text.splitlines()[-1]) == (1, "synapse: the caller declined to answer")


def test_the_options_of_a_question_are_listed(home: Path) -> None:
    with Terminal("cli", "ask", "--kind", "select", home=home) as terminal:
        terminal.until("  1) Red - as blood")
        terminal.until("  3) Blue")
        terminal.until("number: ")


def test_options_with_keys_are_a_row_that_can_be_explained(home: Path) -> None:
    with Terminal("cli", "ask", "--kind", "keys", home=home) as terminal:
        terminal.until("[x,y,z,?] ")
        assert "x Red · y Green · z Blue" in without_own_sequences(terminal.text)
        terminal.type("?")
        terminal.until("  x) Red - as blood")
        terminal.until("[x,y,z,?] ")
        terminal.type("w")
        terminal.until("'w' is not one of x, y, z")


@pytest.mark.parametrize(
    ("typed", "status", "end"),
    [
        ("y", 0, "['g']\n"),
        # An arrow key and a function key are ignored.
        ("\x1b[A|\x1bOP|z", 0, "['b']\n"),
        ("\x04", 1, "declined to answer\n"),
        ("\x03", 130, "\n"),
    ],
)
def test_a_key_decides_at_once_and_the_terminal_is_restored(
    home: Path, typed: str, status: int, end: str
) -> None:
    with Terminal("cli", "ask", "--kind", "keys", home=home) as terminal:
        before = terminal.settings
        terminal.until("[x,y,z,?] ")
        assert terminal.settings != before
        for keys in typed.split("|"):
            terminal.type(keys)
        ended, text = terminal.finish(before=before)
    assert ended == status
    assert text.endswith(end)


def test_a_pasted_text_decides_nothing(home: Path) -> None:
    with Terminal("cli", "ask", "--kind", "keys", home=home) as terminal:
        terminal.until("[x,y,z,?] ")
        terminal.type("you never know\nx\n")
        terminal.until("'you never know' is not one of x, y, z")
        terminal.until("[x,y,z,?] ")
        terminal.type("y")
        status, text = terminal.finish()
    assert (status, text.endswith("['g']\n")) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_a_question_restores_the_terminal(home: Path, number: int) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this process ignores the signal, as below nohup")
    with Terminal("cli", "ask", "--kind", "keys", home=home) as terminal:
        before = terminal.settings
        terminal.until("[x,y,z,?] ")
        terminal.send_signal(number)
        assert terminal.finish(before=before)[0] == -number


def test_a_stopped_question_leaves_the_terminal_and_continues(home: Path) -> None:
    # Only a process with a shell above it can be stopped.
    script = 'set -m; "$@"; stty -a | tr " ;" "\\n" | grep icanon; fg >/dev/null; echo'
    program = ("bash", "-c", script, "bash", *SYNAPSE)
    with Terminal("cli", "ask", "--kind", "keys", home=home, program=program) as terminal:
        terminal.until("[x,y,z,?] ")
        during = terminal.settings
        terminal.type("\x1a")
        terminal.until("\nicanon")
        terminal.until_settings(during)
        terminal.type("x")
        terminal.until("['r']")


def test_an_enter_after_a_key_is_not_the_answer_to_the_next_question(home: Path) -> None:
    with Terminal("cli", "key-then-text", home=home) as terminal:
        terminal.until("[m,?] ")
        terminal.type("m\n")
        terminal.until("Message: ")
        terminal.type("hello\n")
        assert terminal.finish()[1].endswith("'hello'\n")


@pytest.mark.parametrize("kind", ["keys", "select", "confirm"])
def test_keys_typed_before_a_choice_are_discarded(home: Path, kind: str) -> None:
    with Terminal("cli", "ask", "--kind", kind, home=home) as terminal:
        terminal.type("y\n1\nyes\n")
        terminal.until("Well?")
        terminal.type("\x04")
        assert terminal.finish()[0] == 1


def test_a_text_with_a_default_is_edited(home: Path) -> None:
    command = ("cli", "ask", "--kind", "multiline", "--default", "one two")
    with Terminal(*command, home=home) as terminal:
        terminal.until("Well?: one two")
        terminal.type("\x7f" * 3 + "three\n")
        assert terminal.finish()[1].rstrip().endswith("'one three'")


def test_a_text_of_several_lines_is_edited_in_the_editor(home: Path, tmp_path: Path) -> None:
    default = ("--default", "one\n\x1b[2Jtwo")
    command = ("cli", "ask", "--kind", "multiline", *default)
    with Terminal(*command, home=home, env={"EDITOR": "sed -i s/one/1/"}) as terminal:
        status, text = terminal.finish()
    assert status == 0
    assert text.rstrip().endswith(r"'1\n\x1b[2Jtwo'")
    with Terminal(*command, home=home, env={"EDITOR": str(tmp_path / "missing")}) as terminal:
        status, text = terminal.finish()
    assert (status, "can't be started" in text) == (1, True)


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_destructive_method_asks_first(home: Path, typed: str, status: int) -> None:
    with Terminal("cli", "hide", "--name", "all", home=home) as terminal:
        terminal.until('cli hide (name "all") cannot be undone. Continue? [y/N] ')
        terminal.type(typed)
        ended, text = terminal.finish()
    assert ended == status
    assert ("all is gone" in text) == (status == 0)
    assert ("synapse: nothing was done" in text) == (status == 1)


@pytest.mark.parametrize("option", ["--yes", "--no-input"])
def test_an_option_skips_the_question_of_a_destructive_method(home: Path, option: str) -> None:
    status, text = at_terminal("cli", "hide", option, home=home)
    assert (status, "it is gone" in text, "Continue" in text) == (0, True, False)


def test_a_question_goes_to_stderr_and_the_answer_to_stdout(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "out"
    with Terminal("cli", "ask", "--kind", "prompt", home=home, stdout=file) as terminal:
        terminal.until("Well?: ")
        terminal.type("me\n")
        assert terminal.finish()[0] == 0
    assert json.loads(file.read_text()) == {"type": "note", "text": "'me'"}


@pytest.mark.parametrize(
    ("kind", "options", "status", "last"),
    [
        ("confirm", ("--yes",), 0, "text  True"),
        ("prompt", ("--answer", "me"), 0, "text  'me'"),
        ("prompt", ("--no-input",), 1, "the method asks 'Well?', and there is no terminal"),
    ],
)
def test_options_answer_at_a_terminal_without_asking(
    home: Path, kind: str, options: tuple[str, ...], status: int, last: str
) -> None:
    ended, text = at_terminal("cli", "ask", "--kind", kind, *options, home=home)
    assert ended == status
    assert last in without_own_sequences(text)
    assert "Well?: " not in text


def test_control_sequences_are_removed_from_questions(home: Path) -> None:
    message = "\x1b]0;title\x07Sure\x1b[2J?"
    command = ("cli", "ask", "--kind", "confirm", "--message", message)
    with Terminal(*command, home=home) as terminal:
        terminal.until("Sure? [y/n] ")
        terminal.type("y\n")
        status, text = terminal.finish()
    assert status == 0
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text


def test_a_question_times_out_and_the_call_continues(home: Path) -> None:
    # On a busy machine a short time may be over before the question is shown.
    for seconds in ("0.01", "0.1", "1", "10"):
        key = ("--key", f"hasty-{seconds}")
        with Terminal("cli", "hasty", *key, "--seconds", seconds, home=home) as terminal:
            tell(home, "cli", "ended", *key)
            tell(home, "cli", "go", *key)
            status, text = terminal.finish()
        assert status == 0
        assert "went on with True" in text
        if "Quick? [Y/n] " in text:
            break
    else:
        pytest.fail("the question was not shown")
