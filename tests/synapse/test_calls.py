"""Commands in pipes and scripts: parameters, output, exit status."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Event, method
from hubd.wire.item import EXIT_CODES
from hubd.wire.paths import Paths
from synapse.errors import CommandError
from synapse.hub import refresh
from synapse.hub.client import UnixConnection
from tests.screen import screen
from tests.support import Daemon, environment
from tests.synapse.plugin_for_cli import HOSTILE, TAME
from tests.synapse.support import (
    LATER_PLUGIN,
    MISSES_SIGNALS,
    PLUGIN,
    SYNAPSE,
    at_terminal,
    clean_environment,
    refusal,
    shell,
    synapse,
    wait_for_stop,
)


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line]


# -- commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [("solar info", "Sun"), ("solar earth info", "Earth"), ("solar earth luna info", "Luna")],
)
def test_commands_reach_to_any_depth(home: Path, words: str, name: str) -> None:
    result = synapse(*words.split(), home=home)
    assert (result.returncode, result.stderr) == (0, "")
    assert [event["name"] for event in lines(result.stdout)] == [name]


@pytest.mark.parametrize(
    "arguments",
    [
        ("cli", "hostile_text", "--raw"),
        ("cli", "hostile-text", "--raw"),
        ("--raw", "cli", "hostile-text"),
        ("cli", "--raw", "hostile_text"),
        ("cli", "hostile-text", "-o", "raw"),
        ("cli", "hostile-text", "--output=raw"),
    ],
)
def test_hyphens_are_underscores_and_options_may_be_anywhere(
    home: Path, arguments: tuple[str, ...]
) -> None:
    result = synapse(*arguments, home=home)
    # A pipe gets the text unchanged; `synapse` reads \r as a line end.
    assert result.stdout == HOSTILE.replace("\r", "\n") + "\n"


def test_the_module_is_the_same_program(home: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "synapse", "echo", "ping"],
        capture_output=True,
        env=clean_environment(home),
        check=True,
    )
    assert json.loads(result.stdout) == {"type": "pong", "message": "pong"}


def test_every_namespace_has_the_methods_that_only_the_root_lists(home: Path) -> None:
    result = synapse("solar", "mars", "hash", home=home)
    assert lines(result.stdout)[0]["type"] == "hash"


def test_the_home_can_be_given_as_an_option_too(home: Path, tmp_path: Path) -> None:
    result = synapse("echo", "ping", "--home", str(home), home=tmp_path / "elsewhere")
    assert lines(result.stdout) == [{"type": "pong", "message": "pong"}]
    assert not (tmp_path / "elsewhere").exists()


# -- the two commands of the design ------------------------------------------------------------


def test_an_unknown_namespace_is_refused_with_the_known_ones(home: Path) -> None:
    result = synapse("nowhere", "chat_async", "--name", "s", "--prompt", "…", home=home)
    assert refusal(result, 2) == "unknown namespace 'nowhere'"
    listed = result.stderr.partition("There are: ")[2].strip().split(", ")
    assert listed[0] == "plexus"
    assert listed[-1] == "self"
    assert {"cli", "echo", "health", "solar"} < set(listed)


def test_a_handle_of_an_unknown_plugin_is_not_found(home: Path) -> None:
    handle = "nobody@1.0.0::chat:msg-550e8400:user:bob"
    result = synapse("plexus", "resolve_handle", "--handle", handle, home=home)
    assert refusal(result, 3) == "no plugin 'nobody' owns this handle"
    known = result.stderr.partition("These plugins have handles")[2]
    assert all(name in known for name in ("cli", "echo", "solar"))


def test_a_handle_is_resolved(home: Path) -> None:
    [said] = lines(synapse("cli", "say", "--text", "a:b %", home=home).stdout)
    found = synapse("plexus", "resolve_handle", "--handle", said["handle"], home=home)
    [resolved] = lines(found.stdout)
    assert resolved["kind"] == "message"
    assert resolved["data"]["text"] == "a:b %"


# -- output ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [(), ("-j",), ("--json",), ("-o", "ndjson"), ("-o", "auto")])
def test_a_pipe_gets_one_compact_object_per_event_per_line(
    home: Path, option: tuple[str, ...]
) -> None:
    result = synapse("echo", "echo", "--message", "é", "--count", "2", *option, home=home)
    one, two = result.stdout.splitlines()
    assert one == '{"type":"echo","message":"é","count":1,"handle":"echo@1.0.0::once:é"}'
    assert json.loads(two)["count"] == 2


def test_json_is_the_object_of_one_event_and_the_array_of_a_stream(home: Path) -> None:
    single = synapse("echo", "ping", "-o", "json", home=home)
    assert json.loads(single.stdout) == {"type": "pong", "message": "pong"}
    stream = synapse("echo", "echo", "--message", "x", "--count", "3", "-o", "json", home=home)
    assert [event["count"] for event in json.loads(stream.stdout)] == [1, 2, 3]
    empty = synapse("plexus", "search", "--query", "zzz", "-o", "json", home=home)
    assert empty.stdout == "[]\n"


def test_items_are_whole_stream_items(home: Path) -> None:
    result = synapse("echo", "ping", "--items", home=home)
    data, done = lines(result.stdout)
    assert (data["type"], data["content_type"], done["type"]) == ("data", "echo.ping", "done")
    assert data["metadata"]["provenance"] == ["plexus", "echo", "ping"]


def test_items_of_a_failed_call_end_with_guidance_error_and_done(home: Path) -> None:
    result = synapse("cli", "fail", "--code", "conflict", "--items", home=home)
    assert [item["type"] for item in lines(result.stdout)] == ["guidance", "error", "done"]
    assert (result.returncode, result.stderr.splitlines()[0]) == (7, "synapse: it failed")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("name", {"name": "Earth"}),
        ("name,moons.0", {"name": "Earth", "moons.0": "Luna"}),
        ("moons.7, parent", {"moons.7": None, "parent": "Sun"}),
    ],
)
def test_fields_are_picked_from_an_event(home: Path, fields: str, expected: object) -> None:
    result = synapse("solar", "earth", "info", "--fields", fields, home=home)
    assert lines(result.stdout) == [expected]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [("handle", "echo@1.0.0::once:hi\n"), ("count", "1\n"), ("message,count", "hi\t1\n")],
)
def test_raw_is_the_text_of_the_picked_fields(home: Path, fields: str, expected: str) -> None:
    words = ("echo", "once", "--message", "hi", "-o", "raw", "--fields", fields)
    assert synapse(*words, home=home).stdout == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [((), ["Half and half"]), (("--fields", "content"), ["Well?", "Half and half"])],
)
def test_raw_joins_the_pieces_of_a_text(
    home: Path, more: tuple[str, ...], expected: list[str]
) -> None:
    result = synapse("cli", "pieces", "-o", "raw", *more, home=home)
    assert result.stdout.splitlines() == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("talk", "The first block.\nThe second.\n"),
        ("talk --no-live", "The first block.\nThe second.\n"),
        ("chat --end complete", "Hello\n"),
        ("recorded", "The answer.\n"),
        ("messages", "Well?\nThe answer.\n"),
    ],
)
def test_raw_is_the_assistants_text_once(home: Path, words: str, expected: str) -> None:
    result = synapse("cli", *words.split(), "--raw", home=home)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


def test_raw_of_a_real_chat_fits_into_a_variable(home: Path) -> None:
    script = """
    x=$(synapse claudecode chat --name raw --model offline --prompt 'hello raw' --raw) || exit 9
    y=$(synapse claudecode follow --name raw --raw) || exit 8
    printf '%s\n' "$x" "$y"
    synapse cone create --name raw >/dev/null
    synapse cone chat --identifier raw --prompt 'hello cone' --raw 2>/dev/null
    """
    result = shell(script, home=home)
    first, second, third = result.stdout.splitlines()
    assert first == second
    assert (first.count("hello raw"), third.count("hello cone")) == (1, 1)
    assert "::" not in result.stdout


@pytest.mark.parametrize("output", [(), ("-o", "json"), ("--raw",)])
def test_fields_pick_from_the_rows_of_an_event(home: Path, output: tuple[str, ...]) -> None:
    words = ("cli", "pages", "--count", "2", "--fields", "name,size", *output)
    result = synapse(*words, home=home)
    rows = [{"name": "name-0", "size": 0}, {"name": "name-1", "size": 1}]
    if output == ("--raw",):
        assert result.stdout == "name-0\t0\nname-1\t1\n"
    else:
        assert lines(result.stdout) == ([rows] if output else rows)


def test_an_empty_list_has_no_rows(home: Path) -> None:
    result = synapse("cli", "pages", "--count", "0", "--fields", "name", home=home)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("solar earth info --fields nmae", "Did you mean name"),
        ("solar earth info --fields name,moons.x", ""),
        ("cli pages --fields siez", "Did you mean size?"),
        # The schema leaves these open, so the event decides.
        ("cli anything --fields values.color", "Did you mean values.colour"),
    ],
)
def test_an_unknown_field_is_a_usage_error_with_the_nearest_name(
    home: Path, words: str, hint: str
) -> None:
    result = synapse(*words.split(), home=home)
    assert refusal(result, 2).startswith("unknown field ")
    assert hint in result.stderr
    if words.startswith("cli anything"):
        for output in ("-o json", "-o table", "--raw"):
            result = synapse(*words.split(), *output.split(), home=home)
            assert refusal(result, 2).startswith("unknown field ")


def test_a_field_that_only_the_event_declares_is_picked(home: Path) -> None:
    result = synapse("cli", "anything", "--fields", "values.colour", home=home)
    assert lines(result.stdout) == [{"values.colour": "red"}]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_handle_from_stdin_may_end_with_a_newline(home: Path, end: str) -> None:
    handle = "echo@1.0.0::once:hi"
    words = ("plexus", "resolve-handle", "--handle", "-")
    result = synapse(*words, home=home, stdin=handle + end)
    assert [event["handle"] for event in lines(result.stdout)] == [handle]


def test_a_text_from_stdin_keeps_its_newline(home: Path) -> None:
    result = synapse("echo", "once", "--message", "-", home=home, stdin="hi\n")
    assert lines(result.stdout)[0]["message"] == "hi\n"


def test_a_handle_can_be_given_as_an_object(home: Path) -> None:
    handle = '{"plugin":"echo","version":"1.0.0","method":"once","meta":["hi"]}'
    tree = lines(synapse("arbor", "tree-create", home=home).stdout)[0]["tree_id"]
    words = ("arbor", "node-create-external", "--tree-id", str(tree), "--handle", handle)
    created = synapse(*words, home=home)
    assert created.returncode == 0, created.stderr
    assert lines(created.stdout)[0]["content"] == "echo@1.0.0::once:hi"
    resolved = synapse("plexus", "resolve-handle", "--handle", handle, home=home)
    assert lines(resolved.stdout)[0]["handle"] == "echo@1.0.0::once:hi"


def test_a_table_can_be_asked_for_in_a_pipe(home: Path) -> None:
    result = synapse("solar", "observe", "-o", "table", "--fields", "name,moons", home=home)
    header, mercury, *_ = result.stdout.splitlines()
    assert header.split() == ["name", "moons"]
    assert mercury.split() == ["Mercury"]
    assert "\x1b" not in result.stdout


def test_an_output_that_does_not_exist_is_refused(home: Path) -> None:
    result = synapse("echo", "ping", "-o", "yaml", home=home)
    assert refusal(result, 2).startswith("--output must be one of auto, json")


def test_output_for_programs_is_utf8_in_every_locale(home: Path) -> None:
    result = synapse(
        *("echo", "once", "--message", "é🎉", "-o", "json"), home=home, PYTHONIOENCODING="ascii"
    )
    assert json.loads(result.stdout)["message"] == "é🎉"


# -- input -------------------------------------------------------------------------------------

AWKWARD = "$HOME `id` \"quoted\" 'single' \\n back\\slash\nnew line\t🎉 é \u2028 end "


@pytest.mark.parametrize("how", ["argument", "equals", "file", "stdin", "params", "params stdin"])
def test_text_arrives_unchanged(home: Path, tmp_path: Path, how: str) -> None:
    file = tmp_path / "prompt"
    file.write_text(AWKWARD, encoding="utf-8")
    params = json.dumps({"message": AWKWARD})
    arguments, stdin = {
        "argument": (("--message", AWKWARD), None),
        "equals": ((f"--message={AWKWARD}",), None),
        "file": (("--message", f"@{file}"), None),
        "stdin": (("--message", "-"), AWKWARD),
        "params": (("--params", params), None),
        "params stdin": (("--params", "-"), params),
    }[how]
    # The fast way and, for the sake of the output, the other one.
    for output in ((), ("-o", "json")):
        result = synapse("echo", "once", *arguments, *output, home=home, stdin=stdin)
        assert lines(result.stdout)[0]["message"] == AWKWARD


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_four_megabytes_arrive_unchanged(home: Path, output: tuple[str, ...]) -> None:
    prompt = "0123456789 é🎉\n" * 240_000
    result = synapse("cli", "words", "--text", "-", *output, home=home, stdin=prompt)
    assert len(prompt.encode()) > 4_000_000
    assert lines(result.stdout)[0]["text"] == prompt


@pytest.mark.parametrize("value", ["--", "-", "-x", "@name"])
@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_values_that_look_like_flags_can_be_written(
    home: Path, value: str, output: tuple[str, ...]
) -> None:
    written = f"@{value}" if value.startswith("@") else value
    result = synapse("echo", "once", f"--message={written}", *output, home=home)
    assert lines(result.stdout)[0]["message"] == value


def test_a_method_with_needs_context_gets_directory_and_environment(
    home: Path, tmp_path: Path
) -> None:
    for option in ((), ("-o", "json")):
        result = synapse("cli", "where", *option, home=home, cwd=str(tmp_path), GREETING="hé")
        assert lines(result.stdout) == [{"type": "where", "cwd": str(tmp_path), "greeting": "hé"}]


def test_a_dry_run_prints_the_request_and_sends_nothing(home: Path) -> None:
    result = synapse("cli", "working", "--key", "dry", "--dry-run", home=home)
    request = json.loads(result.stdout)
    assert request["method"] == "plexus.call"
    assert request["params"] == {"method": "cli.working", "params": {"key": "dry"}}
    assert lines(synapse("cli", "calls", "--key", "dry", home=home).stdout)[0]["n"] == 0


def test_a_dry_run_does_not_print_the_environment(home: Path) -> None:
    result = synapse("cli", "where", "--dry-run", home=home, GREETING="secret")
    assert "context" in json.loads(result.stdout)["params"]
    assert "secret" not in result.stdout


def test_the_schema_of_a_method_and_of_a_namespace_can_be_printed(home: Path) -> None:
    method = json.loads(synapse("cli", "stroke", "--schema", home=home).stdout)
    assert method["annotations"]["completes"] == {"pet": "cli.pets"}
    namespace = json.loads(synapse("solar", "earth", "--schema", home=home).stdout)
    assert namespace["namespace"] == "solar.earth"
    assert [entry["name"] for entry in namespace["methods"]] == ["info"]


# -- how it ends -------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "status"), EXIT_CODES.items())
def test_every_error_code_has_its_exit_status(home: Path, code: str, status: int) -> None:
    result = synapse("cli", "fail", "--code", code, home=home)
    assert refusal(result, status) == "it failed"


@pytest.mark.parametrize("option", ["json", "raw", "table"])
def test_an_error_leaves_stdout_empty_in_every_output(home: Path, option: str) -> None:
    result = synapse("cli", "fail", "--code", "timeout", "-o", option, home=home)
    assert refusal(result, 6) == "it failed"


def test_a_stream_that_fails_before_its_first_event_prints_no_array(home: Path) -> None:
    handle = "nobody@1.0.0::chat:x"
    result = synapse("plexus", "resolve-handle", "--handle", handle, "-o", "json", home=home)
    refusal(result, 3)


@pytest.mark.parametrize("option", [(), ("-o", "json"), ("-o", "table")])
def test_events_before_an_error_are_shown(home: Path, option: tuple[str, ...]) -> None:
    result = synapse("cli", "half", *option, home=home)
    assert result.returncode == 1
    assert "so far" in result.stdout
    assert result.stderr.splitlines()[0] == "synapse: it failed half way"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        *(("complete", 0), ("approved", 0), ("waiting", 8), ("denied", 8), ("went on", 8)),
        *(("refused by the agent", 8), ("error", 1), ("failed", 5)),
    ],
)
def test_the_final_state_of_a_chat_decides_the_status(home: Path, end: str, status: int) -> None:
    result = synapse("cli", "chat", "--end", end, home=home)
    assert result.returncode == status
    reasons = {
        "waiting": "the chat waits for an approval of Bash",
        "denied": "a tool call was denied: Bash",
        "went on": "the chat is complete, but a tool call was denied: Bash",
        "refused by the agent": "the chat is complete, but a tool call was denied: Write",
        "error": "the chat failed: the model gave up",
    }
    if end in reasons:
        assert result.stderr == f"synapse: {reasons[end]}\n"
    assert lines(result.stdout)[:2] == [
        {"type": "content_delta", "text": "Hel"},
        {"type": "content_delta", "text": "lo"},
    ]


def test_a_call_ends_after_its_timeout(home: Path) -> None:
    result = synapse("cli", "slow", "--key", "late", "--timeout", "1", home=home)
    assert result.returncode == 6
    assert lines(result.stdout) == [{"type": "step", "n": 0}]
    assert result.stderr == "synapse: the call did not end in time\n"
    assert lines(synapse("cli", "ended", "--key", "late", home=home).stdout) == [
        {"type": "note", "text": "cleaned up"}
    ]


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_an_invalid_timeout_is_refused(home: Path, text: str) -> None:
    result = synapse("echo", "ping", f"--timeout={text}", home=home)
    assert refusal(result, 2).startswith("--timeout must be a number of seconds")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("ecko ping", "unknown namespace 'ecko'", "Did you mean echo"),
        ("echo pong", "'echo' has no method or namespace 'pong'", "Did you mean ping?"),
        ("solar earth moon", "'solar earth' has no method or namespace 'moon'", ""),
        ("echo once --mesage x", "unknown parameter --mesage", "--message"),
        ("echo echo --message x --count y", "--count must be a whole number, not 'y'", ""),
        ("cli ask --kind maybe", "--kind must be one of confirm, prompt", ""),
        ("echo once hello", "unexpected argument 'hello'", ""),
        ("--bogus echo", "unknown option --bogus", ""),
        ("echo ping --timeout", "--timeout needs a value", ""),
        ("echo once --message @/no/such/file", "/no/such/file cannot be read", "@@"),
        ("self bogus", "No such command 'bogus'", "synapse self --help"),
        ("self status --bogus", "No such option: --bogus", "synapse self --help"),
        ("self schema nowhere", "unknown namespace 'nowhere'", ""),
        ("self completion show tcsh", "no completion for 'tcsh'", ""),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name(
    home: Path, arguments: str, message: str, hint: str
) -> None:
    result = synapse(*arguments.split(), home=home)
    assert refusal(result, 2).startswith(message)
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("words", "message", "usage"),
    [
        ("cli say", "missing --text", "cli say --text TEXT"),
        (
            "claudecode chat",
            "missing --name and --prompt",
            "claudecode chat --name NAME --prompt TEXT",
        ),
        (
            "claudecode get",
            "missing --name or --session-id",
            "claudecode get (--name NAME | --session-id ID)",
        ),
    ],
)
def test_a_missing_parameter_is_answered_with_the_usage_line(
    home: Path, words: str, message: str, usage: str
) -> None:
    result = synapse(*words.split(), home=home)
    assert refusal(result, 2) == message
    [_, hint] = result.stderr.splitlines()
    assert hint == f"         synapse {usage}      (--help shows all parameters)"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_usage_error_has_two_lines_on_a_terminal(home: Path, columns: int) -> None:
    status, text = at_terminal("claudecode", "fork", home=home, columns=columns)
    usage = "synapse claudecode fork --new-name NAME (--name NAME | --session-id ID)"
    note = "" if columns == 80 else "      (--help shows all parameters)"
    assert (status, screen(text, columns)) == (
        2,
        ["synapse: missing --new-name", f"         {usage}{note}", ""],
    )


def test_a_request_that_the_hub_refuses_is_a_usage_error(home: Path) -> None:
    result = synapse("echo", "echo", "--message", "x", "--count", "0", home=home)
    assert refusal(result, 2) == "parameter 'count' must be 1 or more"


def test_an_error_is_always_one_line(home: Path) -> None:
    result = synapse("cli", "hostile-end", home=home)
    progress, message, hint = result.stderr.splitlines()
    assert progress.endswith("10 %")
    assert (result.returncode, message) == (7, f"synapse: {TAME} second line")
    assert hint.strip() == TAME


def test_questions_are_answered_from_the_command_line(home: Path) -> None:
    def ask(kind: str, *answers: str) -> str:
        result = synapse("cli", "ask", "--kind", kind, *answers, home=home)
        assert result.stderr == ""
        return str(lines(result.stdout)[0]["text"])

    assert ask("confirm", "--yes") == "True"
    assert ask("confirm", "--answer", "no") == "False"
    assert ask("prompt", "--answer", "é $x") == "'é $x'"
    assert ask("select", "--answer", "Green") == "['g']"
    assert ask("keys", "--answer", "y") == ask("keys", "--answer", "g") == "['g']"
    assert ask("many", "--answer", "r,3") == "['r', 'b']"
    assert ask("custom", "--answer", '{"a": 1}') == "{'a': 1}"


def test_yes_answers_the_yes_no_question_and_answer_the_next_one(home: Path) -> None:
    result = synapse("cli", "two-questions", "--yes", "--answer", "Tom", home=home)
    assert lines(result.stdout) == [{"type": "note", "text": "True Tom"}]


def test_a_destructive_method_runs_in_a_script_without_a_question(home: Path) -> None:
    result = synapse("cli", "hide", home=home)
    assert (lines(result.stdout), result.stderr) == ([{"type": "note", "text": "it is gone"}], "")


def test_progress_in_a_pipe_is_at_most_a_line_a_second(home: Path) -> None:
    for output in ((), ("-o", "json"), ("-o", "table")):
        result = synapse("cli", "busy", *output, home=home)
        reported = result.stderr.splitlines()
        assert reported[0] == "step 0"
        assert len(reported) < 100
        assert "worked" in result.stdout


@pytest.mark.parametrize(("kind", "wrong"), [("confirm", "perhaps"), ("select", "mauve")])
def test_an_answer_that_does_not_fit_is_refused(home: Path, kind: str, wrong: str) -> None:
    result = synapse("cli", "ask", "--kind", kind, "--answer", wrong, home=home)
    assert wrong in refusal(result, 2)


@pytest.mark.parametrize("option", [(), ("--no-input",), ("--yes",)])
def test_a_question_without_an_answer_ends_the_call(home: Path, option: tuple[str, ...]) -> None:
    result = synapse("cli", "ask", "--kind", "prompt", *option, home=home)
    assert refusal(result, 1) == "the method asks 'Well?', and there is no terminal"


@pytest.mark.parametrize(
    ("program", "number"),
    [
        pytest.param(SYNAPSE, signal.SIGINT, id="while it waits"),
        pytest.param(MISSES_SIGNALS, signal.SIGUSR1, id="just before it waits"),
    ],
)
def test_an_interrupt_ends_a_call_in_a_script(
    home: Path, program: tuple[str, ...], number: int
) -> None:
    process = subprocess.Popen(
        [*program, "cli", "slow", "--key", "script"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(home),
    )
    with process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"type": "step", "n": 0}
            synapse("echo", "ping", home=home)  # which takes longer than to begin to wait
            process.send_signal(number)
            _, stderr = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, stderr) == (130, b"")


# -- scripts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["", "-o raw", "-o table", "--items"])
def test_a_closed_pipe_ends_the_command_quietly(home: Path, output: str) -> None:
    command = f"synapse echo echo --message x --count 20000 {output}"
    result = shell(f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}", home=home)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "0"


def test_closed_stdin_and_stdout_are_accepted(home: Path) -> None:
    result = shell("synapse echo ping -o json >&- <&-; echo $?", home=home)
    assert (result.stdout, result.stderr) == ("0\n", "")


def test_forty_calls_eight_at_a_time_all_answer(home: Path) -> None:
    script = "seq 40 | xargs -P8 -I{} synapse echo once --message {}"
    result = shell(script, home=home)
    assert (result.returncode, result.stderr) == (0, "")
    messages = sorted(int(event["message"]) for event in lines(result.stdout))
    assert messages == list(range(1, 41))


def test_a_shell_loop_reads_an_event_a_line(home: Path) -> None:
    script = (
        "synapse echo echo --message 'a b' --count 3 | "
        "while read -r event; do echo got ${#event}; done"
    )
    assert len(shell(script, home=home).stdout.splitlines()) == 3


def test_jq_reads_the_events(home: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("NOT TESTED: jq is not installed, piping into it was not tried")
    result = shell("synapse solar observe | jq -r .name | tail -n 1", home=home)
    assert (result.stdout, result.stderr) == ("Neptune\n", "")


# -- the daemon and the cache ------------------------------------------------------------------


def cache_files(home: Path) -> list[str]:
    directory = Path(Paths(str(home)).cache)
    # Conversations have their histories in a directory of it.
    files = [path for path in directory.iterdir() if path.is_file()] if directory.exists() else []
    return sorted(path.name for path in files)


def test_without_a_daemon_the_first_call_starts_one_and_fills_the_cache(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = synapse("echo", "ping", "--no-autostart", home=home)
    assert refusal(refused, 5).startswith("no daemon listens on")
    assert not home.exists()
    try:
        result = synapse("echo", "ping", home=home)
        assert (result.returncode, result.stderr) == (0, "")
        assert lines(result.stdout) == [{"type": "pong", "message": "pong"}]
        assert len(cache_files(home)) == 1
    finally:
        wait_for_stop(home)
    # The cache is there, the daemon is not: help works, calls are refused.
    shown = synapse("solar", "earth", "info", "--help", "--no-autostart", home=home)
    assert shown.stdout.startswith("solar.earth.info - Show the data of this body.")
    assert "Namespaces:" in synapse("--no-autostart", home=home).stdout
    assert refusal(synapse("echo", "ping", "--no-autostart", home=home), 5)
    assert json.loads(synapse("self", "status", "--json", home=home).stdout)["running"] is False


def test_a_daemon_that_cannot_start_is_reported_in_one_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "hub.db").write_bytes(b"this is not a database" * 100)
    message = refusal(synapse("echo", "ping", home=home), 5)
    assert message.startswith("the daemon could not be started: ")


def test_a_hub_that_changes_is_noticed_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Daemon(home, *PLUGIN):
        assert synapse("cli", "say", "--text", "x", home=home).returncode == 0
        [before] = cache_files(home)
        old = (home / "cache" / before).read_bytes()
    with Daemon(home, *LATER_PLUGIN):
        # A removed command, then one whose parameters changed, then a new one.
        gone = synapse("cli", "rows", home=home)
        assert refusal(gone, 2) == "'cli' has no method or namespace 'rows'"
        assert (home / "cache" / before).read_bytes() != old

        (home / "cache" / before).write_bytes(old)
        wrong = synapse("cli", "say", "--text", "x", home=home)
        assert wrong.returncode == 2
        assert wrong.stderr.startswith("synapse: missing --volume\n")
        assert "--volume NUMBER" in wrong.stderr

        for option in ((), ("--items",)):
            (home / "cache" / before).write_bytes(old)
            changed = synapse("cli", "say", "--text", "x", "--volume", "3", *option, home=home)
            assert changed.returncode == 0, changed.stderr
            assert "x at 3, flat" in changed.stdout

            (home / "cache" / before).write_bytes(old)
            new = synapse("cli", "sing", "--text", "x", *option, home=home)
            assert "la x" in new.stdout

            # What works with the old schema too renews it all the same.
            (home / "cache" / before).write_bytes(old)
            same = synapse("cli", "words", *option, home=home)
            assert "other words" in same.stdout
            assert (home / "cache" / before).read_bytes() != old

            # The old one has `fail --code`, too: it failed by itself, and is not tried again.
            (home / "cache" / before).write_bytes(old)
            failed = synapse("cli", "fail", "--code", "not_found", *option, home=home)
            assert failed.returncode == 3
            assert failed.stderr.startswith("synapse: it failed later\n")
            assert (home / "cache" / before).read_bytes() != old
        [count] = lines(synapse("cli", "calls", "--key", "", home=home).stdout)
        assert count["n"] == 2


def test_a_repeated_call_reports_only_its_second_failure(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Daemon(home, *PLUGIN):
        synapse("echo", "ping", home=home)
    with Daemon(home, *LATER_PLUGIN):
        result = synapse("cli", "say", "--text", "x", "--role", "r", "--items", home=home)
        assert (result.returncode, result.stdout) == (2, "")


@pytest.mark.parametrize("rubbish", [b"", b"synapse cache 1\n", b"\x00" * 4096])
def test_a_cache_that_cannot_be_read_is_made_anew(home: Path, rubbish: bytes) -> None:
    [name] = cache_files(home)
    (home / "cache" / name).write_bytes(rubbish)
    assert lines(synapse("echo", "ping", home=home).stdout)[0]["message"] == "pong"
    assert (home / "cache" / name).read_bytes() != rubbish


def test_the_death_of_the_daemon_during_a_call_is_reported(tmp_path: Path) -> None:
    def started(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*SYNAPSE, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(daemon.home),
            text=True,
        )

    with (
        Daemon(tmp_path / "home", *PLUGIN) as daemon,
        started("cli", "slow", "--key", "k") as slow,
        started("cli", "linger", "--key", "a chat", "--queued") as chat,
    ):
        assert slow.stdout is not None
        slow.stdout.readline()
        assert chat.stderr is not None
        assert chat.stderr.readline() == "queued behind 1 chat\n"
        daemon.kill()
        _, stderr = slow.communicate(timeout=20)
        _, of_chat = chat.communicate(timeout=20)
    hint = "See what happened: hubd logs, synapse self doctor"
    told = f"synapse: the daemon ended during the call\n         {hint}"
    assert (slow.returncode, stderr) == (5, f"{told}\n")
    follow = "Continue reading: synapse cli follow --key 'a chat'"
    assert (chat.returncode, of_chat) == (5, f"{told}   {follow}\n")


def test_a_socket_in_an_unsafe_directory_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    assert "is not safe to use" in refusal(synapse("echo", "ping", home=home), 4)


def test_calls_work_with_a_home_that_is_not_writable(home: Path) -> None:
    (home / "cache").rename(home / "kept")
    (home / "cache").write_text("in the way")
    try:
        result = synapse("echo", "ping", home=home)
    finally:
        (home / "cache").unlink()
        (home / "kept").rename(home / "cache")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_full_disk_behind_stdout_is_one_line(home: Path) -> None:
    for arguments in (["echo", "ping"], ["echo", "--help"]):
        with Path("/dev/full").open("w") as full:
            result = subprocess.run(
                [sys.executable, "-m", "synapse", *arguments],
                env=environment(HUBD_HOME=str(home)),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert result.returncode == 1
        assert result.stderr.startswith("synapse: the output cannot be written")
        assert len(result.stderr.splitlines()) == 1


def test_an_explicit_home_beats_the_hub_of_the_environment(home: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "synapse", "--home", str(home), "self", "status", "--json"],
        env=environment(SYNAPSE_HUB="ws://127.0.0.1:9"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout)["hub"] == str(home / "hub.sock")


def test_the_older_forms_of_a_handle_can_be_sent(home: Path) -> None:
    form = {"plugin": "echo", "version": "1.0.0", "method": "once", "meta": ["hi"]}
    params = json.dumps({"handle": form})
    result = synapse("plexus", "resolve_handle", "--params", params, home=home)
    assert lines(result.stdout)[0]["handle"] == "echo@1.0.0::once:hi"


def test_call_carries_the_context_and_the_answers_of_the_method_it_calls(home: Path) -> None:
    result = synapse(
        "plexus", "call", "--method", "cli.ask", "--params.kind", "confirm", "--yes", home=home
    )
    assert lines(result.stdout)[0]["text"] == "True"


def test_a_silent_hub_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Daemon(tmp_path / "home") as daemon:
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            monkeypatch.setattr(refresh, "ANSWER_SECONDS", 0.1)
            connection = UnixConnection(daemon.paths.socket)
            with pytest.raises(CommandError, match="does not answer within") as caught:
                refresh.current(str(tmp_path / "cache"), connection)
            connection.close()
        finally:
            daemon.process.send_signal(signal.SIGCONT)
    assert caught.value.status == 6


def test_a_parameter_named_like_a_hub_option_belongs_to_the_method(tmp_path: Path) -> None:
    plugin = ("--plugin", "tests.synapse.test_calls:Homely")
    elsewhere = tmp_path / "elsewhere"
    command = ["homely", "say", "--home", str(elsewhere)]
    with Daemon(tmp_path / "home", *plugin) as daemon:
        # Without a cache, from the cache, and the full way.
        for more in ([], [], ["--fields", "home"], ["--dry-run"]):
            result = subprocess.run(
                [sys.executable, "-m", "synapse", "--home", str(daemon.home), *command, *more],
                env=environment(),
                capture_output=True,
                text=True,
                check=True,
            )
            assert str(elsewhere) in result.stdout
    assert not elsewhere.exists()


class Home(Event):
    home: str


class Homely(Activation, namespace="homely", version="1.0.0"):
    """Has a parameter of the name of one of synapse's own options."""

    @method
    async def say(self, home: str) -> AsyncIterator[Home]:
        """Say it back."""
        yield Home(home=home)
