"""Any value of any schema, written as arguments in any documented way, is parsed back."""

import enum
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue, StringConstraints

from synapse.argv import looks_like_option
from synapse.errors import UsageError
from synapse.params.parser import parse
from synapse.params.sources import Sources

Schema = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
# Tokens that must stay together; those of one flag keep their order.
Group = tuple[str, list[str]]

DEPTH = 3
NULL: Schema = {"type": "null"}
WORDS = st.sampled_from(["a", "b_c", "d-e", "name", "no_x", "kind2", "é", "x1", "äö_ü"])
KEYS = st.text(min_size=1, max_size=6).filter(lambda key: not set(key) & set("=."))
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["-", "--", "--json", "@", "@x", "5", "true", "null", '"q"', "[1]", "{}", "-o"]
    ),
    st.sampled_from(["a=b", "$HOME", "--a b", "[", "007", "1e5", " ", "\n", "👋", "-5", "{a}"]),
)
INTEGERS = st.integers(-(10**25), 10**25)
NUMBERS = st.one_of(INTEGERS, st.floats(allow_nan=False, allow_infinity=False))
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.text(max_size=4), below, max_size=3)
    ),
    max_leaves=6,
)
LEAVES: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    ({"type": "string"}, TEXTS),
    ({"type": "string", "format": "date-time"}, TEXTS),
    ({"type": "integer"}, INTEGERS),
    ({"type": "number"}, NUMBERS),
    ({"type": "boolean"}, st.booleans()),
    ({"enum": ["low", "high"], "type": "string"}, st.sampled_from(["low", "high"])),
    ({"enum": [1, -2], "type": "integer"}, st.sampled_from([1, -2])),
    ({"enum": ["a", 1, None, False]}, st.sampled_from(["a", 1, None, False])),
    ({"const": "only", "type": "string"}, st.just("only")),
    ({"const": 7}, st.just(7)),
    (NULL, st.none()),
    ({}, ANYTHING),
]


class Case:
    """A schema for params and params that satisfy it, drawn together."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.definitions: Schema = {}
        self.properties: Schema = {}
        self.values: dict[str, Any] = {}
        for name in draw(st.lists(WORDS, max_size=4, unique_by=fold)):
            schema, value = self._any(DEPTH)
            self.properties[name] = schema
            if draw(st.booleans()):
                self.values[name] = value
        self.schema = {
            "type": "object",
            "properties": self.properties,
            "required": sorted(self.values),
            "additionalProperties": False,
            "$defs": self.definitions,
        }

    def _any(self, depth: int) -> tuple[Schema, Any]:
        makers = [self._leaf, self._union_of_leaves]
        if depth:
            makers += [self._nullable, self._array, self._tuple, self._one_or_many]
            makers += [self._object, self._map, self._tagged, self._reference]
        return self._draw(st.sampled_from(makers))(depth - 1)  # type: ignore[no-any-return]

    def _leaf(self, depth: int) -> tuple[Schema, Any]:
        schema, values = self._draw(st.sampled_from(LEAVES))
        return schema, self._draw(values)

    def _union_of_leaves(self, depth: int) -> tuple[Schema, Any]:
        leaves = self._draw(
            st.lists(st.sampled_from(LEAVES[:7]), min_size=2, max_size=3, unique_by=repr)
        )
        value = self._draw(st.one_of([values for _, values in leaves]))
        return {"anyOf": [schema for schema, _ in leaves]}, value

    def _nullable(self, depth: int) -> tuple[Schema, Any]:
        schema, value = self._any(depth)
        return {"anyOf": [schema, NULL], "default": None}, self._draw(
            st.sampled_from([None, value])
        )

    def _array(self, depth: int) -> tuple[Schema, Any]:
        """Only one value can be drawn with its schema; the array repeats it."""
        schema, value = self._any(depth)
        return {"type": "array", "items": schema}, [value] * self._draw(st.integers(0, 3))

    def _tuple(self, depth: int) -> tuple[Schema, Any]:
        pairs = [self._any(depth) for _ in range(self._draw(st.integers(1, 3)))]
        schemas = [schema for schema, _ in pairs]
        size = len(pairs)
        schema = {"type": "array", "prefixItems": schemas, "minItems": size, "maxItems": size}
        return schema, [value for _, value in pairs]

    def _one_or_many(self, depth: int) -> tuple[Schema, Any]:
        leaf, values = self._draw(st.sampled_from(LEAVES[:6]))
        many = {"type": "array", "items": leaf}
        schemas = self._draw(st.permutations([leaf, many]))
        return {"anyOf": schemas}, self._draw(st.one_of(values, st.lists(values, max_size=3)))

    def _object(self, depth: int) -> tuple[Schema, Any]:
        properties, value = {}, {}
        names = self._draw(st.lists(WORDS, max_size=3, unique_by=fold))
        required = []
        for name in names:
            properties[name], part = self._any(depth)
            if self._draw(st.booleans()):
                value[name] = part
                required += [name] * self._draw(st.booleans())
        schema: Schema = {"type": "object", "properties": properties, "required": required}
        if self._draw(st.booleans()):
            schema["additionalProperties"] = False
        return schema, value

    def _map(self, depth: int) -> tuple[Schema, Any]:
        schema, value = self._any(depth)
        keys = self._draw(st.lists(KEYS, max_size=3, unique=True))
        return {"type": "object", "additionalProperties": schema}, dict.fromkeys(keys, value)

    def _tagged(self, depth: int) -> tuple[Schema, Any]:
        variants, values = [], []
        for tag in ("cat", "dog", "cow")[: self._draw(st.integers(2, 3))]:
            schema, value = self._object(depth)
            schema["properties"]["kind"] = {"const": tag, "type": "string"}
            schema["required"] = [*schema["required"], "kind"]
            variants.append(self._defined(schema))
            values.append({**value, "kind": tag})
        union = {"oneOf": variants, "discriminator": {"propertyName": "kind"}}
        return union, self._draw(st.sampled_from(values))

    def _reference(self, depth: int) -> tuple[Schema, Any]:
        schema, value = self._any(depth)
        reference = self._defined(schema)
        if self._draw(st.booleans()):
            return {"allOf": [reference], "description": "Wrapped."}, value
        return reference, value

    def _defined(self, schema: Schema) -> Schema:
        name = f"Part{len(self.definitions)}"
        self.definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}


class Unwritable(Exception):
    """No text of its own stands for this value; only JSON around it does."""


class Writer:
    """Writes params as arguments, choosing among the documented spellings."""

    def __init__(self, draw: Draw, definitions: Schema) -> None:
        self._draw = draw
        self._definitions = definitions
        # A part of a union may be a switch in one variant and need a value in another.
        self._unions: list[str] = []

    def write(self, case: Case) -> tuple[list[str], str | None]:
        """The tokens, and the value of --params if it is used."""
        base: dict[str, Any] = {}
        groups: list[Group] = []
        for name, value in case.values.items():
            try:
                if self._maybe():
                    raise Unwritable
                flag = "--" + self._either(name)
                groups += self._groups(flag, value, case.properties[name])
            except Unwritable:
                base[name] = value
        return self._shuffled(groups), json.dumps(base) if base or self._maybe() else None

    def _maybe(self) -> bool:
        return bool(self._draw(st.booleans()))

    def _either(self, name: str) -> str:
        other = name.replace("_", "-") if self._maybe() else name.replace("-", "_")
        return other if self._maybe() else name

    def _shuffled(self, groups: list[Group]) -> list[str]:
        mixed = self._draw(st.permutations(groups))
        inside = {
            flag: iter([group for name, group in groups if name == flag]) for flag, _ in mixed
        }
        return [token for flag, _ in mixed for token in next(inside[flag])]

    def _variants(self, schema: Schema) -> list[Schema]:
        if "$ref" in schema:
            return self._variants(self._definitions[schema["$ref"].rpartition("/")[2]])
        parts = schema.get("allOf") or schema.get("anyOf") or schema.get("oneOf")
        return [flat for part in parts for flat in self._variants(part)] if parts else [schema]

    def _groups(self, flag: str, value: Any, schema: Schema) -> list[Group]:
        variants = self._variants(schema)
        if all(has_type(entry, "boolean", "null") for entry in variants):
            return [(flag, [self._boolean(flag, value)])]
        if isinstance(value, dict) and self._maybe():
            return self._parts(flag, value, variants)
        if isinstance(value, list) and self._maybe():
            return self._repeated(flag, value, variants)
        return [self._flag(flag, self._text(value, variants))]

    def _boolean(self, flag: str, value: bool | None) -> str:
        if value is None or any(map(flag.startswith, self._unions)) or self._maybe():
            return f"{flag}={json.dumps(value)}"
        return flag if value else f"--no-{flag[2:]}"

    def _flag(self, flag: str, text: str) -> Group:
        if text.startswith("@"):
            text = f"@{text}"
        if text == "-" or looks_like_option(text) or self._maybe():
            return flag, [f"{flag}={text}"]
        return flag, [flag, text]

    def _parts(self, flag: str, value: dict[str, Any], variants: list[Schema]) -> list[Group]:
        """Dotted keys for what can be written so, one JSON object for the rest."""
        schema = next((entry for entry in variants if fits_object(entry, value)), None)
        if schema is None or not value:
            raise Unwritable
        if len(variants) > 1:
            self._unions.append(f"{flag}.")
        groups: list[Group] = []
        rest: dict[str, Any] = {}
        for name, part in value.items():
            properties = schema.get("properties", {})
            key = self._either(name) if name in properties else name
            try:
                below = properties.get(name, schema.get("additionalProperties"))
                groups += self._groups(f"{flag}.{key}", part, below)
            except Unwritable:
                rest[name] = part
        return [*groups, self._flag(flag, json.dumps(rest))] if rest else groups

    def _repeated(self, flag: str, value: list[Any], variants: list[Schema]) -> list[Group]:
        array = next(entry for entry in variants if has_type(entry, "array") or not entry)
        if not array or len(value) < 2:
            return [self._flag(flag, self._text(value, variants))]
        fixed = array.get("prefixItems", [])
        schemas = [*fixed, *[array.get("items", {})] * (len(value) - len(fixed))]
        texts = [
            self._text(item, self._variants(entry))
            for item, entry in zip(value, schemas, strict=True)
        ]
        return [self._flag(flag, text) for text in texts]

    def _text(self, value: Any, variants: list[Schema]) -> str:
        """One word for a value."""
        texts = [entry for entry in variants if is_text(entry)]
        if isinstance(value, str):
            # Beside anything else, and where anything goes, a text may have to be quoted.
            if all(has_type(entry, "string", "null") for entry in variants):
                return value
            start = value.strip()
            risky = start[:1] in tuple('"[{-0123456789') or start in ("true", "false", "null", "")
            return json.dumps(value) if risky or self._maybe() else value
        arrays = [entry for entry in variants if has_type(entry, "array")]
        items = [entry for array in arrays for entry in self._variants(array.get("items", {}))]
        if value is None and (texts or any(map(is_text, items))):
            raise Unwritable  # it is the text that is meant
        if isinstance(value, list) and not texts and any(map(is_text, items)):
            raise Unwritable  # a text that begins with a bracket is a text
        return json.dumps(value, ensure_ascii=self._maybe())


def fold(name: str) -> str:
    return name.replace("-", "_")


def has_type(schema: Schema, *names: str) -> bool:
    return schema.get("type") in names


def is_text(schema: Schema) -> bool:
    return has_type(schema, "string") and not {"enum", "const"} & set(schema)


def fits_object(schema: Schema, value: dict[str, Any]) -> bool:
    if not has_type(schema, "object"):
        return False
    tag = schema.get("properties", {}).get("kind", {}).get("const")
    if tag is not None and value.get("kind") != tag:
        return False
    return "additionalProperties" in schema or set(value) <= set(schema["properties"])


def read(tokens: list[str], schema: Schema, base: str | None = None) -> dict[str, Any]:
    def refuse(name: str = "standard input") -> str:
        raise AssertionError(f"{name} was read")

    return parse(tokens, schema, Sources(refuse, refuse), base=base)


def canonical(value: Any) -> str:
    """Return JSON that is equal for equal values: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_with_integers(value), sort_keys=True)


def _with_integers(value: Any) -> Any:
    """Return a value with integers in place of floats that have no fraction."""
    if isinstance(value, dict):
        return {name: _with_integers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_integers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@given(st.data())
def test_written_arguments_are_parsed_back(data: st.DataObject) -> None:
    case = Case(data.draw)
    tokens, base = Writer(data.draw, case.definitions).write(case)
    found = read(tokens, case.schema, base)
    assert canonical(found) == canonical(case.values), (tokens, base, case.schema)


@given(st.data())
def test_any_line_is_parsed_or_refused_in_one_line(data: st.DataObject) -> None:
    case = Case(data.draw)
    flags = [f"--{name}" for name in case.properties] or ["--a"]
    flag = st.sampled_from(flags)
    dotted = st.builds("{}.{}".format, flag, st.one_of(WORDS, st.text(max_size=3)))
    texts = TEXTS.filter(lambda text: text != "-" and not text.startswith("@"))
    token = st.one_of(
        flag, dotted, texts, st.builds("{}={}".format, st.one_of(flag, dotted), texts)
    )
    problem: UsageError | None = None
    try:
        json.dumps(read(data.draw(st.lists(token, max_size=6)), case.schema), allow_nan=False)
    except UsageError as refusal:
        problem = refusal
    assert problem is None or problem.message.isprintable()


# -- what pydantic itself writes --------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9
    shy: bool = False


class Dog(BaseModel, extra="forbid"):
    kind: Literal["dog", "puppy"]
    name: str
    tricks: list[str] = []


class Node(BaseModel):
    name: str
    below: "Node | None" = None
    others: list["Node"] = []


class Everything(BaseModel, extra="forbid"):
    text: str = ""
    words: list[str] = []
    numbers: set[int] = set()
    ratio: Annotated[float, Field(gt=0)] = 1
    colour: Colour = Colour.RED
    colours: list[Colour] | None = None
    priority: Priority | None = None
    mixed: Literal["auto", 1, True, None] = "auto"
    limit: int | Literal["all"] = 1
    amount: Decimal = Decimal(0)
    when: datetime | None = None
    wait: timedelta = timedelta()
    uid: UUID | None = None
    pair: tuple[int, str] | None = None
    table: list[list[int]] = []
    env: dict[str, str] = {}
    matrix: dict[str, dict[str, float]] = {}
    checked: dict[Annotated[str, StringConstraints(pattern="^a")], str] = {}
    by_colour: dict[Colour, int] = {}
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    plain_union: Node | Cat | None = None
    node: Node | None = None
    free: JsonValue = None
    options: dict[str, JsonValue] = {}
    handle: str | list[str] = ""
    quick: bool | None = None


EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("--text=5 --words=5 --words=null", {"text": "5", "words": ["5", "null"]}),
    ("--numbers 1 --numbers -2 --ratio 1e-3", {"numbers": {1, -2}, "ratio": 0.001}),
    ("--colour blue --colours red --colours blue",
     {"colour": Colour.BLUE, "colours": [Colour.RED, Colour.BLUE]}),
    ('--colours ["blue"] --priority 2', {"colours": [Colour.BLUE], "priority": Priority.HIGH}),
    ("--colours null --priority null", {"colours": None, "priority": None}),
    ("--mixed auto", {"mixed": "auto"}),
    ("--mixed 1", {"mixed": 1}),
    ("--mixed null", {"mixed": None}),
    ("--limit all", {"limit": "all"}),
    ("--limit 5", {"limit": 5}),
    ("--amount 12.50", {"amount": Decimal("12.50")}),
    ("--when 2026-01-31T12:00:00Z --wait PT5M",
     {"when": datetime(2026, 1, 31, 12, tzinfo=UTC), "wait": timedelta(minutes=5)}),
    ("--uid 00000000-0000-4000-8000-000000000000",
     {"uid": UUID("00000000-0000-4000-8000-000000000000")}),
    ("--pair 1 --pair 2", {"pair": (1, "2")}),
    ("--table [1,2] --table [3]", {"table": [[1, 2], [3]]}),
    ("--table [1,2]", {"table": [[1, 2]]}),
    ("--env.A 1 --env B=2 --matrix.a.b 1 --matrix.a.c=2",
     {"env": {"A": "1", "B": "2"}, "matrix": {"a": {"b": 1, "c": 2}}}),
    ("--checked.a 1 --by-colour.red 2", {"checked": {"a": "1"}, "by_colour": {Colour.RED: 2}}),
    ("--pet.lives 7 --pet.shy --pet.kind cat", {"pet": Cat(lives=7, shy=True)}),
    ("--pet.name 7 --pet.tricks a --pet.kind puppy",
     {"pet": Dog(kind="puppy", name="7", tricks=["a"])}),
    ('--pets {"kind":"cat"} --pets {"kind":"dog","name":"Rex"}',
     {"pets": [Cat(), Dog(kind="dog", name="Rex")]}),
    ("--plain_union.lives 3", {"plain_union": Cat(lives=3)}),
    ("--plain_union.name n", {"plain_union": Node(name="n")}),
    ("--node.name a --node.below.name b --node.others name=c",
     {"node": Node(name="a", below=Node(name="b"), others=[Node(name="c")])}),
    ('--free [1,{"a":null}] --options.a [1] --options.b text',
     {"free": [1, {"a": None}], "options": {"a": [1], "b": "text"}}),
    ("--handle a", {"handle": "a"}),
    ("--handle a --handle b", {"handle": ["a", "b"]}),
    ("--quick", {"quick": True}),
    ("--no-quick", {"quick": False}),
    ("--quick=null", {"quick": None}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "values"), EXAMPLES)
def test_pydantic_accepts_the_parsed_params(line: str, values: dict[str, Any]) -> None:
    found = read(line.split(" "), Everything.model_json_schema())
    assert Everything.model_validate_json(json.dumps(found)) == Everything(**values)


@given(st.builds(Everything, text=TEXTS, words=st.lists(TEXTS), env=st.dictionaries(KEYS, TEXTS),
                 amount=st.decimals(allow_nan=False, allow_infinity=False, places=2),
                 pets=st.lists(st.one_of(st.builds(Cat), st.builds(Dog, name=TEXTS))),
                 when=st.datetimes(timezones=st.just(UTC)), free=ANYTHING))  # fmt: skip
def test_a_whole_model_survives_as_flags_of_json_texts(model: Everything) -> None:
    tokens: list[str] = []
    for name, value in json.loads(model.model_dump_json(exclude_none=True)).items():
        for item in value if isinstance(value, list) and name != "free" else [value]:
            text = item if isinstance(item, str) and name != "free" else json.dumps(item)
            tokens.append(f"--{name}={'@' if text[:1] == '@' else ''}{text}")
    found = read(tokens, Everything.model_json_schema())
    assert Everything.model_validate_json(json.dumps(found)) == model
