"""Convert the texts of one parameter to JSON, by its schema."""

from hubd.wire.envelope import dumps
from synapse.errors import UsageError, suggestion
from synapse.params.check import check, check_variant
from synapse.params.schemas import (
    allowed_values,
    dashed,
    fold,
    is_any_text,
    is_handle,
    kind_name,
    may_be_object,
    other_parts,
)
from synapse.params.values import (
    EXACT_DIGITS,
    NOT_JSON,
    brief,
    count_digits,
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

    from hubd.wire.schema import JsonSchema
    from synapse.params.schemas import Schemas

    # The part of the flag after its first dot, and the text of the value.
    Entry = tuple[str, str]


class Converter:
    """Converts texts by one schema; its methods are recursive over the schema's parts."""

    def __init__(self, schemas: "Schemas") -> None:
        self._schemas = schemas

    def convert(
        self, where: str, entries: "list[Entry]", schema: "JsonSchema", before: "Any" = None
    ) -> "Any":
        """Return one parameter from all its texts.

        Args:
            where: The flag, for messages.
            entries: The texts, each with its place in the parameter.
            schema: The schema of the parameter.
            before: The value that parts of an object add to.

        Raises:
            UsageError: A text does not fit the schema.
        """
        dotted = [entry for entry in entries if entry[0]]
        plain = [text for rest, text in entries if not rest]
        if dotted:
            start = before if isinstance(before, dict) and not plain else {}
            return self._object(where, dotted, plain, schema, start)
        if len(plain) == 1:
            return self._one(where, plain[0], schema)
        variants = self._schemas.variants(schema)
        arrays = [variant for variant in variants if variant.get("type") == "array"]
        if arrays:
            return self._first_fit(where, arrays, lambda entry: self._array(where, plain, entry))
        if any(variant.get("type") == "object" for variant in variants):
            return self._object(where, [], plain, schema, {})
        raise UsageError(f"{where} is given {len(plain)} times")

    def _first_fit(
        self, where: str, variants: "list[JsonSchema]", convert: "Callable[[JsonSchema], Any]"
    ) -> "Any":
        """Return the value by the first variant that it fits."""
        problems: list[UsageError] = []
        for variant in variants:
            try:
                value = convert(variant)
                check_variant(self._schemas, where, value, variant)
            except UsageError as problem:
                problems.append(problem)
            else:
                return value
        raise problems[0]

    def _one(self, where: str, text: str, schema: "JsonSchema") -> "Any":
        """Return a value from its only text."""
        variants = self._schemas.variants(schema)
        takes_null = any(entry.get("type") == "null" for entry in variants)
        if text == "null" and takes_null and not any(map(self._takes_any_text, variants)):
            return None
        strings = [entry for entry in variants if entry.get("type") == "string"]
        others = [entry for entry in variants if entry.get("type") not in ("string", "null")]
        if not strings:
            # If both a number and an array of numbers are allowed, one flag is the number.
            others.sort(key=lambda entry: entry.get("type") == "array")
            return self._first_fit(
                where, others or variants, lambda entry: self._value(where, text, entry, schema)
            )
        if any(map(is_handle, strings)) and text.lstrip().startswith("{"):
            return json_object(where, text)
        if others:
            value = self._json_beside_text(where, text, [*others, *strings])
            if value is not NOT_JSON:
                return value
        return self._string(where, text, strings, others)

    def _takes_any_text(self, schema: "JsonSchema") -> bool:
        if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            return any(map(is_any_text, self._schemas.variants(schema["items"])))
        return is_any_text(schema)

    def _json_beside_text(self, where: str, text: str, variants: "list[JsonSchema]") -> "Any":
        """Return a text as JSON if a variant allows that value; else it stays a text."""
        if text[:1] not in tuple('"[{-0123456789') and text not in ("true", "false"):
            return NOT_JSON
        try:
            value = try_json(where, text)
        except UsageError:
            return NOT_JSON
        if isinstance(value, float) and dumps(value) != text and count_digits(text) > EXACT_DIGITS:
            return NOT_JSON
        return value if self._fits(where, value, variants) else NOT_JSON

    def _fits(self, where: str, value: "Any", variants: "list[JsonSchema]") -> bool:
        try:
            check(self._schemas, where, value, {"anyOf": variants})
        except UsageError:
            return False
        return value is not NOT_JSON

    def _string(
        self, where: str, text: str, variants: "list[JsonSchema]", others: "list[JsonSchema]"
    ) -> str:
        choices: list[str] = []
        for variant in variants:
            allowed = allowed_values(variant)
            if allowed is None or text in allowed:
                return text
            choices += map(spelled, allowed)
        from hubd.wire.text import did_you_mean

        names = [*choices, *map(kind_name, others)]
        raise UsageError(
            f"{where} must be one of {', '.join(names)}, not {brief(text)}",
            hint=did_you_mean(text, choices, most=3) if len(choices) > 5 else "",
        )

    def _value(self, where: str, text: str, schema: "JsonSchema", union: "JsonSchema") -> "Any":
        kind = schema.get("type")
        if kind == "array":
            return self._array(where, [text], schema)
        if kind == "object":
            # The whole union, because its discriminator selects the variant.
            return self._object(where, [], [text], union, {})
        if kind is None:
            value = try_json(where, text.strip())
            return text if value is NOT_JSON else value
        value = number_or_word(text.strip(), kind)
        if value is NOT_JSON:
            raise UsageError(f"{where} must be {kind_name(schema)}, not {brief(text)}")
        return value

    def _array(self, where: str, texts: list[str], schema: "JsonSchema") -> "list[Any]":
        fixed: list[JsonSchema] = schema.get("prefixItems", [])
        items: JsonSchema = schema["items"] if isinstance(schema.get("items"), dict) else {}
        if len(texts) == 1 and texts[0].lstrip().startswith("["):
            ends = self._schemas.variants(items)
            whole = NOT_JSON
            if fixed or not any(map(is_any_text, ends)):
                whole = try_json(where, texts[0])
            # If the items are arrays, one array may be an item or the whole.
            has_rows = any(end.get("type") == "array" for end in ends)
            if isinstance(whole, list) and (not has_rows or self._fits(where, whole, [schema])):
                return whole
        schemas = [*fixed, *[items] * (len(texts) - len(fixed))]
        return [self._one(where, text, entry) for text, entry in zip(texts, schemas, strict=False)]

    def _object(
        self,
        where: str,
        dotted: "list[Entry]",
        plain: list[str],
        schema: "JsonSchema",
        start: "dict[str, Any]",
    ) -> "Any":
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
        variants = self._likely_variants(where, pairs, value, schema)
        return self._first_fit(
            where, variants, lambda variant: self._fill(where, pairs, value, variant)
        )

    def _fill(
        self, where: str, pairs: "list[Entry]", start: "dict[str, Any]", variant: "JsonSchema"
    ) -> "dict[str, Any]":
        """Return an object with its parts, by one variant of its schema."""
        value = dict(start)
        schemas: dict[str, JsonSchema] = {}
        grouped: dict[str, list[Entry]] = {}
        for path, text in pairs:
            part = self._schemas.part(variant, path)
            if part is None:
                head = f"{where}.{printable(path.partition('.')[0])}"
                names = [f"{where}.{dashed(name)}" for name in variant.get("properties", {})]
                raise UsageError(f"unknown parameter {head}", hint=suggestion(head, names))
            name, rest, schemas[name] = part
            grouped.setdefault(name, []).append((rest, text))
        for name, entries in grouped.items():
            below = f"{where}.{printable(name)}"
            value[name] = self.convert(below, entries, schemas[name], before=value.get(name))
        return value

    def _likely_variants(
        self, where: str, pairs: "list[Entry]", value: "dict[str, Any]", schema: "JsonSchema"
    ) -> "list[JsonSchema]":
        """Return the variants that allow an object with these keys, the likeliest first."""
        objects = [entry for entry in self._schemas.variants(schema) if may_be_object(entry)]
        if not objects:
            raise UsageError(f"{where} has no parts; give one value")
        tag = self._schemas.discriminator(schema) if len(objects) > 1 else ""
        if tag:
            text = next((text for path, text in pairs if fold(path) == fold(tag)), None)
            if text is None and tag in value:
                text = spelled(value[tag])
            objects = self._schemas.tagged(where, tag, text, objects)
        heads = {fold(path.partition(".")[0]) for path, _ in pairs} | {fold(key) for key in value}

        def is_unlikely(entry: "JsonSchema") -> bool:
            names = {fold(name) for name in entry.get("properties", {})}
            required = {fold(name) for name in entry.get("required", [])}
            return not (required <= heads and (heads <= names or other_parts(entry) is not None))

        return sorted(objects, key=is_unlikely)
