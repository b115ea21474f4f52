"""Split a command line into own options, the path to a method, and its tokens."""

import json
from collections.abc import AsyncIterator

import pytest

from hubd.activation import Activation, Event, method
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.health import HealthPlugin
from hubd.plugins.solar import Solar
from synapse.argv import OPTIONS, SHORT, own_options, split
from synapse.errors import UnknownCommand, UsageError
from synapse.hub.cache import Cache, store
from tests.plexus.test_hub import build


class Ran(Event):
    text: str


class Clash(Activation, namespace="clash", version="1.0.0"):
    """A plugin whose parameters have the names of options."""

    @method(aliases={"hub": ["answer", "dry-run"]})
    async def take_all(
        self,
        output: str = "",
        token_file: str = "",
        raw: bool = False,
        input: bool | None = None,
        hub: str = "",
        y: str = "",
        force: bool = False,
    ) -> AsyncIterator[Ran]:
        """Take everything."""
        yield Ran(text=output)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """The cache of a real hub."""
    hub = build(EchoPlugin(), HealthPlugin(), Solar(), Clash())
    schemas = {node.path: json.loads(json.dumps(node.schema)) for node in hub.root.walk()}
    return store(str(tmp_path_factory.mktemp("cache") / "local"), "plexus", "1.0.0", schemas)


@pytest.mark.parametrize(
    ("line", "path", "name"),
    [
        ("echo once", ["echo"], "once"),
        ("solar earth luna info", ["solar", "earth", "luna"], "info"),
        ("solar info", ["solar"], "info"),
        ("plexus resolve_handle", ["plexus"], "resolve_handle"),
        ("plexus resolve-handle", ["plexus"], "resolve_handle"),
        ("clash take-all", ["clash"], "take_all"),
        ("solar earth", ["solar", "earth"], ""),
        ("", [], ""),
    ],
)
def test_words_lead_down_the_tree_to_a_method(
    cache: Cache, line: str, path: list[str], name: str
) -> None:
    invocation = split(line.split(), cache)
    assert (invocation.path, invocation.method, invocation.tokens, invocation.options) == (
        path,
        name,
        [],
        {},
    )


@pytest.mark.parametrize("name", ["schema", "hash"])
def test_schema_and_hash_exist_in_every_namespace(cache: Cache, name: str) -> None:
    for path in cache.paths():
        invocation = split([*path.split("."), name], cache)
        assert (invocation.path, invocation.method) == (path.split("."), name)


def test_namespaces_with_handles_or_children_have_resolve_handle(cache: Cache) -> None:
    resolving = []
    for path in cache.paths():
        try:
            resolving.append(split([*path.split("."), "resolve-handle"], cache).path)
        except UnknownCommand:
            continue
    assert ["plexus"] in resolving
    assert ["solar", "earth", "luna"] in resolving
    assert ["health"] not in resolving


@pytest.mark.parametrize(
    ("given", "name", "values"),
    [
        (["--json"], "--json", [""]),
        (["-j"], "--json", [""]),
        (["-y"], "--yes", [""]),
        (["-o", "raw"], "--output", ["raw"]),
        (["-o=raw"], "--output", ["raw"]),
        (["--output", "raw"], "--output", ["raw"]),
        (["--output=raw"], "--output", ["raw"]),
        (["--home=/a=b"], "--home", ["/a=b"]),
        (["--home", "/a", "--home", "/b"], "--home", ["/a", "/b"]),
        (["--params", "-"], "--params", ["-"]),
        (["--params", '{"a": 1}'], "--params", ['{"a": 1}']),
        (["--answer", "--json"], "--answer", ["--json"]),
        (["--timeout=-1"], "--timeout", ["-1"]),
        (["--fields="], "--fields", [""]),
    ],
)
def test_own_options_may_be_anywhere(
    cache: Cache, given: list[str], name: str, values: list[str]
) -> None:
    words = ["echo", "once", "--message", "hi"]
    for place in (0, 1, 2, 4):
        invocation = split([*words[:place], *given, *words[place:]], cache)
        assert invocation.options == {name: values}, place
        assert (invocation.path, invocation.method, invocation.tokens) == (
            ["echo"],
            "once",
            ["--message", "hi"],
        )
        assert invocation.value(name) == values[-1]


@pytest.mark.parametrize("given", ["-", "--", "-5", "---", "--a b", "-x", "--json stays text"])
def test_the_value_of_a_parameter_is_not_an_option(cache: Cache, given: str) -> None:
    invocation = split(["echo", "once", "--message", given, "--json"], cache)
    assert invocation.tokens == ["--message", given]
    assert list(invocation.options) == ["--json"]


@pytest.mark.parametrize("given", [*SHORT, "--json", "--help", "-o=json", "--yes"])
def test_an_option_is_not_the_value_of_the_flag_before_it(cache: Cache, given: str) -> None:
    invocation = split(["clash", "take-all", "--force", given, "json"], cache)
    name = given.partition("=")[0]
    assert list(invocation.options) == [SHORT.get(name, name)]
    assert invocation.tokens[0] == "--force"


@pytest.mark.parametrize(
    ("tokens", "own"),
    [
        (["--output", "x"], []),
        (["--output=x"], []),
        (["--token-file", "x"], []),
        (["--token_file", "x"], []),
        (["--raw"], []),
        (["--raw=false"], []),
        (["--no-raw"], []),
        (["--no-input"], []),
        (["--answer", "x"], []),
        (["--dry-run", "x"], []),
        (["-o", "x"], ["--output"]),
        (["-y"], ["--yes"]),
        (["--json"], ["--json"]),
        (["--token", "x"], ["--token"]),
    ],
)
def test_after_the_method_a_parameter_of_the_same_name_wins(
    cache: Cache, tokens: list[str], own: list[str]
) -> None:
    invocation = split(["clash", "take-all", *tokens], cache)
    assert list(invocation.options) == own
    assert invocation.tokens == ([] if own else tokens)


def test_before_the_method_an_option_wins(cache: Cache) -> None:
    invocation = split(["--output", "raw", "clash", "--raw", "take-all", "--output", "x"], cache)
    assert invocation.options == {"--output": ["raw"], "--raw": [""]}
    assert invocation.tokens == ["--output", "x"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("ecco", "unknown namespace 'ecco'", "Did you mean echo?"),
        ("selv", "unknown namespace 'selv'", "Did you mean self?"),
        ("zzzz", "unknown namespace 'zzzz'", "There are: plexus, clash, echo, health, solar, self"),
        ("echo onze", "'echo' has no method or namespace 'onze'", "Did you mean once?"),
        ("echo Once", "'echo' has no method or namespace 'Once'", "Did you mean once?"),
        ("solar eart info", "'solar' has no method or namespace 'eart'",
         "Did you mean earth?"),
        ("solar earth luna luna", "'solar earth luna' has no method or namespace 'luna'",
         "There is: info"),
        ("plexus echo", "'plexus' has no method or namespace 'echo'", "Did you mean search?"),
        ("clash take.all", "'clash' has no method or namespace 'take.all'",
         "Did you mean take_all?"),
        ("echo self", "'echo' has no method or namespace 'self'", "There are: echo, once, ping"),
        ("-", "unknown namespace '-'", "There are: plexus, clash, echo, health, solar, self"),
    ],
)  # fmt: skip
def test_an_unknown_word_is_refused_with_the_nearest_name(
    cache: Cache, line: str, message: str, hint: str
) -> None:
    with pytest.raises(UnknownCommand) as caught:
        split(line.split(), cache)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.status == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--jsno echo once", "unknown option --jsno"),
        ("echo -x once", "unknown option -x"),
        ("echo --outptu=raw once", "unknown option --outptu"),
        ("-- echo", "unknown option --"),
        ("echo once --output", "--output needs a value"),
        ("--home", "--home needs a value"),
        ("--json=yes echo once", "--json takes no value"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(cache: Cache, line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(line.split(), cache)
    assert caught.value.message == message


def test_the_nearest_option_is_suggested(cache: Cache) -> None:
    with pytest.raises(UsageError) as caught:
        split(["--jsno"], cache)
    assert "--json" in caught.value.hint


def test_an_unknown_flag_after_the_method_is_left_to_the_parser(cache: Cache) -> None:
    assert split(["echo", "once", "--jsno", "x"], cache).tokens == ["--jsno", "x"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("self", []),
        ("--json self doctor --bogus echo", ["doctor", "--bogus", "echo"]),
        ("--home x self cache --clear", ["cache", "--clear"]),
    ],
)
def test_words_after_self_belong_to_synapse(cache: Cache, line: str, words: list[str]) -> None:
    invocation = split(line.split(), cache)
    assert (invocation.built_in, invocation.path, invocation.method) == (words, [], "")


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("", "auto"),
        ("-o table", "table"),
        ("-o table -o raw", "raw"),
        ("-j -o table", "ndjson"),
        ("--raw", "raw"),
    ],
)
def test_the_last_output_option_wins(cache: Cache, line: str, output: str) -> None:
    assert split(line.split(), cache).output == output


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("echo once --home /x", {"--home": ["/x"]}),
        ("--home=/x --hub=h --no-autostart nonsense", {"--home": ["/x"], "--hub": ["h"], "--no-autostart": [""]}),  # noqa: E501  one row, one line
        ("--token-file f --token t", {"--token-file": ["f"], "--token": ["t"]}),
        ("clash take-all --raw=false --output", {}),
        ("--answer --hub x", {}),
        ("-o --hub x", {}),
        ("--version", {"--version": [""]}),
    ],
)  # fmt: skip
def test_hub_options_are_read_without_a_schema(line: str, options: dict[str, list[str]]) -> None:
    assert own_options(line.split()).options == options


def test_a_hub_option_without_its_value_is_refused_before_any_schema() -> None:
    with pytest.raises(UsageError, match="--hub needs a value"):
        own_options(["echo", "once", "--hub"])


def test_every_short_option_has_a_long_form() -> None:
    assert set(SHORT.values()) <= set(OPTIONS)
