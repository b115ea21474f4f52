"""Help at every level, and examples that run."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from synapse.help import method_help
from synapse.hub.cache import Cache, load
from synapse.hub.hubs import LocalHub
from tests.support import Daemon
from tests.synapse.support import PLUGIN, shell, synapse

NOTES = ("--plugin", "tests.sample_plugins.notes:Notes")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *PLUGIN, *NOTES) as daemon:
        synapse("echo", "ping", home=daemon.home)
        yield daemon.home


@pytest.fixture(scope="module")
def cache(home: Path) -> Cache:
    loaded = load(LocalHub(str(home), autostart=False).cache_file)
    assert loaded is not None
    return loaded


def test_the_help_of_a_method_with_handles(home: Path) -> None:
    result = synapse("cli", "say", "--help", home=home)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        """\
cli.say - Say something and hand out a handle to it.

Parameters:
  --text text  What to say. (required)
  --role text  Who says it. (default: user)

Returns: said
  said {text: string, role: string, model: string?, handle: handle}

Produces handles: cli@1.2.0::say
  meta[0]: text
  meta[1]: role

  Resolve returns: said (message)
    text: string
    role: string
    model: string?
    handle: handle

Example:
  synapse cli say --text hello
"""
    )


def test_parameters_show_their_types(home: Path) -> None:
    text = synapse("cli", "stroke", "-h", home=home).stdout
    assert "  --mood calm|wild      How it is. (default: calm)\n" in text
    assert "  --gently/--no-gently  Not roughly. (default: True)\n" in text
    assert "  --tags text…          Any words.\n" in text


def test_empty_defaults_are_not_shown(home: Path) -> None:
    text = synapse("mustache", "register_template", "-h", home=home).stdout
    assert "  --description text               The purpose of the template.\n" in text


def test_help_marks_streams(home: Path) -> None:
    assert "\nReturns: Stream[echo]\n" in synapse("echo", "echo", "--help", home=home).stdout
    assert "\nReturns: Stream[resolved | unresolved]\n" in (
        synapse("plexus", "resolve_handle", "--help", home=home).stdout
    )


@pytest.mark.parametrize("words", [("solar", "earth"), ("solar", "earth", "--help")])
def test_a_namespace_shows_its_methods_children_and_handles(
    home: Path, words: tuple[str, ...]
) -> None:
    result = synapse(*words, home=home)
    assert result.returncode == 0
    assert result.stdout == (
        """\
solar.earth - Earth, a planet of Sun

Methods:
  info  Show the data of this body.

Namespaces:
  luna  Luna, a moon of Earth

Handles:
  solar.earth@1.0.0::info  The handle of one body of the solar system.

synapse solar earth info --help shows one method.
"""
    )


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_synapse_alone_lists_all_namespaces(home: Path, words: tuple[str, ...]) -> None:
    result = synapse(*words, home=home)
    assert (result.returncode, result.stderr) == (0, "")
    rows = result.stdout.partition("Namespaces:\n")[2].partition("\n\n")[0].splitlines()
    names = [line.split()[0] for line in rows]
    # The heaviest first, the others by name, the root and synapse itself last.
    assert names[:4] == ["claudecode", "loopback", "cone", "arbor"]
    assert names[-2:] == ["plexus", "self"]
    weightless = names[names.index("cli") : -2]
    assert weightless == sorted(weightless)
    assert {"cli", "echo", "health", "notes", "solar"} < set(names)
    assert next(line for line in rows if "solar" in line).endswith("(28 namespaces below)")
    assert all(len(line.split()) > 2 for line in rows)
    assert ("Exit status: 0 done, 1 failed, 2 usage" in result.stdout) == bool(words)
    commands = result.stdout.partition("Try:\n")[2].partition("\n\n")[0].splitlines()
    assert [command.split()[1:3] for command in commands] == [
        *(["claudecode", "create"], ["claudecode", "chat"], ["loopback", "pending"])
    ]


def test_the_root_help_names_every_option(home: Path) -> None:
    from synapse.argv import OPTIONS

    text = synapse("--help", home=home).stdout
    # A token on the command line shows in `ps`, so it is not advertised.
    assert [name for name in OPTIONS if name not in text and name != "--token"] == []


BUILT_IN = (
    "plexus",
    "arbor",
    "echo",
    "health",
    "mustache",
    "solar",
    "solar.earth",
    "solar.earth.luna",
    "notes",
)


def example(cache: Cache, path: str, method: str) -> str:
    text = method_help(cache, path, method).rstrip()
    return text.rpartition("\nExample:\n")[2] if "\nExample:\n" in text else ""


def test_every_example_runs(home: Path, cache: Cache) -> None:
    # Examples use the first tree that there is; some delete it.
    methods = [(path, method) for path in BUILT_IN for method in cache.methods(path)]
    examples = list(filter(None, (example(cache, *method) for method in methods)))
    assert len(examples) >= 15
    for _ in range(5):
        synapse("arbor", "tree-create", home=home)
    failed = []
    for text in examples:
        # Only an example with a command inside another needs a shell.
        results = [
            shell(line, home=home) if "$(" in line else synapse(*shlex.split(line)[1:], home=home)
            for line in text.strip().splitlines()
        ]
        failed += [result for result in results if result.returncode or result.stderr]
    assert failed == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cone chat", ["cone create --name hello", "cone chat --identifier hello --prompt world"]),
        (
            "claudecode fork",
            ["claudecode create --name hello", "claudecode fork --new-name other --name hello"],
        ),
    ],
)
def test_an_example_begins_with_the_command_that_creates_its_object(
    cache: Cache, words: str, expected: list[str]
) -> None:
    text = example(cache, *words.split())
    assert text.split("\n") == [f"  synapse {line}" for line in expected]


def test_the_help_of_self_names_its_commands_and_the_exit_statuses(home: Path) -> None:
    for words in (("self", "--help"), ("self",), ("self", "-h")):
        result = synapse(*words, home=home)
        assert (result.returncode, result.stderr) == (0, "")
        for name in ("status", "doctor", "schema", "cache", "completion", "version"):
            assert f" {name} " in result.stdout
        assert "Usage: synapse self " in result.stdout
        assert "130 interrupted" in result.stdout


def test_the_version_is_shown_without_a_hub(tmp_path: Path) -> None:
    from hubd import __version__

    result = synapse("--version", "--no-autostart", home=tmp_path / "none")
    assert (result.returncode, result.stdout) == (0, f"synapse {__version__}\n")
    assert not (tmp_path / "none").exists()


def test_help_never_starts_a_daemon(tmp_path: Path) -> None:
    home = tmp_path / "none"
    own = synapse("--help", home=home)
    assert (own.returncode, own.stderr) == (0, "")
    assert "Start it: hubd start" in own.stdout
    assert "--no-autostart" in own.stdout
    method = synapse("cli", "say", "--help", home=home)
    assert method.returncode == 5
    assert "no daemon runs" in method.stderr
    assert not (home / "hub.sock").exists()


def test_help_comes_from_the_cache_while_the_daemon_is_down(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", *PLUGIN) as daemon:
        synapse("echo", "ping", home=daemon.home)
    for words in (("--help",), ("cli", "--help"), ("cli", "say", "--help"), ("cli",)):
        assert synapse(*words, home=daemon.home).returncode == 0
    assert not (daemon.home / "hub.sock").exists()


def test_aliases_are_shown(home: Path) -> None:
    printed = synapse("cone", "chat", "--help", home=home).stdout
    [line] = [line for line in printed.splitlines() if line.startswith("  --identifier ")]
    assert line.endswith("(required) (also --name)")
