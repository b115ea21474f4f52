"""The one parser: tokens and JSON Schema to JSON. Knows no hub, no terminal and no Typer.

Tokens are first gathered by parameter, because `--pet.name Tom --pet.kind cat` may come in any
order and `kind` decides what `name` is; then each parameter is converted by its schema; then the
whole is checked. Nothing heavy is imported unless a value is itself JSON.
"""

from __future__ import annotations

from synapse.errors import UsageError, did_you_mean
from synapse.plainjson import dumps
from synapse.schemas import (
    Schemas,
    allowed_values,
    fold,
    is_any_text,
    is_handle,
    is_reference,
    kind_name,
    may_be_object,
    other_parts,
    shown,
)
from synapse.values import (
    EXACT_DIGITS,
    NOT_JSON,
    brief,
    count_digits,
    is_text,
    json_object,
    number_or_word,
    printable,
    spelled,
    try_json,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Schema = dict[str, Any]
    # The part of the name after the first dot, and the text that was given.
    Entry = tuple[str, str]


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
        if not is_text(raw):
            raise UsageError(f"{flag} is not UTF-8 text")
        if raw == "-" and not literal_dash:
            if self._stdin_taken_by:
                raise UsageError(f"{flag}: {self._stdin_taken_by} has taken standard input already")
            self._stdin_taken_by = flag
            return self._read_stdin()
        if raw.startswith("@@"):
            return raw[1:]
        return self._read_file(raw[1:]) if raw.startswith("@") else raw


def _without_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


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
        params = parser.by_main_name(json_object("--params", text))
    gathered = parser.gather(tokens, sources)
    for name, entries in gathered.items():
        schema_of_one = parser.properties[name]
        params[name] = parser.convert(
            f"--{shown(name)}", entries, schema_of_one, before=params.get(name)
        )
    parser.check_all(params)
    return params


class _Parser(Schemas):
    """One schema at work; all methods below are recursive over it."""

    def __init__(self, schema: Schema, aliases: dict[str, list[str]]) -> None:
        super().__init__(schema)
        self._names = {fold(name): name for name in self.properties}
        for name, others in aliases.items():
            for other in others:
                self._names.setdefault(fold(other), name)

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
        return given if given in self.properties else self._names.get(fold(given))

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
                    f"unexpected argument {brief(token)}",
                    hint="Parameters are given as --name value",
                )
            flag, equals, raw = token.partition("=")
            name, rest, negated = self._locate(flag[2:])
            if not is_text(flag):
                raise UsageError(f"{printable(flag)} is not UTF-8 text")
            flag = printable(flag)
            if equals and negated:
                raise UsageError(f"{flag} takes no value")
            if equals:
                text = sources.text(flag, raw, literal_dash=True)
            elif negated or self._is_flag(self.properties[name], rest):
                text = "false" if negated else "true"
            elif position < len(tokens) and not looks_like_option(tokens[position]):
                text = sources.text(flag, tokens[position], literal_dash=False)
                if tokens[position] == "-" and self._is_reference(self.properties[name], rest):
                    text = _without_newline(text)
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
            f"unknown parameter --{printable(flag)}", hint=did_you_mean(f"--{flag}", known)
        )

    def _is_flag(self, schema: Schema, rest: str) -> bool:
        """Whether a value is not needed: whatever the name may lead to is a boolean."""
        ends = [end for end in self._ends(schema, rest) if end.get("type") != "null"]
        return bool(ends) and all(end.get("type") == "boolean" for end in ends)

    def _is_reference(self, schema: Schema, rest: str) -> bool:
        """Whether a value is a handle or an id, which never ends with a newline."""
        ends = self._ends(schema, rest)
        ends += [
            entry
            for end in ends
            if end.get("type") == "array" and isinstance(end.get("items"), dict)
            for entry in self.variants(end["items"])
        ]
        strings = [end for end in ends if end.get("type") == "string"]
        return bool(strings) and all(map(is_reference, strings))

    def _ends(self, schema: Schema, rest: str) -> list[Schema]:
        """The schemas that a dotted name may lead to."""
        if not rest:
            return self.variants(schema)
        parts = (self._part(variant, rest) for variant in self.variants(schema))
        return [end for part in parts if part for end in self._ends(part[2], part[1])]

    def _part(self, variant: Schema, path: str) -> tuple[str, str, Schema] | None:
        """The part of an object that a dotted name begins with, what follows, and its schema."""
        if not may_be_object(variant):
            return None
        properties: dict[str, Schema] = variant.get("properties", {})
        head, _, rest = path.partition(".")
        for candidate, remainder in ((path, ""), (head, rest)):
            same = [name for name in properties if fold(name) == fold(candidate)]
            if same:
                name = candidate if candidate in same else same[0]
                return name, remainder, properties[name]
        more = other_parts(variant)
        if more is None:
            return None
        # Only where the values may have parts does a dot in a key stand for one.
        if any(map(may_be_object, self.variants(more))):
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
        variants = self.variants(schema)
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
        variants = self.variants(schema)
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
        if any(map(is_handle, strings)) and text.lstrip().startswith("{"):
            return json_object(where, text)  # a handle in its object form
        if others:
            value = self._json_beside_text(where, text, [*others, *strings])
            if value is not NOT_JSON:
                return value
        return self._string(where, text, strings, others)

    def _takes_any_text(self, schema: Schema) -> bool:
        if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            return any(map(is_any_text, self.variants(schema["items"])))
        return is_any_text(schema)

    def _json_beside_text(self, where: str, text: str, variants: list[Schema]) -> Any:
        """Where a text is allowed too, only JSON that fits is anything else."""
        if text[:1] not in tuple('"[{-0123456789') and text not in ("true", "false"):
            return NOT_JSON
        try:
            value = try_json(where, text)
        except UsageError:
            return NOT_JSON
        if isinstance(value, float) and dumps(value) != text and count_digits(text) > EXACT_DIGITS:
            return NOT_JSON
        return value if self._fits(where, value, variants) else NOT_JSON

    def _fits(self, where: str, value: Any, variants: list[Schema]) -> bool:
        try:
            self._check(where, value, {"anyOf": variants})
        except UsageError:
            return False
        return value is not NOT_JSON

    def _string(self, where: str, text: str, variants: list[Schema], others: list[Schema]) -> str:
        choices: list[str] = []
        for variant in variants:
            allowed = allowed_values(variant)
            if allowed is None or text in allowed:
                return text
            choices += map(spelled, allowed)
        names = [*choices, *map(kind_name, others)]
        raise UsageError(
            f"{where} must be one of {', '.join(names)}, not {brief(text)}",
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
            value = try_json(where, text.strip())
            return text if value is NOT_JSON else value
        value = number_or_word(text.strip(), kind)
        if value is NOT_JSON:
            raise UsageError(f"{where} must be {kind_name(schema)}, not {brief(text)}")
        return value

    def _array(self, where: str, texts: list[str], schema: Schema) -> list[Any]:
        fixed: list[Schema] = schema.get("prefixItems", [])
        items: Schema = schema["items"] if isinstance(schema.get("items"), dict) else {}
        if len(texts) == 1 and texts[0].lstrip().startswith("["):
            ends = self.variants(items)
            whole = NOT_JSON
            if fixed or not any(map(is_any_text, ends)):
                whole = try_json(where, texts[0])
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
                value |= json_object(where, text)
            elif equals and key:
                pairs.append((key, rest))
            else:
                raise UsageError(
                    f"{where} must be an object, not {brief(text)}",
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
                head = f"{where}.{printable(path.partition('.')[0])}"
                known = [f"{where}.{shown(name)}" for name in variant.get("properties", {})]
                raise UsageError(f"unknown parameter {head}", hint=did_you_mean(head, known))
            name, rest, schemas[name] = part
            grouped.setdefault(name, []).append((rest, text))
        for name, entries in grouped.items():
            below = f"{where}.{printable(name)}"
            value[name] = self.convert(below, entries, schemas[name], before=value.get(name))
        return value

    def _choose(
        self, where: str, pairs: list[Entry], value: dict[str, Any], schema: Schema
    ) -> list[Schema]:
        """The variants of a union that the given keys may mean, the likeliest first."""
        objects = [entry for entry in self.variants(schema) if may_be_object(entry)]
        if not objects:
            raise UsageError(f"{where} has no parts; give one value")
        tag = self._discriminator(schema) if len(objects) > 1 else ""
        if tag:
            given = next((text for path, text in pairs if fold(path) == fold(tag)), None)
            if given is None and tag in value:
                given = spelled(value[tag])
            objects = self._tagged(where, tag, given, objects)
        heads = {fold(path.partition(".")[0]) for path, _ in pairs} | {fold(key) for key in value}

        def is_unlikely(entry: Schema) -> bool:
            known = {fold(name) for name in entry.get("properties", {})}
            needed = {fold(name) for name in entry.get("required", [])}
            return not (needed <= heads and (heads <= known or other_parts(entry) is not None))

        return sorted(objects, key=is_unlikely)


def looks_like_option(token: str) -> bool:
    """Whether a token is a flag rather than the value of the flag before it."""
    flag = token.partition("=")[0]
    if flag in ("-o", "-j", "-h", "-y"):
        return True
    name = flag[2:]
    return flag.startswith("--") and name[:1].isalpha() and not any(map(str.isspace, name))
