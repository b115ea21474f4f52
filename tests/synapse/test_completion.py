"""Completion: the scripts, the candidates, and real shells."""

import json
import shutil
from pathlib import Path

import pytest

from synapse.commands.completion import FILES, script, write_all
from synapse.complete import BUILT_INS
from synapse.hub.cache import cache_path
from tests.synapse.support import (
    Terminal,
    path_with_synapse,
    shell,
    synapse,
)

ROOT = Path(__file__).parent.parent.parent
# Live values are left out when the hub does not answer within a moment, as on a busy machine.
ATTEMPTS = 20


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def complete(*words: str, home: Path, **env: str) -> dict[str, str]:
    """Return the candidates for the last word, with their descriptions."""
    result = synapse(*words, home=home, _SYNAPSE_COMPLETE="zsh", **env)
    assert (result.returncode, result.stderr) == (0, "")
    return dict(line.split("\t") for line in result.stdout.splitlines())


# -- the scripts -------------------------------------------------------------------------------


def test_the_scripts_in_the_repository_are_up_to_date(tmp_path: Path) -> None:
    write_all(str(tmp_path))
    assert {path.name for path in (ROOT / "completions").iterdir()} == set(FILES.values())
    for name in FILES.values():
        generated = (tmp_path / name).read_text()
        assert (ROOT / "completions" / name).read_text() == generated, f"{name} is stale"


def test_all_built_in_commands_are_offered(tmp_path: Path) -> None:
    for name, flags in BUILT_INS.items():
        text = synapse("self", name, "--help", home=tmp_path).stdout
        assert f"Usage: synapse self {name} " in text
        assert all(f" {flag} " in text for flag in flags)


# -- the answers -------------------------------------------------------------------------------


def test_namespaces_and_methods_are_offered_with_a_line_each(home: Path) -> None:
    assert complete("", home=home).keys() > {"plexus", "cli", "echo", "health", "solar", "self"}
    assert complete("ec", home=home) == {
        "echo": "Return messages, to try the hub or to test a connection."
    }
    assert complete("solar", "earth", "", home=home) == {
        "luna": "Luna, a moon of Earth",
        "info": "Show the data of this body.",
    }
    assert complete("plexus", "act", home=home).keys() == {"activations"}
    assert complete("nowhere", "", home=home) == {}


def test_flags_are_offered_until_they_are_given(home: Path) -> None:
    flags = complete("cli", "stroke", "--", home=home)
    assert flags["--mood"] == "How it is."
    assert flags.keys() >= {"--pet", "--gently", "--no-gently", "--tags", "--output", "--timeout"}
    given = complete("cli", "stroke", "--mood", "calm", "--tags", "x", "--gently", "--", home=home)
    assert "--mood" not in given
    assert "--gently" not in given
    for other in ("--animal", "--animal=Tom"):
        assert "--pet" not in complete("cli", "stroke", other, "--", home=home)
    # A list may go on, and yes may become no.
    assert {"--tags", "--no-gently"} <= given.keys()
    assert "--home" in complete("--", home=home)


def test_values_of_an_enum_are_offered(home: Path) -> None:
    assert complete("cli", "stroke", "--mood", "", home=home).keys() == {"calm", "wild"}
    assert complete("cli", "stroke", "--mood", "w", home=home).keys() == {"wild"}
    assert complete("cli", "stroke", "--mood=w", home=home).keys() == {"--mood=wild"}
    assert complete("cli", "stroke", "--gently", "--m", home=home).keys() == {"--mood"}
    assert complete("echo", "once", "--message", "", home=home) == {}


@pytest.mark.parametrize("words", [("-o", ""), ("--output", ""), ("echo", "ping", "-o", "")])
def test_the_outputs_are_offered(home: Path, words: tuple[str, ...]) -> None:
    found = complete(*words, home=home)
    assert found.keys() == {"auto", "json", "ndjson", "table", "raw"}


def test_live_values_come_from_the_hub_as_one_line_each(home: Path) -> None:
    for words in (("--pet", ""), ("--pet", "T"), ("--pet=T",)):
        for _ in range(ATTEMPTS):
            found = complete("cli", "stroke", *words, home=home)
            if found:
                break
        wanted = {"Tom", "Tiger::two", "with space"}
        prefix, typed = ("--pet=", "T") if len(words) == 1 else ("", words[1])
        assert found.keys() == {prefix + name for name in wanted if name.startswith(typed)}


def test_without_a_daemon_live_values_are_left_out_and_none_is_started(
    home: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    shutil.copytree(home / "cache", away / "cache")
    assert complete("cli", "stroke", "--mood", "", home=away).keys() == {"calm", "wild"}
    assert complete("cli", "stroke", "--pet", "", home=away) == {}
    assert [path.name for path in away.iterdir()] == ["cache"]


def test_without_a_cache_only_built_in_commands_are_offered(tmp_path: Path) -> None:
    away = tmp_path / "away"
    assert complete("", home=away).keys() == {"self"}
    assert complete("echo", "", home=away) == {}
    assert not away.exists()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("self|", set(BUILT_INS)),
        ("--home /tmp self|", set(BUILT_INS)),
        ("self do|", {"doctor"}),
        ("self cache --re|", {"--refresh"}),
        ("self completion|", {"show", "install"}),
        ("self completion show|", {"bash", "zsh", "fish"}),
        ("self status nothing more|", {"--json"}),
    ],
)
def test_the_commands_of_self_are_offered(home: Path, words: str, found: set[str]) -> None:
    typed = words.removesuffix("|").split(" ")
    last = () if typed[-1] in ("do", "--re") else ("",)
    assert complete(*typed, *last, home=home).keys() == found


def test_another_home_or_hub_is_completed_from_its_own_cache(home: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    assert complete("--home", str(home), "ec", home=away).keys() == {"echo"}
    assert complete("--hub", "ws://127.0.0.1:1", "ec", home=home) == {}
    assert complete("ec", home=home, SYNAPSE_HUB="ws://127.0.0.1:1") == {}
    # A command of another test may be writing its cache beside it.
    local = cache_path(str(home / "cache"))
    (away / "cache").mkdir(parents=True)
    shutil.copy(local, cache_path(str(away / "cache"), "ws://127.0.0.1:1"))
    assert complete("--hub", "ws://127.0.0.1:1", "ec", home=away).keys() == {"echo"}
    assert complete("--hub", "unknown", "ec", home=away) == {}


# -- the shells --------------------------------------------------------------------------------


def bash(line: list[str], home: Path) -> list[str]:
    """What bash's function answers for the last of some words."""
    words = " ".join(f"'{word}'" for word in line)
    result = shell(
        f"source {ROOT}/completions/synapse.bash\n"
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        "_synapse; printf '%s\\n' \"${COMPREPLY[@]}\"; complete -p synapse",
        home=home,
    )
    assert (result.returncode, result.stderr) == (0, "")
    *found, registered = result.stdout.splitlines()
    assert registered.endswith("-F _synapse synapse")
    return [name for name in found if name]


def fish(line: list[str], home: Path) -> list[str]:
    """What fish offers for a line that ends with the last of some words."""
    result = shell(
        f"source {ROOT}/completions/synapse.fish; complete -C '{' '.join(line)}'",
        home=home,
        program="fish",
    )
    assert (result.returncode, result.stderr) == (0, "")
    return [name.partition("\t")[0] for name in result.stdout.splitlines()]


@pytest.mark.parametrize("name", ["bash", "fish"])
def test_a_shell_offers_words_flags_and_values(name: str, home: Path) -> None:
    ask = {"bash": bash, "fish": fish}[name]
    if shutil.which(name) is None:
        pytest.skip(f"NOT TESTED: {name} is not installed, its completion was not tried")
    assert ask(["synapse", "ec"], home) == ["echo"]
    assert set(ask(["synapse", "solar", "earth", ""], home)) == {"luna", "info"}
    assert ask(["synapse", "cli", "stroke", "--moo"], home) == ["--mood"]
    assert ask(["synapse", "cli", "stroke", "--mood", ""], home) == ["calm", "wild"]
    assert ask(["synapse", "zzz"], home) == []
    for _ in range(ATTEMPTS):
        live = ask(["synapse", "cli", "stroke", "--pet", ""], home)
        if live:
            break
    space = "with\\ space" if name == "bash" else "with space"
    assert set(live) == {"Tom", "Tiger::two", space}


BASH_SETTINGS = """\
PS1='READY> '
bind 'set enable-bracketed-paste off'
bind 'set bell-style none'
bind -x '"\\C-t": echo "BUFFER<$READLINE_LINE>"'
source {root}/completions/synapse.bash
"""
ZSH_SETTINGS = """\
PROMPT='READY> '
unsetopt beep zle_bracketed_paste prompt_sp
fpath=({root}/completions $fpath)
autoload -Uz compinit && compinit -D -u
dump() {{ print -r -- "BUFFER<$BUFFER>" }}
zle -N dump
bindkey '^T' dump
"""


@pytest.mark.parametrize("program", ["bash", "zsh"])
def test_the_tab_key_completes_in_an_interactive_shell(
    home: Path, tmp_path: Path, program: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"NOT TESTED: {program} is not installed, its completion was not tried")
    settings = {"bash": BASH_SETTINGS, "zsh": ZSH_SETTINGS}[program].format(root=ROOT)
    (tmp_path / ".zshrc").write_text(settings)
    (tmp_path / "bashrc").write_text(settings)
    command = {
        "bash": ("bash", "--noprofile", "--rcfile", str(tmp_path / "bashrc"), "-i"),
        "zsh": ("zsh", "-d", "-i"),
    }[program]
    env = {"PATH": path_with_synapse(home), "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    with Terminal(home=home, program=command, env=env) as terminal:
        terminal.until("READY> ")
        for typed, completed in (
            ("synapse ec", "synapse echo "),
            ("synapse cli stroke --moo", "synapse cli stroke --mood "),
            ("synapse cli stroke --mood w", "synapse cli stroke --mood wild "),
            ("synapse cli stroke --mood=w", "synapse cli stroke --mood=wild "),
            ("synapse self sta", "synapse self status "),
        ):
            terminal.type(f"{typed}\t\x14")
            terminal.until(f"BUFFER<{completed}>")
            terminal.type("\x15")
        terminal.type("exit\n")
        terminal.finish()


@pytest.mark.parametrize(
    ("line", "words", "found"),
    [
        ("synapse cli stroke --mood=w", ["--mood", "=", "w"], {"wild"}),
        ("synapse cli stroke --mood=", ["--mood", "="], {"calm", "wild"}),
        ("synapse cli stroke --pet Tiger::t", ["--pet", "Tiger", "::", "t"], {"two"}),
        ("synapse cli stroke --pet Tiger::", ["--pet", "Tiger", "::"], {"two"}),
        ("synapse cli stroke --mood ", ["--mood", ""], {"calm", "wild"}),
        ("synapse cli stroke --animal To", ["--animal", "To"], {"Tom"}),
    ],
)
def test_words_that_bash_cuts_are_rejoined(
    home: Path, line: str, words: list[str], found: set[str]
) -> None:
    for _ in range(ATTEMPTS):
        answer = complete("cli", "stroke", *words, home=home, _SYNAPSE_LINE=line)
        if answer:
            break
    assert answer.keys() == found


def test_the_installed_scripts_are_those_that_are_shown(tmp_path: Path) -> None:
    for name in FILES:
        assert synapse("self", "completion", "show", name, home=tmp_path).stdout == script(name)


def test_completion_creates_no_files(home: Path) -> None:
    before = sorted(path.name for path in home.iterdir())
    complete("cli", "stroke", "--pet", "", home=home)
    assert sorted(path.name for path in home.iterdir()) == before
    assert json.loads(synapse("self", "status", "--json", home=home).stdout)["running"]
