"""Forms from JSON Schema: fields, params and command lines, in a real browser."""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.page.browser.windows import Windows
from tests.support import Daemon

Run = Callable[..., Any]
ROOT = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
            "required": ["name", "next"],
        }
    },
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "prompt": {"type": "string", "description": "The prompt."},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "mode": {"anyOf": [{"enum": ["fast", "slow"], "type": "string"}, {"type": "null"}]},
        "is_loud": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "is_on": {"type": "boolean", "default": True},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "sizes": {"type": "object", "additionalProperties": {"type": "number"}},
        "since": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "created_at": {"type": "integer"},
        "node": {"$ref": "#/$defs/Node"},
        "shape": {
            "discriminator": {"propertyName": "kind"},
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "dot"}, "x": {"type": "number"}},
                    "required": ["kind", "x"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "line"}, "to": {"type": "string"}},
                    "required": ["kind", "to"],
                },
            ],
        },
        "anything": {},
    },
    "required": ["prompt"],
}
METHOD = {"name": "draw", "params": ROOT}


@pytest.fixture(scope="module")
def run(browser: Browser, daemon: Daemon) -> Iterator[Run]:
    """Call a function of a module of the page."""
    opened = Windows(browser)
    window = opened.open(daemon)

    def call(module: str, expression: str, *arguments: Any) -> Any:
        return window.evaluate(
            f"""async (values) => {{
                const m = await import("/page/{module}");
                return {expression};
            }}""",
            list(arguments),
        )

    yield call
    assert opened.end_test() == []
    assert opened.problems == []


def test_each_parameter_has_a_field_of_its_kind(run: Run) -> None:
    fields = run("forms/fields.js", "m.methodFields(values[0])", METHOD)
    kinds = {field["name"]: field["kind"] for field in fields}
    assert kinds == {
        "prompt": "text",
        "count": "number",
        "mode": "choice",
        "is_loud": "boolean",
        "is_on": "boolean",
        "tags": "list",
        "sizes": "map",
        "since": "scalar",
        "created_at": "number",
        "node": "object",
        "shape": "union",
        "anything": "json",
    }
    by_name = {field["name"]: field for field in fields}
    assert fields[0]["name"] == "prompt"
    assert by_name["prompt"]["multiline"]
    assert by_name["prompt"]["required"]
    assert by_name["mode"]["values"] == ["fast", "slow"]
    assert by_name["mode"]["nullable"]
    assert [variant["title"] for variant in by_name["shape"]["variants"]] == ["dot", "line"]


def test_a_schema_that_contains_itself_ends_as_json(run: Run) -> None:
    depth = """(() => {
        let field = m.fieldOf("node", values[0].properties.node, values[0], { depth: 1 });
        let depth = 0;
        while (field.kind === "object") {
            field = field.fields().find(({ name }) => name === "next");
            depth += 1;
        }
        return [field.kind, depth <= m.MAX_DEPTH];
    })()"""
    assert run("forms/fields.js", depth, ROOT) == ["json", True]
    loop = {"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}
    fields = run("forms/fields.js", "m.methodFields(values[0])", {"name": "x", "params": loop})
    assert [field["kind"] for field in fields] == ["json"]


def params(run: Run, contents: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return the params of a form with these contents, and its problems."""
    expression = """(async () => {
        const { methodFields } = await import("/page/forms/fields.js");
        const { params, problems } = m.paramsOf(methodFields(values[0]), values[1]);
        return [params, problems.map(({ path, message }) => `${path.join(".")} ${message}`)];
    })()"""
    value, problems = run("forms/params.js", f"await {expression}", METHOD, contents)
    return value, problems


def test_empty_and_unchanged_fields_are_not_sent(run: Run) -> None:
    contents = {"prompt": "hi", "count": "", "is_on": True, "anything": ""}
    assert params(run, contents) == ({"prompt": "hi"}, [])


def test_contents_become_params_of_their_types(run: Run) -> None:
    contents = {
        "prompt": "two\nlines",
        "count": " 7 ",
        "mode": "slow",
        "is_loud": False,
        "is_on": False,
        "tags": ["a", ""],
        "sizes": [["big", "1.5"], ["__proto__", "2"]],
        "since": "2d",
        "created_at": "1970-01-02T00:00:00Z",
        "shape": {"variant": 1, "content": {"to": "there"}},
        "anything": '{"x": [1, null]}',
    }
    value, problems = params(run, contents)
    assert problems == []
    sizes = value.pop("sizes")
    assert sizes["big"] == 1.5
    assert value == {
        "prompt": "two\nlines",
        "count": 7,
        "mode": "slow",
        "is_loud": False,
        "is_on": False,
        "tags": ["a", ""],
        "since": "2d",
        "created_at": 86400,
        "shape": {"kind": "line", "to": "there"},
        "anything": {"x": [1, None]},
    }
    assert params(run, {"prompt": "x", "since": "86400"})[0]["since"] == 86400


def test_contents_that_do_not_fit_are_reported_at_their_fields(run: Run) -> None:
    contents = {
        "prompt": "",
        "count": "seven",
        "sizes": [["a", "1"], ["a", "2"], ["", "x"]],
        "shape": {"variant": 0, "content": {"x": ""}},
        "anything": "{",
    }
    _, problems = params(run, contents)
    assert problems == [
        "prompt is required",
        "count must be a whole number",
        "sizes.1 repeats the key a",
        "sizes.2 needs a key",
        "sizes.2 must be a number",
        "shape.x is required",
        "anything must be JSON; a text needs double quotes",
    ]


def test_params_are_checked_by_their_schema(run: Run) -> None:
    check = (
        "m.checkParams(values[0], values[1]).map(({path, message}) => [path.join('.'), message])"
    )
    wrong = {
        "count": 10,
        "tags": ["a", 1],
        "mode": "quick",
        "shape": {"kind": "dot"},
        "unknown": 1,
    }
    assert run("forms/check.js", check, wrong, ROOT) == [
        ["prompt", "is missing"],
        ["count", "must be 9 or less"],
        ["tags.1", "must be a text"],
        ["mode", "must be one of fast, slow"],
        ["shape.x", "is missing"],
        ["unknown", "is not a parameter"],
    ]
    one_of = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert run("forms/check.js", check, {}, one_of) == [["", "give exactly one of a, b"]]
    assert run("forms/check.js", check, {"a": "1", "b": "2"}, one_of) == [
        ["b", "give exactly one of a, b"]
    ]
    assert run("forms/check.js", check, {"b": "2"}, one_of) == []


def test_an_address_fills_a_form(run: Run) -> None:
    expression = """(async () => {
        const { methodFields } = await import("/page/forms/fields.js");
        const fields = methodFields(values[0]);
        const query = new URLSearchParams(values[1]);
        const contents = m.contentsFromQuery(fields, query, {}, values[0].params);
        return m.paramsOf(fields, contents).params;
    })()"""
    query = 'prompt=a&count=3&tags=x&tags=y&mode=fast&is_on=false&shape={"kind":"dot","x":2}&evil=1'
    assert run("forms/params.js", f"await {expression}", METHOD, query) == {
        "prompt": "a",
        "count": 3,
        "tags": ["x", "y"],
        "mode": "fast",
        "is_on": False,
        "shape": {"kind": "dot", "x": 2},
    }


WORDS = [
    "",
    "plain",
    "two words",
    "it's",
    "$(touch /tmp/x)`id`",
    'a"b\\c',
    "two\nlines\tand a tab",
    "\x1b]0;title\x07\r\x08",
    "\u202egpj.exe\u200b\ufeff",
    "~/x",
    "=ls",
    "*?[a]{b,c}!x",
    "-x",
    "é漢🎉",
    "\\n$'x'",
]


def test_a_shell_reads_a_quoted_word_as_it_was(run: Run) -> None:
    quoted = run("forms/command_line.js", "values[0].map(m.quote)", WORDS)
    script = "for word in " + " ".join(quoted) + "; do printf '%s\\0' \"$word\"; done"
    output = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert output.decode().split("\0")[:-1] == WORDS
    # The shown text is the copied one: no word has a hidden character.
    assert all(word.isprintable() for word in quoted)


def test_a_command_line_has_the_same_params(run: Run, daemon: Daemon) -> None:
    method = {
        "name": "call",
        "params": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "dry_run": {"type": "boolean"},
                "count": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "since": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
        },
    }

    def words(params: dict[str, Any]) -> list[str]:
        line = run(
            "forms/command_line.js", "m.commandLine('a.b', values[0], values[1])", method, params
        )
        return shlex.split(line)[4:]

    assert words({"text": "x y", "dry_run": True, "count": 3}) == [
        "--text",
        "x y",
        "--dry-run",
        "--count",
        "3",
    ]
    assert words({"text": "@secret"}) == ["--text", "@@secret"]
    assert words({"text": "--x", "dry_run": False}) == ["--text=--x", "--no-dry-run"]
    assert words({"count": -3, "tags": ["a", "b"]}) == ["--count=-3", "--tags", "a", "--tags", "b"]
    # Flags can't tell the text 5 from the number, so the params are JSON.
    flag, text = words({"since": "5", "tags": []})
    assert flag == "--params"
    assert json.loads(text) == {"since": "5", "tags": []}
