"""The fast path and the full command agree: the same request, or the same refusal."""

import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hubd.activation import Activation, Event, method
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from hubd.wire.paths import Paths
from synapse import command, fastpath
from synapse.argv import split
from synapse.errors import CommandError, UsageError
from synapse.hub.cache import cache_path, load, store
from synapse.params import sources
from synapse.params.parser import parse
from synapse.params.sources import Sources
from tests.plexus.test_hub import build
from tests.support import Daemon, environment

# A request, a refusal, help, or None where the fast way leaves the command to the full one.
Outcome = tuple[str, Any, Any] | None


class Done(Event):
    text: str


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Zoo(Activation, namespace="zoo", version="1.0.0"):
    """One method with parameters of every kind."""

    @method(aliases={"text": ["words"]})
    async def keep_all(
        self,
        text: str,
        count: int = 1,
        ratio: float | None = None,
        loud: bool = False,
        raw: bool = False,
        level: Literal["low", "high"] = "low",
        tags: list[str] | None = None,
        env: dict[str, str] | None = None,
        pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
        target: str | list[str] = "",
    ) -> AsyncIterator[Done]:
        """Keep everything."""
        yield Done(text=text)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose cache knows the zoo, and no daemon."""
    home = tmp_path_factory.mktemp("home")
    hub = build(EchoPlugin(), Solar(), Zoo())
    schemas = {node.path: json.loads(json.dumps(node.schema)) for node in hub.root.walk()}
    store(cache_path(Paths(str(home)).cache), "plexus", "1.0.0", schemas)
    (home / "file").write_text("from a file")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.delenv("HUBD_HOME", raising=False)
        patch.delenv("SYNAPSE_HUB", raising=False)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped")))
        yield home
    sources._stdin.clear()


def refusal(problem: CommandError) -> Outcome:
    assert problem.status == 2
    # Only the full way adds the usage line: the fast path leaves every refusal to it.
    adds_usage = isinstance(problem, UsageError) and problem.show_usage
    return "refused", problem.message, "" if adds_usage else problem.hint


def fast_way(argv: list[str], home: Path) -> Outcome:
    """Return the request that the fast path would send."""
    cache = load(cache_path(Paths(str(home)).cache))
    assert cache is not None
    try:
        invocation = split(argv, cache)
        if not invocation.method or not fastpath._is_plain(invocation):
            return None
        path = ".".join(invocation.path)
        schema = cache.method(path, invocation.method)
        aliases = schema.get("annotations", {}).get("aliases")
        base = invocation.value("--params")
        params = parse(invocation.tokens, schema["params"], Sources(), aliases=aliases, base=base)
    except UsageError as problem:
        return refusal(problem)
    return "request", f"{path}.{invocation.method}", params


def full_way(argv: list[str], home: Path) -> Outcome:
    """Return the request that the full command would send."""
    out = io.StringIO()
    own = ["--home", str(home), "--no-autostart", "--dry-run"]
    try:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            assert command.run([*own, *argv]) == 0
    except CommandError as problem:
        return refusal(problem)
    if not out.getvalue().startswith("{"):
        return "help", None, None
    call = json.loads(out.getvalue())["params"]
    return "request", call["method"], call["params"]


def agree(argv: list[str], home: Path) -> Outcome:
    fast, through_typer = fast_way(argv, home), full_way(argv, home)
    assert fast is None or fast == through_typer
    # Tells 1, 1.0 and true apart.
    assert fast is None or json.dumps(fast) == json.dumps(through_typer)
    return fast


KEEP = ["zoo", "keep-all", "--text", "hi"]
NASTY = [
    [*KEEP, "--"],
    [*KEEP, "--", "--count", "2"],
    ["zoo", "keep-all", "--text", "--"],
    ["zoo", "keep-all", "--text", "--", "--count", "2"],
    ["zoo", "keep-all", "--text=--"],
    ["zoo", "keep-all", "--text", "-"],
    ["zoo", "keep-all", "--text", "-", "--target", "-"],
    ["zoo", "keep-all", "--text=-"],
    ["zoo", "keep-all", "--text", "@file"],
    ["zoo", "keep-all", "--text", "@@file"],
    ["zoo", "keep-all", "--text", "@missing"],
    ["zoo", "keep-all", "--text", ""],
    ["zoo", "keep-all", "--text="],
    ["zoo", "keep-all", "--text", "--json"],
    ["zoo", "keep-all", "--text", "--help me"],
    ["zoo", "keep-all", "--text=--help"],
    ["zoo", "keep-all", "--text", "-h=1"],
    ["zoo", "keep-all", "--text", "a\nb\x00c\x1b[31m"],
    ["zoo", "keep-all", "--text", "\udcff"],
    ["zoo", "keep-all", "--text", "x" * 5_000_000],
    ["zoo", "keep-all", "--text", "$HOME `id` $(id) ~ * ? %PATH% !!"],
    ["zoo", "keep-all", "--words", "alias"],
    ["zoo", "keep_all", "--no-loud", "--text=a"],
    [*KEEP, "--raw"],
    [*KEEP, "--no-raw"],
    ["--json", "zoo", "--yes", "keep-all", "--text", "a", "-o", "ndjson"],
    [*KEEP, "-x"],
    [*KEEP, "-5"],
    [*KEEP, "--count", "-5"],
    [*KEEP, "--count=-5"],
    [*KEEP, "--count", "--5"],
    [*KEEP, "--ratio", "nan"],
    [*KEEP, "--ratio", "null"],
    [*KEEP, "--c", "5"],
    [*KEEP, "--coun", "5"],
    [*KEEP, "--loud=maybe"],
    [*KEEP, "--loud", "true"],
    [*KEEP, "--loud", "-y"],
    [*KEEP, "--pet.lives", "7", "--pet.kind", "cat"],
    [*KEEP, "--pet.lives", "x", "--pet.kind", "cat"],
    [*KEEP, "--pet.name", "x"],
    [*KEEP, "--env.A", "1", "--env", "B=2", "--env", '{"C": "3"}'],
    [*KEEP, "--tags", "a", "--tags=b"],
    [*KEEP, "--target", "a"],
    [*KEEP, "--target", "a", "--target", "b"],
    [*KEEP, "--params", '{"text": "other", "count": 7}'],
    [*KEEP, "--params=["],
    ["--params", "-", "zoo", "keep-all"],
    ["zoo", "keep-all"],
    ["zoo", "keep-all", "extra"],
    ["zoo", "keep-all", "--bogus"],
    ["zoo", "keep-al"],
    ["zoo", "self"],
    ["zo", "keep-all"],
    ["--bogus", "zoo", "keep-all"],
    ["--", "zoo", "keep-all"],
    ["zoo", "--", "keep-all"],
    ["plexus", "call", "--method", "echo.ping", "--params", '{"a": 1}'],
    ["plexus", "resolve-handle", "--handle", "echo@1.0.0::once:a%3Ab"],
    ["solar", "earth", "luna", "schema"],
    ["echo", "hash"],
]


@pytest.mark.parametrize("argv", NASTY, ids=lambda argv: " ".join(argv)[:60])
def test_both_ways_agree_on_difficult_lines(zoo: Path, argv: list[str]) -> None:
    assert agree(argv, zoo) is not None


FLAGS = st.sampled_from(
    ["--text", "--words", "--count", "--ratio", "--loud", "--no-loud", "--raw", "--no-raw",
     "--level", "--tags", "--env", "--env.A", "--pet", "--pet.kind", "--pet.lives", "--pet.name",
     "--target", "--bogus", "--coun", "--no-text", "--text.a"]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["a", "5", "-5", "1.5", "true", "low", "cat", "A=1", "[1]", '{"a": 1}', ""]),
    st.sampled_from(["--", "---", "-x", "@file", "@@a", "@missing", "null", '["a"]', "--a b"]),
    st.sampled_from(['{"kind": "cat", "lives": 9}', "nan", "1_000", "x=y", "-", "\udcff"]),
    st.text(max_size=5),
)
OWN = st.sampled_from(
    [["--json"], ["-j"], ["-y"], ["--yes"], ["-o", "ndjson"], ["--output=ndjson"], ["-o=json"],
     ["--params", '{"text": "base"}'], ["--params={}"], ["--params", "["], ["--params"],
     ["--no-autostart"], ["--json=1"], ["--output"], ["--no-input"], ["--fields", "a"]]
)  # fmt: skip
PIECES = st.one_of(
    st.builds(lambda flag, text: [flag, text], FLAGS, VALUES),
    st.builds(lambda flag, text: [f"{flag}={text}"], FLAGS, VALUES),
    st.builds(lambda flag: [flag], FLAGS),
    st.builds(lambda text: [text], VALUES),
    OWN,
)
LINES = st.builds(
    lambda before, words, text, after: [*before, *words, *text, *chain(*after)],
    st.one_of(st.just([]), OWN),
    st.sampled_from([["zoo", "keep-all"], ["zoo", "keep_all"], ["echo", "once"], ["zoo"], ["zo"]]),
    st.sampled_from([["--text", "hi"], []]),
    st.lists(PIECES, max_size=4),
)


@given(LINES)
def test_both_ways_agree_on_any_line(zoo: Path, argv: list[str]) -> None:
    agree(argv, zoo)


def test_the_compared_lines_include_requests_and_refusals(zoo: Path) -> None:
    outcomes = [agree(argv, zoo) for argv in NASTY if "--" not in argv]
    kinds = [outcome[0] for outcome in outcomes if outcome]
    assert kinds.count("request") > 15
    assert kinds.count("refused") > 15


# -- imports of the fast path ------------------------------------------------------------------

HEAVY = ["typer", "click", "rich", "pydantic", "asyncio", "websockets", "json", "typing", "re"]
HEAVY += ["dataclasses", "socket", "pathlib", "subprocess", "difflib", "enum", "inspect"]
SHOW = f"""
import sys
from synapse.main import main
sys.argv = ["synapse", *sys.argv[1:]]
status = main()
sys.stdout.flush()
sys.stderr.write(" ".join([str(status), *(name for name in {HEAVY!r} if name in sys.modules)]))
"""


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Isolated from what a virtual environment imports at the start of every interpreter.
    return subprocess.run(
        [sys.executable, "-S", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=True,
    )


def test_the_fast_path_imports_nothing_expensive(daemon: Daemon) -> None:
    home = ["--home", str(daemon.home)]
    subprocess.run(
        [sys.executable, "-m", "synapse", *home, "echo", "ping"],
        capture_output=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    for line in (
        ["echo", "once", "--message", "hé 👋"],
        ["echo", "echo", "--message=a", "--count", "3", "--json"],
        ["solar", "earth", "luna", "info"],
        ["plexus", "resolve_handle", "--handle", "echo@1.0.0::once:hi"],
    ):
        result = python(SHOW, *home, *line)
        assert result.stderr == "0", (line, result.stderr)
        assert [json.loads(text)["type"] for text in result.stdout.splitlines()] != []
