"""The parser of params: each way to write a value, and each error message."""

import json
from pathlib import Path
from typing import Any

import pytest

from synapse.errors import UsageError
from synapse.params.parser import parse
from synapse.params.sources import Sources
from synapse.params.values import MAX_NESTING, NOT_JSON, number_or_word

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
STRINGS: Schema = {"type": "array", "items": STRING}
INTEGERS: Schema = {"type": "array", "items": INTEGER}
ENVIRONMENT: Schema = {"type": "object", "additionalProperties": STRING}
LEVEL: Schema = {"enum": ["low", "high"], "type": "string"}

# As pydantic writes them.
DEFINITIONS: Schema = {
    "Cat": {
        "type": "object",
        "properties": {
            "kind": {"const": "cat", "type": "string"},
            "name": STRING,
            "age": INTEGER,
            "is_shy": {**BOOLEAN, "default": False},
        },
        "required": ["kind", "name"],
    },
    "Dog": {
        "type": "object",
        "properties": {
            "kind": {"const": "dog", "type": "string"},
            "name": {**INTEGER, "description": "Dogs are numbered."},
            "tricks": STRINGS,
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
    },
    "Level": LEVEL,
    "Point": {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}, "required": ["x"]},
    "Circle": {"type": "object", "properties": {"r": NUMBER}, "required": ["r"]},
    "Tree": {
        "type": "object",
        "properties": {
            "name": STRING,
            "below": {"anyOf": [{"$ref": "#/$defs/Tree"}, NULL], "default": None},
            "others": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        },
        "required": ["name"],
    },
}
PET: Schema = {
    "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
    "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat"}},
}
ANY: Schema = {}


def union(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def params(required: list[str] | None = None, **properties: Schema) -> Schema:
    """The schema of a method's params."""
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
        "$defs": DEFINITIONS,
    }


def no_input() -> str:
    raise AssertionError("standard input was read")


def no_file(name: str) -> str:
    raise AssertionError(f"{name} was read")


def read(schema: Schema, *tokens: str, stdin: str | None = None, **options: Any) -> dict[str, Any]:
    sources = Sources(no_file, no_input if stdin is None else lambda: stdin)
    return parse(list(tokens), schema, sources, **options)


def one(schema: Schema, *tokens: str) -> Any:
    """The value of the parameter `x`."""
    return read(params(x=schema), *tokens)["x"]


def refused(schema: Schema, *tokens: str, **options: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(schema, *tokens, **options)
    assert caught.value.status == 2
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def refused_one(schema: Schema, *tokens: str) -> str:
    return refused(params(x=schema), *tokens).message


SCALARS: list[tuple[Schema, str, Any]] = [
    (STRING, "hi", "hi"),
    (STRING, "", ""),
    (STRING, "5", "5"),
    (STRING, "true", "true"),
    (STRING, "null", "null"),
    (STRING, '"quoted"', '"quoted"'),
    (STRING, '{"a": 1}', '{"a": 1}'),
    (STRING, " kept ", " kept "),
    (STRING, "-", "-"),
    (STRING, "--looks-like-a-flag", "--looks-like-a-flag"),
    ({"type": "string", "format": "uuid"}, "no uuid", "no uuid"),
    ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ({"type": "string", "format": "plexus-handle"}, "echo@1::once:a", "echo@1::once:a"),
    (INTEGER, "5", 5),
    (INTEGER, "-5", -5),
    (INTEGER, "+5", 5),
    (INTEGER, "007", 7),
    (INTEGER, " 5\n", 5),
    (INTEGER, "123456789012345678901234567890", 123456789012345678901234567890),
    (NUMBER, "5", 5),
    (NUMBER, "-0.5", -0.5),
    (NUMBER, ".5", 0.5),
    (NUMBER, "1e3", 1000.0),
    (NUMBER, "-1E-3", -0.001),
    (BOOLEAN, "true", True),
    (BOOLEAN, "false", False),
    (NULL, "null", None),
    (LEVEL, "low", "low"),
    ({"enum": ["a", 1, True, None, 0.5]}, "a", "a"),
    ({"enum": ["a", 1, True, None, 0.5]}, "1", 1),
    ({"enum": ["a", 1, True, None, 0.5]}, "true", True),
    ({"enum": ["a", 1, True, None, 0.5]}, "null", None),
    ({"enum": ["a", 1, True, None, 0.5]}, "0.5", 0.5),
    ({"enum": [1, 2], "type": "integer"}, "2", 2),
    ({"const": "only"}, "only", "only"),
    ({"const": 7, "type": "integer"}, "7", 7),
    (union(INTEGER, NULL), "null", None),
    (union(INTEGER, NULL), "3", 3),
    (union(STRING, NULL), "null", "null"),
    (union(LEVEL, NULL), "null", None),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "x", "x"),
    (ref("Level"), "high", "high"),
    ({"allOf": [ref("Level")], "default": "low"}, "high", "high"),
    ({**ref("Level"), "description": "How much."}, "high", "high"),
    # If a text and another type are allowed, JSON of the other type wins, else it is a text.
    (union(STRING, INTEGER), "5", 5),
    (union(INTEGER, STRING), "5x", "5x"),
    (union(INTEGER, STRING), '"5"', "5"),
    (union(INTEGER, STRING), '"5', '"5'),
    (union(INTEGER, STRING), "007", "007"),
    (union(INTEGER, STRING), "+4930123", "+4930123"),
    (union(INTEGER, STRING), " 5", " 5"),
    (union(INTEGER, STRING), "1.5", "1.5"),
    (union(NUMBER, STRING), "1.5", 1.5),
    (union(NUMBER, STRING), "1.50", 1.5),
    (union(NUMBER, STRING), "12345678901234567.89", "12345678901234567.89"),
    (union(NUMBER, STRING), "0.12345678901234568", 0.12345678901234568),
    (union(NUMBER, STRING), "1e999", "1e999"),
    (union(NUMBER, STRING), "NaN", "NaN"),
    (union(BOOLEAN, STRING), "true", True),
    (union(BOOLEAN, STRING), "True", "True"),
    (union(INTEGER, {"const": "auto"}), "auto", "auto"),
    (union(STRING, INTEGER, NULL), "null", "null"),
    (union(INTEGER, BOOLEAN), "false", False),
    (union(INTEGER, NUMBER), "1.5", 1.5),
    (union(STRING, ref("Point")), "{not json", "{not json"),
    (union(STRING, ref("Point")), '{"x": 1}', {"x": 1}),
    (union(STRING, ref("Point")), '{"x": "no number"}', '{"x": "no number"}'),
    (union(STRING, INTEGERS), "[1, 2]", [1, 2]),
    (union(STRING, INTEGERS), '["a"]', '["a"]'),
    (union(STRING, INTEGERS), "[1, 2", "[1, 2"),
    # Anything goes: JSON if it is JSON.
    (ANY, "text", "text"),
    (ANY, "5", 5),
    (ANY, "null", None),
    (ANY, '"5"', "5"),
    (ANY, '{"a": [1, null]}', {"a": [1, None]}),
    (ANY, "NaN", "NaN"),
    (ANY, "1e999", "1e999"),
    (ANY, "{broken", "{broken"),
    (union(ANY, NULL), "[]", []),
]


@pytest.mark.parametrize(("schema", "text", "value"), SCALARS)
def test_a_text_is_converted_by_its_schema(schema: Schema, text: str, value: Any) -> None:
    found = one(schema, f"--x={text}")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [(entry[0], entry[1]) for entry in SCALARS if entry[0] != BOOLEAN and entry[1][:2] != "--"],
)
def test_a_value_may_follow_its_flag_or_an_equals_sign(schema: Schema, text: str) -> None:
    if text == "-":
        assert read(params(x=schema), "--x", text, stdin="piped") == {"x": "piped"}
    else:
        assert one(schema, "--x", text) == one(schema, f"--x={text}")


PROMPTS = [
    "$HOME ${PATH} $(id) `id`",
    "it's \"quoted\" 'twice' \\ \\n",
    "line one\nline two\r\n\ttabbed\n",
    "👩‍👩‍👧‍👦 日本語 ñ \u202e",
    "--not a flag",
    "-5 degrees",
    "-",
    "a=b=c",
    "%s {} \x00\x07",
    "x" * 5_000_000,
    "é\n" * 2_500_000,
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_a_prompt_arrives_unchanged(prompt: str) -> None:
    assert one(STRING, f"--x={prompt}") == prompt
    assert one(union(STRING, INTEGERS), f"--x={prompt}") == prompt
    if prompt != "-":
        assert one(STRING, "--x", prompt) == prompt


@pytest.mark.parametrize(
    ("schema", "tokens", "value"),
    [
        (STRINGS, ["--x", "a"], ["a"]),
        (STRINGS, ["--x", "a", "--x=b", "--x", ""], ["a", "b", ""]),
        (STRINGS, ["--x", '["a"]'], ['["a"]']),
        ({"type": "array", "items": LEVEL}, ["--x", '["low"]'], ["low"]),
        (INTEGERS, ["--x", "1", "--x", "-2"], [1, -2]),
        (INTEGERS, ["--x", "[1, 2]"], [1, 2]),
        (INTEGERS, ["--x", "[]"], []),
        ({"type": "array"}, ["--x", "1", "--x", "a"], [1, "a"]),
        ({"type": "array", "items": True}, ["--x", "1", "--x", "a"], [1, "a"]),
        ({"type": "array", "items": INTEGERS}, ["--x", "[1]", "--x", "[2, 3]"], [[1], [2, 3]]),
        ({"type": "array", "items": INTEGERS}, ["--x", "[1, 2]"], [[1, 2]]),
        ({"type": "array", "items": INTEGERS}, ["--x", "[[1, 2]]"], [[1, 2]]),
        ({"type": "array", "items": BOOLEAN}, ["--x", "true", "--x", "false"], [True, False]),
        ({"type": "array", "items": PET}, ["--x", '{"kind": "dog", "name": 1}'], [{"kind": "dog", "name": 1}]),  # noqa: E501  one row, one line
        ({"type": "array", "items": ref("Point")}, ["--x", "x=1", "--x", '{"x": 2}'], [{"x": 1}, {"x": 2}]),  # noqa: E501  the same
        ({"type": "array", "prefixItems": [INTEGER, STRING]}, ["--x", "1", "--x", "2"], [1, "2"]),
        ({"type": "array", "prefixItems": [INTEGER, STRING]}, ["--x", '[1, "2"]'], [1, "2"]),
        ({"type": "array", "prefixItems": [STRING], "items": INTEGER}, ["--x", "1", "--x", "2"], ["1", 2]),  # noqa: E501  the same
        (union(STRINGS, NULL), ["--x", "a", "--x", "b"], ["a", "b"]),
        (union(STRINGS, NULL), ["--x", "null"], ["null"]),
        (union(INTEGERS, NULL), ["--x", "null"], None),
        # One flag is the value itself, several are an array of it.
        (union(STRING, STRINGS), ["--x", "a"], "a"),
        (union(STRINGS, STRING), ["--x", "a", "--x", "b"], ["a", "b"]),
        (union(STRING, STRINGS), ["--x", '["a", "b"]'], ["a", "b"]),
        (union(STRING, STRINGS), ["--x", "[a, b]"], "[a, b]"),
        (union(INTEGERS, INTEGER), ["--x", "1"], 1),
        (union(INTEGERS, STRINGS), ["--x", "1", "--x", "b"], ["1", "b"]),
    ],
)  # fmt: skip
def test_repeated_flags_make_an_array(schema: Schema, tokens: list[str], value: Any) -> None:
    assert one(schema, *tokens) == value


@pytest.mark.parametrize(
    ("schema", "tokens", "value"),
    [
        (ref("Point"), ["--x.x", "1", "--x.y=-2"], {"x": 1, "y": -2}),
        (ref("Point"), ["--x", '{"x": 1}', "--x.y", "2"], {"x": 1, "y": 2}),
        (ref("Point"), ["--x", "x=1", "--x", "y=2"], {"x": 1, "y": 2}),
        (ref("Point"), ["--x", '{"x": 1}', "--x", '{"y": 2}'], {"x": 1, "y": 2}),
        (ref("Tree"), ["--x.name", "a", "--x.below.below.name", "c", "--x.below.name", "b"],
         {"name": "a", "below": {"name": "b", "below": {"name": "c"}}}),
        (ref("Tree"), ["--x.name", "a", "--x.below", "null"], {"name": "a", "below": None}),
        (ref("Tree"), ["--x", '{"name": "a", "below": {"name": "b"}}', "--x.below.name", "c"],
         {"name": "a", "below": {"name": "c"}}),
        (ref("Tree"), ["--x.name", "a", "--x.others", "name=b", "--x.others", "name=c"],
         {"name": "a", "others": [{"name": "b"}, {"name": "c"}]}),
        (union(ref("Point"), NULL), ["--x.x", "1"], {"x": 1}),
        (union(ref("Point"), ref("Circle")), ["--x.r", "1"], {"r": 1}),
        (union(ref("Point"), ref("Circle")), ["--x.x", "1"], {"x": 1}),
        (union(ref("Point"), ENVIRONMENT), ["--x.other", "1"], {"other": "1"}),
        (ENVIRONMENT, ["--x.KEY", "v", "--x.b-c", "=", "--x.a.b", "1"],
         {"KEY": "v", "b-c": "=", "a.b": "1"}),
        (ENVIRONMENT, ["--x", "KEY=v=w", "--x", "EMPTY="], {"KEY": "v=w", "EMPTY": ""}),
        (ENVIRONMENT, ["--x", '{"A": "1"}', "--x.B", "2", "--x", "C=3"],
         {"A": "1", "B": "2", "C": "3"}),
        (ENVIRONMENT, ["--x", "{}"], {}),
        ({"type": "object", "additionalProperties": INTEGERS}, ["--x.a", "1", "--x.a", "2"],
         {"a": [1, 2]}),
        ({"type": "object", "additionalProperties": ref("Point")}, ["--x.home.x", "1"],
         {"home": {"x": 1}}),
        ({"type": "object", "additionalProperties": ENVIRONMENT}, ["--x.a.b", "1"],
         {"a": {"b": "1"}}),
        ({"type": "object", "additionalProperties": ref("Cat")},
         ["--x.a.kind=cat", "--x.a.name=T", "--x.a.is-shy"],
         {"a": {"kind": "cat", "name": "T", "is_shy": True}}),
        ({"type": "object", "patternProperties": {"^a": INTEGER}}, ["--x.a", "1"], {"a": 1}),
        ({"type": "object", "propertyNames": LEVEL, "additionalProperties": STRING},
         ["--x.low", "1"], {"low": "1"}),
        ({"type": "object"}, ["--x.a", "1", "--x", "b=c"], {"a": 1, "b": "c"}),
        ({"type": "object", "additionalProperties": True}, ["--x.a", "[1]"], {"a": [1]}),
        (ANY, ["--x.a", "1"], {"a": 1}),
        ({"type": "object", "additionalProperties": True},
         ["--x.user.name", "Ann", "--x.user.age", "7"], {"user": {"name": "Ann", "age": 7}}),
        ({"type": "object", "additionalProperties": True},
         ["--x", '{"user": {"name": "Ann"}}', "--x.user.age", "7"],
         {"user": {"name": "Ann", "age": 7}}),
        ({"properties": {"a.b": INTEGER, "c_d": STRING}}, ["--x.a.b", "1", "--x.c-d", "2"],
         {"a.b": 1, "c_d": "2"}),
    ],
)  # fmt: skip
def test_dotted_keys_pairs_and_json_make_an_object(
    schema: Schema, tokens: list[str], value: Any
) -> None:
    assert one(schema, *tokens) == value


@pytest.mark.parametrize(
    ("tokens", "value"),
    [
        (["--x.kind", "cat", "--x.name", "7"], {"kind": "cat", "name": "7"}),
        (["--x.name", "7", "--x.kind", "dog"], {"kind": "dog", "name": 7}),
        (["--x.tricks=a", "--x.name", "7", "--x.tricks", "b", "--x.kind=dog"],
         {"kind": "dog", "name": 7, "tricks": ["a", "b"]}),
        (["--x.name", "7", "--x", '{"kind": "cat"}'], {"kind": "cat", "name": "7"}),
        (["--x", "name=7", "--x", "kind=dog"], {"kind": "dog", "name": 7}),
        (["--x", '{"kind": "dog", "name": 7}'], {"kind": "dog", "name": 7}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("schema", [PET, union(PET, NULL), ref("Pet")])
def test_the_discriminator_may_come_last(schema: Schema, tokens: list[str], value: Any) -> None:
    whole = params(x=schema)
    whole["$defs"] = {**DEFINITIONS, "Pet": PET}
    assert read(whole, *tokens) == {"x": value}


def test_a_discriminator_may_be_a_number_or_an_enum() -> None:
    one_schema = {"properties": {"v": {"const": 1}, "a": INTEGER}}
    two_schema = {"properties": {"v": {"enum": [2, 3]}, "a": STRING}}
    schema = {"oneOf": [one_schema, two_schema], "discriminator": {"propertyName": "v"}}
    assert one(schema, "--x.a", "5", "--x.v", "1") == {"v": 1, "a": 5}
    assert one(schema, "--x.a", "5", "--x.v", "3") == {"v": 3, "a": "5"}
    assert one(schema, "--x", '{"v": 3}', "--x.a", "5") == {"v": 3, "a": "5"}


def test_a_union_inside_a_union_has_a_separate_discriminator() -> None:
    def variant(kind: str, breed: str, part: Schema) -> Schema:
        names = {"kind": {"const": kind}, "breed": {"const": breed}, "part": part}
        return {"type": "object", "properties": names}

    inner = {
        "oneOf": [variant("cat", "manx", INTEGER), variant("cat", "tabby", STRING)],
        "discriminator": {"propertyName": "breed"},
    }
    schema = {
        "oneOf": [inner, variant("dog", "pug", BOOLEAN)],
        "discriminator": {"propertyName": "kind"},
    }
    tokens = ["--x.part", "1", "--x.kind", "cat", "--x.breed", "tabby"]
    assert one(schema, *tokens) == {"kind": "cat", "breed": "tabby", "part": "1"}


FLAGS = params(
    dry=BOOLEAN,
    is_on=union(BOOLEAN, NULL),
    cat=ref("Cat"),
    each={"type": "object", "additionalProperties": BOOLEAN},
    no_luck=BOOLEAN,
    notes=STRING,
)


@pytest.mark.parametrize(
    ("tokens", "value"),
    [
        (["--dry"], {"dry": True}),
        (["--no-dry"], {"dry": False}),
        (["--dry=false"], {"dry": False}),
        (["--is-on", "--dry"], {"is_on": True, "dry": True}),
        (["--no-is_on"], {"is_on": False}),
        (["--no_is_on"], {"is_on": False}),
        (["--is-on=null"], {"is_on": None}),
        (["--no-luck"], {"no_luck": True}),
        (["--no-no-luck"], {"no_luck": False}),
        (["--each.a", "--no-each.b"], {"each": {"a": True, "b": False}}),
        (["--cat.kind=cat", "--cat.name=T", "--cat.is-shy"],
         {"cat": {"kind": "cat", "name": "T", "is_shy": True}}),
        (["--no-cat.is_shy", "--cat.kind=cat", "--cat.name=T"],
         {"cat": {"kind": "cat", "name": "T", "is_shy": False}}),
    ],
)  # fmt: skip
def test_a_boolean_is_given_by_its_flag_alone(tokens: list[str], value: Any) -> None:
    assert read(FLAGS, *tokens) == value


@pytest.mark.parametrize(
    "flag", ["--chat-id", "--chat_id", "--conversation", "--old-name", "--old_name"]
)
def test_hyphens_underscores_and_aliases_are_one_name(flag: str) -> None:
    aliases = {"chat_id": ["conversation", "old_name"]}
    schema = params(chat_id=STRING)
    assert read(schema, flag, "a", aliases=aliases) == {"chat_id": "a"}
    base = json.dumps({flag[2:]: "a"})
    assert read(schema, aliases=aliases, base=base) == {"chat_id": "a"}
    message = refused(schema, "--chat-id=1", f"{flag}=2", aliases=aliases).message
    assert message == "--chat-id is given 2 times"


def test_names_that_differ_only_in_a_hyphen_are_distinct() -> None:
    schema = params(x={"properties": {"a-b": INTEGER, "a_b": STRING}}, c_d=STRING)
    schema["properties"]["c-d"] = INTEGER
    tokens = ["--x.a-b", "1", "--x.a_b", "1", "--c-d", "1", "--c_d", "1"]
    assert read(schema, *tokens) == {"x": {"a-b": 1, "a_b": "1"}, "c-d": 1, "c_d": "1"}


# -- where values come from ------------------------------------------------------------------


def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    text = "from a file: $HOME\n👋\n"
    (tmp_path / "text").write_text(text)
    (tmp_path / "number").write_text("5\n")
    schema = params(text=STRING, many=INTEGERS, env=ENVIRONMENT)
    tokens = [f"--text=@{tmp_path}/text", "--many", f"@{tmp_path}/number", "--many", "6"]
    tokens += ["--env.A", f"@{tmp_path}/text"]
    found = parse(tokens, schema, Sources())
    assert found == {"text": text, "many": [5, 6], "env": {"A": text}}


@pytest.mark.parametrize(("given", "meant"), [("@@", "@"), ("@@home", "@home"), ("@@@", "@@")])
def test_two_at_signs_are_one(given: str, meant: str) -> None:
    assert one(STRING, "--x", given) == one(STRING, f"--x={given}") == meant


def test_an_at_sign_inside_a_value_is_text() -> None:
    assert one(ENVIRONMENT, "--x", "A=@b") == {"A": "@b"}


def test_a_dash_is_standard_input_and_after_an_equals_sign_a_dash() -> None:
    schema = params(a=STRING, b=STRING, n=INTEGER)
    assert read(schema, "--a", "-", "--b=-", stdin="in\n") == {"a": "in\n", "b": "-"}
    assert read(schema, "--n", "-", stdin="5\n") == {"n": 5}


@pytest.mark.parametrize("base", [None, "-"])
def test_standard_input_is_read_for_one_parameter_only(base: str | None) -> None:
    schema = params(a=STRING, b=STRING)
    message = refused(schema, "--a", "-", "--b", "-", base=base, stdin="{}").message
    first, second = ("--params", "--a") if base else ("--a", "--b")
    assert message == f"{second}: {first} has taken standard input already"


def test_flags_add_to_the_object_of_params(tmp_path: Path) -> None:
    schema = params(["a"], a=INTEGER, b=STRINGS, pet=PET, env=ENVIRONMENT)
    whole = {"a": 1, "b": ["x"], "pet": {"kind": "dog", "name": 1}, "env": {"A": "1"}}
    tokens = ["--a=2", "--b=y", "--pet.name", "5", "--env.B", "2"]
    merged = {"a": 2, "b": ["y"], "pet": {"kind": "dog", "name": 5}, "env": {"A": "1", "B": "2"}}
    base = json.dumps(whole)
    file = tmp_path / "params.json"
    file.write_text(base)
    assert read(schema, base=base) == whole
    assert read(schema, *tokens, base=base) == merged
    assert read(schema, *tokens, base="-", stdin=base) == merged
    assert parse(tokens, schema, Sources(), base=f"@{file}") == merged


def test_a_complete_value_replaces_the_one_in_params() -> None:
    schema = params(env=ENVIRONMENT)
    assert read(schema, "--env", "B=2", base='{"env": {"A": "1"}}') == {"env": {"B": "2"}}


# -- refusals --------------------------------------------------------------------------------

MANY = {"enum": ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"], "type": "string"}


@pytest.mark.parametrize(
    ("schema", "tokens", "message"),
    [
        (INTEGER, ["--x", "five"], "--x must be a whole number, not 'five'"),
        (INTEGER, ["--x", "1.5"], "--x must be a whole number, not '1.5'"),
        (INTEGER, ["--x", "1_000"], "--x must be a whole number, not '1_000'"),
        (INTEGER, ["--x", "٣"], "--x must be a whole number, not '٣'"),
        (INTEGER, ["--x", "0x10"], "--x must be a whole number, not '0x10'"),
        (INTEGER, ["--x", ""], "--x must be a whole number, not ''"),
        (INTEGER, ["--x", "true"], "--x must be a whole number, not 'true'"),
        (INTEGER, ["--x", "--5"], "--x must be a whole number, not '--5'"),
        (INTEGER, ["--x", "9" * 5000], f"--x must be a whole number, not '{'9' * 58}…"),
        (NUMBER, ["--x", "inf"], "--x must be a number, not 'inf'"),
        (NUMBER, ["--x", "-Infinity"], "--x must be a number, not '-Infinity'"),
        (NUMBER, ["--x", "nan"], "--x must be a number, not 'nan'"),
        (NUMBER, ["--x", "1e999"], "--x must be a number, not '1e999'"),
        (NUMBER, ["--x", "1_0.5"], "--x must be a number, not '1_0.5'"),
        (NUMBER, ["--x", "null"], "--x must be a number, not 'null'"),
        (NUMBER, ["--x", "."], "--x must be a number, not '.'"),
        (BOOLEAN, ["--x=yes"], "--x must be true or false, not 'yes'"),
        (BOOLEAN, ["--x="], "--x must be true or false, not ''"),
        (BOOLEAN, ["--x", "true"], "unexpected argument 'true'"),
        (BOOLEAN, ["--no-x=true"], "--no-x takes no value"),
        (BOOLEAN, ["--x", "--no-x"], "--x is given 2 times"),
        ({"const": True, "type": "boolean"}, ["--no-x"], "--x must be one of true, not False"),
        (NULL, ["--x", "0"], "--x must be null, not '0'"),
        (LEVEL, ["--x", "mid"], "--x must be one of low, high, not 'mid'"),
        ({"const": "a"}, ["--x", "b"], "--x must be one of a, not 'b'"),
        ({"enum": [1, 2]}, ["--x", "3"], "--x must be one of 1, 2, not 3"),
        (union(INTEGER, LEVEL), ["--x", "1O"], "--x must be one of low, high, a whole number, not '1O'"),  # noqa: E501  one row, one line
        (union(INTEGER, NULL), ["--x", "a"], "--x must be a whole number, not 'a'"),
        (union(INTEGER, BOOLEAN), ["--x", "a"], "--x must be a whole number, not 'a'"),
        (STRING, ["--x", "a", "--x", "b"], "--x is given 2 times"),
        (STRING, ["--x"], "--x needs a value"),
        (STRING, ["--x", "--x", "a"], "--x needs a value"),
        (STRING, ["--x", "--json"], "--x needs a value"),
        (STRING, ["--x", "-o"], "--x needs a value"),
        (STRING, ["--x", "-y"], "--x needs a value"),
        (STRING, ["--x.y", "1"], "--x has no parts; give one value"),
        (INTEGERS, ["--x.y", "1"], "--x has no parts; give one value"),
        (STRING, ["--x", "a", "b"], "unexpected argument 'b'"),
        (STRING, ["b\nc"], r"unexpected argument 'b\nc'"),
        (STRING, ["-x", "b"], "unexpected argument '-x'"),
        (STRING, ["--"], "unexpected argument '--'"),
        (STRING, ["a" * 100], f"unexpected argument '{'a' * 58}…"),
        (STRING, ["--y", "1"], "unknown parameter --y"),
        (STRING, ["--", "--x=1"], "unexpected argument '--'"),
        (STRING, ["--=1"], "unknown parameter --"),
        (STRING, ["--no-x"], "unknown parameter --no-x"),
        (STRING, ["--a\nb=1"], r"unknown parameter --a\nb"),
        (STRING, ["--x=\udcff"], "--x is not UTF-8 text"),
        (ENVIRONMENT, ["--x.\udcff", "1"], r"--x.\udcff is not UTF-8 text"),
        (INTEGERS, ["--x", "1", "--x", "b"], "--x must be a whole number, not 'b'"),
        (INTEGERS, ["--x", '[1, "b"]'], "--x[1] must be a whole number, not 'b'"),
        (INTEGERS, ["--x", "[1, 2"], "--x must be a whole number, not '[1, 2'"),
        ({"type": "array", "prefixItems": [INTEGER], "items": False}, ["--x", "a"],
         "--x must be a whole number, not 'a'"),
        (ref("Point"), ["--x", "5"], "--x must be an object, not '5'"),
        (ref("Point"), ["--x", "[1]"], "--x must be an object, not '[1]'"),
        (ref("Point"), ["--x", "{x: 1}"], "--x must be a JSON object, not '{x: 1}'"),
        (ref("Point"), ["--x", "{\"x\": NaN}"], "--x must be a JSON object, not '{\"x\": NaN}'"),
        (ref("Point"), ["--x", "=1"], "--x must be an object, not '=1'"),
        (ref("Point"), ["--x.x", "a"], "--x.x must be a whole number, not 'a'"),
        (ref("Point"), ["--x", '{"x": "a"}'], "--x.x must be a whole number, not 'a'"),
        (ref("Point"), ["--x.x", "1", "--x.x", "2"], "--x.x is given 2 times"),
        (ref("Point"), ["--x.y", "1"], "missing parameter --x.x"),
        (ref("Point"), ["--x.x", "1", "--x.z", "1"], "unknown parameter --x.z"),
        (ref("Point"), ["--x.x.y", "1"], "--x.x has no parts; give one value"),
        (ref("Tree"), ["--x.name=a", "--x.below.nam", "b"], "unknown parameter --x.below.nam"),
        (ref("Tree"), ["--x", '{"name": "a", "others": [{"name": 1}]}'],
         "--x.others[0].name must be a text, not 1"),
        (ENVIRONMENT, ["--x.A", "1", "--x", "A=2"], "--x.A is given 2 times"),
        (ENVIRONMENT, ["--x", '{"A": 1}'], "--x.A must be a text, not 1"),
        (PET, ["--x.name", "Tom"], "--x.kind is missing; it must be one of cat, dog"),
        (PET, ["--x", '{"name": "Tom"}'], "--x.kind is missing; it must be one of cat, dog"),
        (PET, ["--x.kind", "cow"], "--x.kind must be one of cat, dog, not 'cow'"),
        (PET, ["--x.kind", "dog", "--x.name", "Rex"], "--x.name must be a whole number, not 'Rex'"),
        (PET, ["--x", '{"kind": "cat", "name": 5}'], "--x.name must be a text, not 5"),
        (PET, ["--x", '{"kind": "dog", "name": 5, "age": 1}'], "unknown parameter --x.age"),
        (PET, ["--x.kind=dog", "--x.kind=cat", "--x.name=1"], "--x.kind is given 2 times"),
        (ref("Circle"), ["--x", '{"r": 1e999}'], "--x must be a JSON object, not '{\"r\": 1e999}'"),
        (ANY, ["--x", "[" * 191 + "]" * 191], "--x is nested more than 190 deep"),
        (ANY, ["--x", "[" * 100_000 + "]" * 100_000], "--x is nested more than 190 deep"),
        (ref("Tree"), ["--x", '{"name":' * 191 + "1" + "}" * 191], "--x is nested more than 190 deep"),  # noqa: E501  one row, one line
        (ANY, ["--x", '"\\ud800"'], "--x contains half a surrogate pair"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_line_with_the_flag_and_the_reason(
    schema: Schema, tokens: list[str], message: str
) -> None:
    assert refused_one(schema, *tokens) == message


@pytest.mark.parametrize(
    ("tokens", "hint"),
    [
        (["--mesage", "a"], "Did you mean --message?"),
        (["--Message", "a"], "Did you mean --message?"),
        (["--qqq", "a"], "There are: --message, --point, --greek"),
        (["--message"], "If the value begins with '-', write --message=VALUE"),
        (["hello"], "Write --name value for a parameter"),
        (["--greek", "gama"], "Did you mean gamma?"),
        # The message has all choices already.
        (["--greek", "zzz"], ""),
        (["--point.xx", "1"], "Did you mean --point.x or --point.y?"),
        (["--point", "5"], "Write --point.KEY VALUE, or --point '{\"KEY\": …}'"),
    ],
)
def test_a_refusal_has_a_hint(tokens: list[str], hint: str) -> None:
    schema = params(message=STRING, point=ref("Point"), greek=MANY)
    assert refused(schema, *tokens).hint == hint


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "missing --first-name and --age"),
        (["--age", "5"], "missing --first-name"),
    ],
)
def test_missing_parameters_are_all_named_and_ask_for_the_usage_line(
    tokens: list[str], message: str
) -> None:
    schema = params(["first_name", "age"], first_name=STRING, age=INTEGER, other=STRING)
    problem = refused(schema, *tokens)
    assert (problem.message, problem.show_usage) == (message, True)
    assert not refused(schema, "--bogus").show_usage


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("[1]", "--params must be a JSON object, not '[1]'"),
        ("{", "--params must be a JSON object, not '{'"),
        ("", "--params must be a JSON object, not ''"),
        ('{"x": "a"}', "--x must be a whole number, not 'a'"),
        ('{"x": true}', "--x must be a whole number, not True"),
        ('{"x": null}', "--x must be a whole number, not None"),
        ('{"x": NaN}', "--params must be a JSON object, not '{\"x\": NaN}'"),
        ('{"z": 1}', "unknown parameter 'z' in --params"),
        ('{"x": 1, "y": 2}', "--x is given 2 times in --params"),
        ('{"a":' * 500 + "1" + "}" * 500, f"--params is nested more than {MAX_NESTING} deep"),
        ("\udcff", "--params is not UTF-8 text"),
        ('{"x": "\\udfff"}', "--params contains half a surrogate pair"),
    ],
)
def test_params_is_checked_like_the_flags(base: str, message: str) -> None:
    assert refused(params(x=INTEGER), base=base, aliases={"x": ["y"]}).message == message


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    reasons = {
        "missing": f"{tmp_path}/missing cannot be read: No such file or directory",
        "": f"{tmp_path}/ cannot be read: Is a directory",
        "binary": f"{tmp_path}/binary is not UTF-8 text",
    }
    for name, message in reasons.items():
        with pytest.raises(UsageError) as caught:
            parse([f"--x=@{tmp_path}/{name}"], params(x=STRING), Sources())
        assert caught.value.message == message


def test_a_schema_that_refers_to_itself_without_end_is_refused() -> None:
    schema = params(x=ref("Loop"))
    schema["$defs"] = {"Loop": ref("Loop")}
    assert refused(schema, "--x", "1").message == "the schema refers to itself without end"


def test_the_deepest_accepted_json_can_be_written() -> None:
    from hubd.wire.envelope import dumps

    text = '{"a":[' * (MAX_NESTING // 2) + "]}" * (MAX_NESTING // 2)
    assert dumps(one(ANY, "--x", text)) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0", 1),
        ("-2.0", -2),
        ("1e3", 1000),
        ("1E22", 10**22),
        ("1.5", NOT_JSON),
        ("1e999", NOT_JSON),
    ],
)
def test_an_integer_may_be_written_without_a_fraction_only(text: str, value: object) -> None:
    assert number_or_word(text, "integer") == value
    assert isinstance(value, int) or value is NOT_JSON
