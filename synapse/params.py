"""The one parser: tokens and JSON Schema to JSON. Knows no hub, no terminal and no Typer.

Tokens are first gathered by parameter, because `--pet.name Tom --pet.kind cat` may come in any
order and `kind` decides what `name` is; then each parameter is converted by its schema; then the
whole is checked. Nothing heavy is imported unless a value is itself JSON.
"""

from __future__ import annotations

from synapse.errors import UsageError, did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Schema = dict[str, Any]
    # The part of the name after the first dot, and the text that was given.
    Entry = tuple[str, str]

# References that lead to references; a schema that needs more is broken.
MAX_REFERENCES = 32


class Sources:
    """Where `@file` and `-` get their text."""

    def __init__(self, read_file: Callable[[str], str], read_stdin: Callable[[], str]) -> None:
        self._read_file = read_file
        self._read_stdin = read_stdin
        self._stdin_taken_by = ""

    def text(self, flag: str, raw: str, *, literal_dash: bool) -> str:
        """The value that a token stands for.

        Raises:
            UsageError: The file cannot be read, or standard input is wanted twice.
        """
        if raw == "-" and not literal_dash:
            if self._stdin_taken_by:
                raise UsageError(f"{self._stdin_taken_by} has taken standard input already")
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
        params = _json_object("--params", sources.text("--params", base, literal_dash=False))
    gathered = parser.gather(tokens, sources)
    for name, entries in gathered.items():
        params[name] = parser.convert(f"--{shown(name)}", entries, parser.properties[name])
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
                    f"unexpected argument {token!r}", hint="Parameters are given as --name value"
                )
            flag, equals, raw = token.partition("=")
            name, rest, negated = self._locate(flag[2:])
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
            if _fold(candidate) in self._names:
                return self._names[_fold(candidate)], remainder, False
        if head.startswith(("no-", "no_")) and _fold(head[3:]) in self._names:
            name = self._names[_fold(head[3:])]
            if self._is_flag(self.properties[name], rest):
                return name, rest, True
        known = [f"--{shown(name)}" for name in self.properties]
        raise UsageError(f"unknown parameter --{flag}", hint=did_you_mean(f"--{flag}", known))

    def _is_flag(self, schema: Schema, rest: str) -> bool:
        """Whether a value is not needed: whatever the name may lead to is a boolean."""
        ends = [end for end in self._ends(schema, rest) if end.get("type") != "null"]
        return bool(ends) and all(end.get("type") == "boolean" for end in ends)

    def _ends(self, schema: Schema, rest: str) -> list[Schema]:
        """The schemas that a dotted name may lead to."""
        found: list[Schema] = []
        for variant in self._variants(schema):
            if not rest:
                found.append(variant)
                continue
            head, _, below = rest.partition(".")
            properties = variant.get("properties", {})
            names = {_fold(name): name for name in properties}
            if _fold(head) in names:
                found += self._ends(properties[names[_fold(head)]], below)
            elif isinstance(variant.get("additionalProperties"), dict):
                found += self._ends(variant["additionalProperties"], "")
        return found

    # -- converting --------------------------------------------------------------------------

    def convert(self, where: str, entries: list[Entry], schema: Schema) -> Any:
        """One parameter from all that was given for it."""
        dotted = [entry for entry in entries if entry[0]]
        plain = [text for rest, text in entries if not rest]
        if dotted:
            return self._object(where, dotted, plain, schema)
        variants = self._variants(schema)
        arrays = [variant for variant in variants if variant.get("type") == "array"]
        if arrays and len(plain) > 1:
            return self._array(where, plain, arrays[0])
        if len(plain) > 1:
            maps = [variant for variant in variants if variant.get("type") == "object"]
            if maps:
                return self._object(where, [], plain, schema)
            raise UsageError(f"{where} is given {len(plain)} times")
        return self.text(where, plain[0], schema)

    def text(self, where: str, text: str, schema: Schema) -> Any:
        """One value from its text."""
        variants = self._variants(schema)
        strings = [entry for entry in variants if entry.get("type") == "string"]
        others = [entry for entry in variants if entry.get("type") not in ("string", "null")]
        if not others and not strings and variants:
            others = variants  # only null is allowed
        if strings and not others:
            return self._string(where, text, strings)
        if strings and text.startswith('"') and isinstance(quoted := _try_json(text), str):
            return self._string(where, quoted, strings)
        problems = []
        for variant in others:
            # Beside a string, only what looks like an array or an object is one.
            opening = {"array": "[", "object": "{"}.get(str(variant.get("type")), "")
            if strings and not text.lstrip().startswith(opening):
                continue
            try:
                return self._scalar(where, text, variant)
            except UsageError as problem:
                problems.append(problem)
        if strings:
            return self._string(where, text, strings)
        if text == "null" and len(others) < len(variants):
            return None
        raise problems[0] if problems else UsageError(f"{where}: no value is possible")

    def _string(self, where: str, text: str, variants: list[Schema]) -> str:
        problems = []
        for variant in variants:
            allowed = variant.get("enum", [variant["const"]] if "const" in variant else None)
            if allowed is None or text in allowed:
                return text
            problems += [str(value) for value in allowed]
        raise UsageError(
            f"{where} must be one of {', '.join(problems)}, not {_brief(text)}",
            hint=did_you_mean(text, problems) if len(problems) > 5 else "",
        )

    def _scalar(self, where: str, text: str, schema: Schema) -> Any:
        kind = schema.get("type")
        if kind == "array":
            return self._array(where, [text], schema)
        if kind == "object":
            return self._object(where, [], [text], schema)
        if kind is None and not ("enum" in schema or "const" in schema):
            value = _try_json(text.strip())
            return text if value is _NOT_JSON else value
        value = _number_or_word(text.strip(), kind)
        if value is _NOT_JSON:
            raise UsageError(f"{where} must be {_kind_name(schema)}, not {_brief(text)}")
        return value

    def _array(self, where: str, texts: list[str], schema: Schema) -> list[Any]:
        fixed: list[Schema] = schema.get("prefixItems", [])
        items: Schema = schema.get("items", {}) if schema.get("items") is not True else {}
        strings = any(end.get("type") == "string" for end in self._variants(items or {}))
        if len(texts) == 1 and texts[0].lstrip().startswith("[") and (fixed or not strings):
            whole = _try_json(texts[0])
            if isinstance(whole, list):
                return whole
        schemas = [*fixed, *[items] * (len(texts) - len(fixed))]
        return [
            self.text(where, text, entry) for text, entry in zip(texts, schemas, strict=False)
        ] + texts[len(schemas) :]

    def _object(
        self, where: str, dotted: list[Entry], plain: list[str], schema: Schema
    ) -> dict[str, Any]:
        value: dict[str, Any] = {}
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
        variant = self._choose(where, pairs, value, schema)
        properties: dict[str, Schema] = variant.get("properties", {})
        names = {_fold(name): name for name in properties}
        grouped: dict[str, list[Entry]] = {}
        for path, text in pairs:
            head, _, rest = path.partition(".")
            if _fold(head) in names:
                grouped.setdefault(names[_fold(head)], []).append((rest, text))
            elif variant.get("additionalProperties", not properties) is not False:
                more = variant.get("additionalProperties")
                schema_below = more if isinstance(more, dict) else {}
                nested = any("properties" in end for end in self._variants(schema_below))
                key, rest = (head, rest) if nested else (path, "")
                grouped.setdefault(key, []).append((rest, text))
            else:
                known = [f"{where}.{shown(name)}" for name in properties]
                raise UsageError(
                    f"unknown parameter {where}.{head}", hint=did_you_mean(f"{where}.{head}", known)
                )
        for name, entries in grouped.items():
            below = properties.get(name)
            if below is None:
                more = variant.get("additionalProperties")
                below = more if isinstance(more, dict) else {}
            value[name] = self.convert(f"{where}.{name}", entries, below)
        return value

    def _choose(
        self, where: str, pairs: list[Entry], value: dict[str, Any], schema: Schema
    ) -> Schema:
        """The variant of a union that the given keys mean."""
        objects = [entry for entry in self._variants(schema) if _may_be_object(entry)]
        if not objects:
            raise UsageError(f"{where} has no parts; give one value")
        if len(objects) == 1:
            return objects[0]
        tag = self._discriminator(schema)
        if tag:
            given = next((text for path, text in pairs if _fold(path) == _fold(tag)), None)
            given = value.get(tag) if given is None else given
            tags: dict[str, Schema] = {}
            for entry in objects:
                field = self._resolve(entry.get("properties", {}).get(tag, {}))
                for name in field.get("enum", [field.get("const")]):
                    tags[str(name)] = entry
            if given in tags:
                return tags[given]
            raise UsageError(f"{where}.{tag} must say which: {', '.join(tags)}")
        heads = {_fold(path.partition(".")[0]) for path, _ in pairs} | {_fold(key) for key in value}
        for entry in objects:
            known = {_fold(name) for name in entry.get("properties", {})}
            needed = {_fold(name) for name in entry.get("required", [])}
            if needed <= heads and (
                heads <= known or entry.get("additionalProperties") is not False
            ):
                return entry
        return objects[0]

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
        allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if allowed is not None and not any(_same(value, entry) for entry in allowed):
            choices = ", ".join(map(str, allowed))
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
            below = properties.get(name, schema.get("additionalProperties", {}))
            if below is False:
                raise UsageError(
                    f"unknown parameter {where}.{name}", hint=did_you_mean(name, list(properties))
                )
            if isinstance(below, dict):
                self._check(f"{where}.{name}", entry, below)

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
        if kind is None:
            kind = _implied_type(schema)
            return [{**schema, "type": kind}] if kind else [schema]
        return [schema]

    def _discriminator(self, schema: Schema) -> str:
        schema = self._resolve(schema)
        if "discriminator" in schema:
            return str(schema["discriminator"]["propertyName"])
        for entry in schema.get("anyOf", []):
            if tag := self._discriminator(entry):
                return tag
        return ""


_NOT_JSON = object()


def looks_like_option(token: str) -> bool:
    """Whether a token is a flag rather than the value of the flag before it."""
    if token in ("-o", "-j", "-h"):
        return True
    name = token.partition("=")[0][2:]
    return token.startswith("--") and name[:1].isalpha() and not any(map(str.isspace, name))


def _fold(name: str) -> str:
    return name.replace("-", "_")


def _try_json(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _json_object(where: str, text: str) -> dict[str, Any]:
    value = _try_json(text)
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON object, not {_brief(text)}")
    return value


def _number_or_word(text: str, kind: str | None) -> Any:
    """A number, true, false or null from its text; `_NOT_JSON` if it is none of the kind."""
    words = {"true": True, "false": False, "null": None}
    if text in words:
        value = words[text]
        return value if kind is None or _is_kind(value, kind) else _NOT_JSON
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


def _is_kind(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if isinstance(value, int):
        return kind in ("integer", "number")
    if isinstance(value, float):
        return kind == "number" or (kind == "integer" and value.is_integer())
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return bool(kinds.get(type(value)) == kind)


def _implied_type(schema: Schema) -> str | None:
    """The type of a schema that only lists values or has parts."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    kinds = {names.get(type(value)) for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    return "object" if "properties" in schema else None


def _may_be_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or (
        "type" not in schema and "enum" not in schema and "const" not in schema
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


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
