"""Other Plexus servers: synapse needs `_info`, `{root}.call` and `{root}.schema`, and no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.plexus_server import ROOT, PlexusServer, running
from tests.synapse.support import Result, Terminal, at_terminal, refusal, synapse


@pytest.fixture(scope="module")
def server() -> Iterator[PlexusServer]:
    with running(PlexusServer()) as served:
        yield served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def call(server: PlexusServer, home: Path, *words: str) -> Result:
    result = synapse("--hub", server.url, *words, home=home)
    assert "Traceback" not in result.stderr
    return result


def test_only_the_methods_that_every_server_has_are_sent(server: PlexusServer, home: Path) -> None:
    server.methods.clear()
    greeted = call(server, home, "tools", "greet", "--name", "Tom")
    assert (greeted.stdout, greeted.stderr) == ('{"text":"hello Tom"}\n', "")
    assert call(server, home, ROOT, "ping").stdout == '{"pong":true}\n'
    assert set(server.methods) == {"_info", f"{ROOT}.call"}


def test_a_server_that_describes_only_its_root_can_be_called(tmp_path: Path) -> None:
    with running(PlexusServer(describes_by_call=False)) as served:
        assert call(served, tmp_path, ROOT, "ping").stdout == '{"pong":true}\n'
        assert set(served.methods) == {"_info", f"{ROOT}.call", f"{ROOT}.schema"}


def test_unknown_items_and_missing_fields_are_accepted(server: PlexusServer, home: Path) -> None:
    for output in ("-o json", "-o ndjson", "-o table", "--raw", "--items"):
        result = call(server, home, "tools", "odd", *output.split())
        assert result.returncode == 0, output
        assert "first" in result.stdout
        assert "second" in result.stdout
    picked = call(server, home, "tools", "odd", "--fields", "text")
    assert picked.stdout == '{"text":"first"}\n{"text":"second"}\n'


def test_an_error_without_a_code_is_a_failure(server: PlexusServer, home: Path) -> None:
    assert refusal(call(server, home, "tools", "fail"), 1) == "cannot do tools.fail"


@pytest.mark.parametrize(
    "words",
    [
        *("", "tools", "tools greet --help", "tools --schema", "tools greet --schema"),
        *("self status", "self doctor", "self schema tools", "self version", "self cache"),
    ],
)
def test_help_schemas_and_self_work(server: PlexusServer, home: Path, words: str) -> None:
    result = call(server, home, *words.split())
    assert (result.returncode, result.stderr) == (0, "")
    if words == "":
        # A namespace that does not describe itself is left out.
        assert "tools" in result.stdout
        assert "silent" not in result.stdout


def test_a_terminal_shows_the_events(server: PlexusServer, home: Path) -> None:
    status, text = at_terminal("--hub", server.url, "tools", "odd", home=home)
    assert (status, "Traceback" in text, "second" in text) == (0, False, True)


def test_a_question_that_was_answered_elsewhere_is_withdrawn(
    server: PlexusServer, home: Path
) -> None:
    with Terminal("--hub", server.url, "tools", "ask", home=home) as terminal:
        terminal.until("Sure? [y/n] ")
        server.answered_elsewhere.set()
        terminal.until("No answer is needed any more: answered elsewhere")
        terminal.until("went on")
        assert terminal.finish()[0] == 0
    assert f"{ROOT}.respond" not in server.methods
