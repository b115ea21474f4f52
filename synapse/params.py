"""The one parser: tokens and JSON Schema to JSON. Knows no hub, no terminal and no Typer.

Tokens are first gathered by parameter, because `--pet.name Tom --pet.kind cat` may come in any
order and `kind` decides what `name` is; then each parameter is converted by its schema; then the
whole is checked. Nothing heavy is imported unless a value is itself JSON.
"""

from __future__ import annotations

from synapse.errors import UsageError, did_you_mean
from synapse.plainjson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Schema = dict[str, Any]
    # The part of the name after the first dot, and the text that was given.
    Entry = tuple[str, str]

# References that lead to references; a schema that needs more is broken.
MAX_REFERENCES = 32
# The hub refuses messages nested deeper than 200; the request around the params takes some.
MAX_NESTING = 190
# A float keeps so many; a longer number that may also be a text, as a Decimal may, stays one.
EXACT_DIGITS = 15


class Sources:
    """Where `@file` and `-` get their text."""

    def __init__(self, read_file: Callable[[str], str], read_stdin: Callable[[], str]) -> None:
        self._read_file = read_file
        self._read_stdin = read_stdin
        self._stdin_taken_by = ""

    def text(self, flag: str, raw: str, *, literal_dash: bool) -> str:
        """The value that a token stands for.

        Raises:
            UsageError: The file cannot be read, standard input is wanted twice, or the token is
                not text.
        """
        if not _is_text(raw):
            raise UsageError(f"{flag} is not UTF-8 text")
        if raw == "-" and not literal_dash:
            if self._stdin_taken_by:
                raise UsageError(f"{flag}: {self._stdin_taken_by} has taken standard input already")
            self._stdin_taken_by = flag
            return self._read_stdin()
        if raw.startswith("@@"):
            return raw[1:]
        return self._read_file(raw[1:]) if raw.startswith("@") else raw


def parse(
    tokens: list[str],
    schema: Schema,
    sources: Sources,
    *,
    aliases: dict[str, list[str]] | None = None,
    base: str | None = None,
) -> dict[str, Any]:
    """The params that the tokens of a method stand for.

    Args:
        tokens: What follows the method on the command line.
        schema: The JSON Schema of its params.
        sources: Where `@file` and `-` read.
        aliases: Other names of parameters.
        base: The value of `--params`: an object that the tokens add to.

    Raises:
        UsageError: One line that names the parameter and what is wrong with it.
    """
    parser = _Parser(schema, aliases or {})
    params: dict[str, Any] = {}
    if base is not None:
        text = sources.text("--params", base, literal_dash=False)
        params = parser.by_main_name(_json_object("--params", text))
    gathered = parser.gather(tokens, sources)
    for name, entries in gathered.items():
        schema_of_one = parser.properties[name]
        params[name] = parser.convert(
            f"--{shown(name)}", entries, schema_of_one, before=params.get(name)
        )
    parser.check_all(params)
    return params


def shown(name: str) -> str:
    """A parameter's name as a flag shows it."""
    return name.replace("_", "-")


class _Parser:
    """One schema at work; all methods below are recursive over it."""

    def __init__(self, schema: Schema, aliases: dict[str, list[str]]) -> None:
        self._root = schema
        self.properties: dict[str, Schema] = schema.get("properties", {})
        self._names = {_fold(name): name for name in self.properties}
        for name, others in aliases.items():
            for other in others:
                self._names.setdefault(_fold(other), name)

    def by_main_name(self, params: dict[str, Any]) -> dict[str, Any]:
        """The same params, none under another name; what is unknown stays and is refused later."""
        renamed: dict[str, Any] = {}
        for given, value in params.items():
            name = self._named(given) or given
            if name in renamed:
                raise UsageError(f"--{shown(name)} is given 2 times in --params")
            renamed[name] = value
        return renamed

    def _named(self, given: str) -> str | None:
        return given if given in self.properties else self._names.get(_fold(given))

    # -- gathering ---------------------------------------------------------------------------

    def gather(self, tokens: list[str], sources: Sources) -> dict[str, list[Entry]]:
        """Which texts belong to which parameter."""
        gathered: dict[str, list[Entry]] = {}
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if not token.startswith("--") or token == "--":
                raise UsageError(
                    f"unexpected argument {_brief(token)}",
                    hint="Parameters are given as --name value",
                )
            flag, equals, raw = token.partition("=")
            name, rest, negated = self._locate(flag[2:])
            if not _is_text(flag):
                raise UsageError(f"{_printable(flag)} is not UTF-8 text")
            flag = _printable(flag)
            if equals and negated:
                raise UsageError(f"{flag} takes no value")
            if equals:
                text = sources.text(flag, raw, literal_dash=True)
            elif negated or self._is_flag(self.properties[name], rest):
                text = "false" if negated else "true"
            elif position < len(tokens) and not looks_like_option(tokens[position]):
                text = sources.text(flag, tokens[position], literal_dash=False)
                position += 1
            else:
                hint = f"If the value begins with '-', write {flag}=VALUE"
                raise UsageError(f"{flag} needs a value", hint=hint)
            gathered.setdefault(name, []).append((rest, text))
        return gathered

    def _locate(self, flag: str) -> tuple[str, str, bool]:
        """The parameter a flag means, what follows its dot, and whether it was negated."""
        head, _, rest = flag.partition(".")
        for candidate, remainder in ((flag, ""), (head, rest)):
            if name := self._named(candidate):
                return name, remainder, False
        if head.startswith(("no-", "no_")):
            name = self._named(head[3:])
            if name and self._is_flag(self.properties[name], rest):
                return name, rest, True
        known = [f"--{shown(name)}" for name in self.properties]
        raise UsageError(
            f"unknown parameter --{_printable(flag)}", hint=did_you_mean(f"--{flag}", known)
        )

    def _is_flag(self, schema: Schema, rest: str) -> bool:
        """Whether a value is not needed: whatever the name may lead to is a boolean."""
        ends = [end for end in self._ends(schema, rest) if end.get("type") != "null"]
        return bool(ends) and all(end.get("type") == "boolean" for end in ends)

    def _ends(self, schema: Schema, rest: str) -> list[Schema]:
        """The schemas that a dotted name may lead to."""
        if not rest:
            return self._variants(schema)
        parts = (self._part(variant, rest) for variant in self._variants(schema))
        return [end for part in parts if part for end in self._ends(part[2], part[1])]

    def _part(self, variant: Schema, path: str) -> tuple[str, str, Schema] | None:
        """The part of an object that a dotted name begins with, what follows, and its schema."""
        if not _may_be_object(variant):
            return None
        properties: dict[str, Schema] = variant.get("properties", {})
        head, _, rest = path.partition(".")
        for candidate, remainder in ((path, ""), (head, rest)):
            same = [name for name in properties if _fold(name) == _fold(candidate)]
            if same:
                name = candidate if candidate in same else same[0]
                return name, remainder, properties[name]
        more = _more(variant)
        if more is None:
            return None
        # Only where the values have parts does a dot in a key stand for one.
        if any(end.get("type") == "object" for end in self._variants(more)):
            return head, rest, more
        return path, "", more

    # -- converting --------------------------------------------------------------------------

    def convert(self, where: str, entries: list[Entry], schema: Schema, before: Any = None) -> Any:
        """One parameter from all that was given for it; parts add to what it was before."""
        dotted = [entry for entry in entries if entry[0]]
        plain = [text for rest, text in entries if not rest]
        if dotted:
            start = before if isinstance(before, dict) and not plain else {}
            return self._object(where, dotted, plain, schema, start)
        if len(plain) == 1:
            return self.text(where, plain[0], schema)
        variants = self._variants(schema)
        arrays = [variant for variant in variants if variant.get("type") == "array"]
        if arrays:
            return self._first_fit(where, arrays, lambda entry: self._array(where, plain, entry))
        if any(variant.get("type") == "object" for variant in variants):
            return self._object(where, [], plain, schema, {})
        raise UsageError(f"{where} is given {len(plain)} times")

    def _first_fit(self, where: str, variants: list[Schema], make: Callable[[Schema], Any]) -> Any:
        """What can be made for the first variant that it then fits."""
        problems: list[UsageError] = []
        for variant in variants:
            try:
                value = make(variant)
                self._check_one(where, value, variant)
            except UsageError as problem:
                problems.append(problem)
            else:
                return value
        raise problems[0]

    def text(self, where: str, text: str, schema: Schema) -> Any:
        """One value from its text."""
        variants = self._variants(schema)
        takes_null = any(entry.get("type") == "null" for entry in variants)
        if text == "null" and takes_null and not any(map(self._takes_any_text, variants)):
            return None
        strings = [entry for entry in variants if entry.get("type") == "string"]
        others = [entry for entry in variants if entry.get("type") not in ("string", "null")]
        if not strings:
            # Of a number and an array of numbers, one flag is the number.
            others.sort(key=lambda entry: entry.get("type") == "array")
            return self._first_fit(
                where, others or variants, lambda entry: self._value(where, text, entry, schema)
            )
        if others:
            value = self._json_beside_text(where, text, [*others, *strings])
            if value is not _NOT_JSON:
                return value
        return self._string(where, text, strings, others)

    def _takes_any_text(self, schema: Schema) -> bool:
        if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            return any(map(_is_any_text, self._variants(schema["items"])))
        return _is_any_text(schema)

    def _json_beside_text(self, where: str, text: str, variants: list[Schema]) -> Any:
        """Where a text is allowed too, only JSON that fits is anything else."""
        if text[:1] not in tuple('"[{-0123456789') and text not in ("true", "false"):
            return _NOT_JSON
        try:
            value = _try_json(where, text)
        except UsageError:
            return _NOT_JSON
        if isinstance(value, float) and dumps(value) != text and _digits(text) > EXACT_DIGITS:
            return _NOT_JSON
        return value if self._fits(where, value, variants) else _NOT_JSON

    def _fits(self, where: str, value: Any, variants: list[Schema]) -> bool:
        try:
            self._check(where, value, {"anyOf": variants})
        except UsageError:
            return False
        return value is not _NOT_JSON

    def _string(self, where: str, text: str, variants: list[Schema], others: list[Schema]) -> str:
        choices: list[str] = []
        for variant in variants:
            allowed = _allowed(variant)
            if allowed is None or text in allowed:
                return text
            choices += map(_spelled, allowed)
        names = [*choices, *map(_kind_name, others)]
        raise UsageError(
            f"{where} must be one of {', '.join(names)}, not {_brief(text)}",
            hint=did_you_mean(text, choices) if len(choices) > 5 else "",
        )

    def _value(self, where: str, text: str, schema: Schema, union: Schema) -> Any:
        kind = schema.get("type")
        if kind == "array":
            return self._array(where, [text], schema)
        if kind == "object":
            # The whole union, because its discriminator is to decide.
            return self._object(where, [], [text], union, {})
        if kind is None:
            value = _try_json(where, text.strip())
            return text if value is _NOT_JSON else value
        value = _number_or_word(text.strip(), kind)
        if value is _NOT_JSON:
            raise UsageError(f"{where} must be {_kind_name(schema)}, not {_brief(text)}")
        return value

    def _array(self, where: str, texts: list[str], schema: Schema) -> list[Any]:
        fixed: list[Schema] = schema.get("prefixItems", [])
        items: Schema = schema["items"] if isinstance(schema.get("items"), dict) else {}
        if len(texts) == 1 and texts[0].lstrip().startswith("["):
            ends = self._variants(items)
            whole = _NOT_JSON
            if fixed or not any(map(_is_any_text, ends)):
                whole = _try_json(where, texts[0])
            # One row of a table is not the table.
            rows = any(end.get("type") == "array" for end in ends)
            if isinstance(whole, list) and (not rows or self._fits(where, whole, [schema])):
                return whole
        schemas = [*fixed, *[items] * (len(texts) - len(fixed))]
        return [self.text(where, text, entry) for text, entry in zip(texts, schemas, strict=False)]

    def _object(
        self,
        where: str,
        dotted: list[Entry],
        plain: list[str],
        schema: Schema,
        start: dict[str, Any],
    ) -> Any:
        value = dict(start)
        pairs = list(dotted)
        for text in plain:
            key, equals, rest = text.partition("=")
            if text.lstrip().startswith("{"):
                value |= _json_object(where, text)
            elif equals and key:
                pairs.append((key, rest))
            else:
                raise UsageError(
                    f"{where} must be an object, not {_brief(text)}",
                    hint=f"Write {where}.KEY VALUE, or {where} '{{\"KEY\": …}}'",
                )
        variants = self._choose(where, pairs, value, schema)
        return self._first_fit(
            where, variants, lambda variant: self._fill(where, pairs, value, variant)
        )

    def _fill(
        self, where: str, pairs: list[Entry], start: dict[str, Any], variant: Schema
    ) -> dict[str, Any]:
        """An object from its parts, by the schema it was found to have."""
        value = dict(start)
        schemas: dict[str, Schema] = {}
        grouped: dict[str, list[Entry]] = {}
        for path, text in pairs:
            part = self._part(variant, path)
            if part is None:
                head = f"{where}.{_printable(path.partition('.')[0])}"
                known = [f"{where}.{shown(name)}" for name in variant.get("properties", {})]
                raise UsageError(f"unknown parameter {head}", hint=did_you_mean(head, known))
            name, rest, schemas[name] = part
            grouped.setdefault(name, []).append((rest, text))
        for name, entries in grouped.items():
            below = f"{where}.{_printable(name)}"
            value[name] = self.convert(below, entries, schemas[name], before=value.get(name))
        return value

    def _choose(
        self, where: str, pairs: list[Entry], value: dict[str, Any], schema: Schema
    ) -> list[Schema]:
        """The variants of a union that the given keys may mean, the likeliest first."""
        objects = [entry for entry in self._variants(schema) if _may_be_object(entry)]
        if not objects:
            raise UsageError(f"{where} has no parts; give one value")
        tag = self._discriminator(schema) if len(objects) > 1 else ""
        if tag:
            given = next((text for path, text in pairs if _fold(path) == _fold(tag)), None)
            if given is None and tag in value:
                given = _spelled(value[tag])
            objects = self._tagged(where, tag, given, objects)
        heads = {_fold(path.partition(".")[0]) for path, _ in pairs} | {_fold(key) for key in value}

        def is_unlikely(entry: Schema) -> bool:
            known = {_fold(name) for name in entry.get("properties", {})}
            needed = {_fold(name) for name in entry.get("required", [])}
            return not (needed <= heads and (heads <= known or _more(entry) is not None))

        return sorted(objects, key=is_unlikely)

    def _tagged(
        self, where: str, tag: str, given: str | None, objects: list[Schema]
    ) -> list[Schema]:
        """Those variants of a union whose discriminator has this value."""
        chosen: list[Schema] = []
        tags: list[str] = []
        for entry in objects:
            field = self._resolve(entry.get("properties", {}).get(tag, {}))
            names = list(map(_spelled, _allowed(field) or []))
            tags += names
            if given in names:
                chosen.append(entry)
        if chosen:
            return chosen
        names_of_all = ", ".join(dict.fromkeys(tags))
        if given is None:
            raise UsageError(f"{where}.{tag} must say which: {names_of_all}")
        raise UsageError(f"{where}.{tag} must be one of {names_of_all}, not {_brief(given)}")

    # -- checking ----------------------------------------------------------------------------

    def check_all(self, params: dict[str, Any]) -> None:
        """Refuse what the hub would refuse, as far as types and names go."""
        missing = [name for name in self._root.get("required", []) if name not in params]
        if missing:
            flags = ", ".join(f"--{shown(name)}" for name in missing)
            plural = "parameters" if len(missing) > 1 else "parameter"
            raise UsageError(f"missing {plural} {flags}", show_help=True)
        unknown = [name for name in params if name not in self.properties]
        if unknown and self._root.get("additionalProperties") is False:
            raise UsageError(
                f"unknown parameter {unknown[0]!r} in --params",
                hint=did_you_mean(unknown[0], list(self.properties)),
            )
        for name, value in params.items():
            if name in self.properties:
                self._check(f"--{shown(name)}", value, self.properties[name])

    def _check(self, where: str, value: Any, schema: Schema) -> None:
        variants = self._variants(schema)
        tag = self._discriminator(schema) if isinstance(value, dict) and len(variants) > 1 else ""
        if tag:
            given = _spelled(value[tag]) if tag in value else None
            variants = self._tagged(where, tag, given, variants)
        problem: UsageError | None = None
        for variant in variants:
            try:
                self._check_one(where, value, variant)
            except UsageError as error:
                # The variant of the right type knows best what is wrong.
                if problem is None or _is_kind(value, variant.get("type")):
                    problem = error
            else:
                return
        if problem is not None:
            raise problem

    def _check_one(self, where: str, value: Any, schema: Schema) -> None:
        kind = schema.get("type")
        allowed = _allowed(schema)
        if allowed is not None and not any(_same(value, entry) for entry in allowed):
            choices = ", ".join(map(_spelled, allowed))
            raise UsageError(f"{where} must be one of {choices}, not {_brief(value)}")
        if kind is not None and not _is_kind(value, kind):
            raise UsageError(f"{where} must be {_kind_name(schema)}, not {_brief(value)}")
        if isinstance(value, list):
            fixed = schema.get("prefixItems", [])
            items = schema.get("items", {})
            for number, entry in enumerate(value):
                below = fixed[number] if number < len(fixed) else items
                if isinstance(below, dict):
                    self._check(f"{where}[{number}]", entry, below)
        elif isinstance(value, dict):
            self._check_object(where, value, schema)

    def _check_object(self, where: str, value: dict[str, Any], schema: Schema) -> None:
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                raise UsageError(f"missing parameter {where}.{name}")
        for name, entry in value.items():
            part = f"{where}.{_printable(name)}"
            below = properties.get(name, schema.get("additionalProperties", {}))
            if below is False:
                raise UsageError(
                    f"unknown parameter {part}", hint=did_you_mean(name, list(properties))
                )
            if isinstance(below, dict):
                self._check(part, entry, below)

    # -- schemas -----------------------------------------------------------------------------

    def _resolve(self, schema: Schema) -> Schema:
        for _ in range(MAX_REFERENCES):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                target = self._root
                for part in reference.removeprefix("#/").split("/"):
                    target = target[part]
                rest = {name: value for name, value in schema.items() if name != "$ref"}
                schema = {**target, **rest}
            elif len(schema.get("allOf", ())) == 1:
                rest = {name: value for name, value in schema.items() if name != "allOf"}
                schema = {**schema["allOf"][0], **rest}
            else:
                return schema
        raise UsageError("the schema refers to itself without end")

    def _variants(self, schema: Schema) -> list[Schema]:
        """The schemas, none of them a union, of which one must fit."""
        schema = self._resolve(schema)
        union = schema.get("anyOf") or schema.get("oneOf")
        if union:
            return [flat for entry in union for flat in self._variants(entry)]
        kind = schema.get("type")
        if isinstance(kind, list):
            return [{**schema, "type": entry} for entry in kind]
        return [schema] if kind is not None else _by_type(schema)

    def _discriminator(self, schema: Schema) -> str:
        schema = self._resolve(schema)
        if "discriminator" in schema:
            return str(schema["discriminator"]["propertyName"])
        for entry in schema.get("anyOf", []):
            if tag := self._discriminator(entry):
                return tag
        return ""


_NOT_JSON = object()
_TOO_DEEP = object()


def looks_like_option(token: str) -> bool:
    """Whether a token is a flag rather than the value of the flag before it."""
    flag = token.partition("=")[0]
    if flag in ("-o", "-j", "-h", "-y"):
        return True
    name = flag[2:]
    return flag.startswith("--") and name[:1].isalpha() and not any(map(str.isspace, name))


def _fold(name: str) -> str:
    return name.replace("-", "_")


def _try_json(where: str, text: str) -> Any:
    """The value that a JSON text stands for, or `_NOT_JSON`.

    Raises:
        UsageError: It is JSON that the hub would not read.
    """
    import json

    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except ValueError:
        return _NOT_JSON
    except RecursionError:
        value = _TOO_DEEP
    openings = text.count("[") + text.count("{")
    if value is _TOO_DEEP or (openings > MAX_NESTING and _depth(value) > MAX_NESTING):
        raise UsageError(f"{where} is nested more than {MAX_NESTING} deep")
    if "\\u" in text and not _is_text(json.dumps(value, ensure_ascii=False)):
        raise UsageError(f"{where} has half a surrogate pair in it")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(text)
    return number


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        parts = (entry.values() if isinstance(entry, dict) else entry for entry in level)
        level = [below for part in parts for below in part]
    return depth


def _json_object(where: str, text: str) -> dict[str, Any]:
    value = _try_json(where, text)
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON object, not {_brief(text)}")
    return value


def _is_text(text: str) -> bool:
    """Whether it can be sent: bytes that are not UTF-8 arrive as halves of surrogate pairs."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _number_or_word(text: str, kind: str) -> Any:
    """A number, true, false or null from its text; `_NOT_JSON` if it is none of the kind."""
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text] if _is_kind(words[text], kind) else _NOT_JSON
    if kind not in ("integer", "number"):
        return _NOT_JSON
    digits = text[1:] if text[:1] in ("-", "+") else text
    if (
        not digits.isascii()
        or not digits.replace(".", "")
        .replace("e", "")
        .replace("E", "")
        .replace("-", "")
        .replace("+", "")
        .isdigit()
    ):
        return _NOT_JSON
    try:
        if kind != "number" or digits.isdigit():
            return int(text)
        number = float(text)
    except ValueError:
        return _NOT_JSON
    return number if abs(number) != float("inf") else _NOT_JSON


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text.lower().partition("e")[0]))


def _is_kind(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if isinstance(value, int):
        return kind in ("integer", "number")
    if isinstance(value, float):
        return kind == "number" or (kind == "integer" and value.is_integer())
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return bool(kinds.get(type(value)) == kind)


def _allowed(schema: Schema) -> list[Any] | None:
    """The values that a schema lists, if it lists any."""
    values: list[Any] | None = schema.get("enum")
    return [schema["const"]] if values is None and "const" in schema else values


def _by_type(schema: Schema) -> list[Schema]:
    """A schema without a type, once for each type it implies by its values or parts."""
    values = _allowed(schema)
    if values is None:
        return [{**schema, "type": "object"} if "properties" in schema else schema]
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    grouped: dict[str | None, list[Any]] = {}
    for value in values:
        grouped.setdefault(names.get(type(value)), []).append(value)
    return [{**schema, "type": kind, "enum": same} for kind, same in grouped.items()]


def _more(schema: Schema) -> Schema | None:
    """The schema of the keys that an object does not name; None if it may have no others."""
    patterns = schema.get("patternProperties", {})
    otherwise = next(iter(patterns.values()), not schema.get("properties"))
    more = schema.get("additionalProperties", otherwise)
    return more if isinstance(more, dict) else ({} if more else None)


def _is_any_text(schema: Schema) -> bool:
    return schema.get("type") == "string" and _allowed(schema) is None


def _may_be_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or (
        schema.get("type") is None and _allowed(schema) is None
    )


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _kind_name(schema: Schema) -> str:
    names = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "string": "a text",
        "array": "an array",
        "object": "an object",
        "null": "null",
    }
    return names.get(str(schema.get("type")), "one of the values allowed")


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _printable(name: str) -> str:
    """A name as part of one line."""
    if not name.isprintable():
        name = repr(name)[1:-1]
    return name if len(name) <= 60 else f"{name[:59]}…"
