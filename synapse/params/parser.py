"""Parse the tokens of a method into its params. Both the fast path and the full command use it.

First the values are gathered by parameter: `--pet.name Tom --pet.kind cat` may come in any order,
and `kind` decides the type of `name`. Then each parameter is converted, and all are checked.
Nothing heavy is imported unless a value is itself JSON.
"""

from synapse.argv import looks_like_option
from synapse.errors import UsageError, suggestion
from synapse.params.check import check_params
from synapse.params.schemas import Schemas, dashed, fold, is_any_text, is_handle, is_reference
from synapse.params.values import brief, is_text, json_object, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import JsonSchema
    from synapse.params.convert import Entry
    from synapse.params.sources import Sources


def parse(
    tokens: list[str],
    schema: "JsonSchema",
    sources: "Sources | None" = None,
    *,
    aliases: dict[str, list[str]] | None = None,
    base: str | None = None,
) -> "dict[str, Any]":
    """Return the params of a method.

    Args:
        tokens: The words that follow the method on the command line.
        schema: The JSON Schema of the params.
        sources: The texts of `@file` and `-`; by default those of this process.
        aliases: Other names of parameters.
        base: The value of `--params`, an object; the tokens add to it.

    Raises:
        UsageError: A parameter is wrong; the message names it.
    """
    schemas = Schemas(schema)
    flags = _Flags(schemas, aliases or {}, sources)
    params: dict[str, Any] = {}
    if base is not None:
        text = flags.text("--params", base)
        params = flags.without_aliases(json_object("--params", text))
    for name, entries in flags.gather(tokens).items():
        params[name] = _value(schemas, name, entries, params.get(name))
    check_params(schemas, params)
    return params


def _value(schemas: Schemas, name: str, entries: "list[Entry]", before: "Any") -> "Any":
    """Return one parameter from all its texts; `before` is its value in `--params`."""
    schema = schemas.properties[name]
    if len(entries) == 1 and not entries[0][0]:
        variants = schemas.variants(schema)
        if len(variants) == 1 and is_any_text(variants[0]) and not is_handle(variants[0]):
            # The usual case needs no conversion, so the module is not imported.
            return entries[0][1]
    from synapse.params.convert import Converter

    return Converter(schemas).convert(f"--{dashed(name)}", entries, schema, before=before)


class _Flags:
    """The flags of a method, and the parameters that they stand for."""

    def __init__(
        self, schemas: Schemas, aliases: dict[str, list[str]], sources: "Sources | None"
    ) -> None:
        self._schemas = schemas
        self._sources = sources
        self._properties = schemas.properties
        self._names = {fold(name): name for name in self._properties}
        for name, others in aliases.items():
            for other in others:
                self._names.setdefault(fold(other), name)

    def without_aliases(self, params: "dict[str, Any]") -> "dict[str, Any]":
        """Return the params under their main names; unknown names stay.

        Raises:
            UsageError: A parameter is given under two names.
        """
        renamed: dict[str, Any] = {}
        for key, value in params.items():
            name = self._parameter(key) or key
            if name in renamed:
                raise UsageError(f"--{dashed(name)} is given 2 times in --params")
            renamed[name] = value
        return renamed

    def text(self, flag: str, raw: str, *, literal_dash: bool = False) -> str:
        """Return the text of a value, which may be `@file` or `-`.

        Raises:
            UsageError: The file or standard input can't be read, or the value is not UTF-8.
        """
        if raw[:1] not in ("@", "-") and is_text(raw):
            return raw
        if self._sources is None:
            from synapse.params.sources import Sources

            self._sources = Sources()
        return self._sources.text(flag, raw, literal_dash=literal_dash)

    def gather(self, tokens: list[str]) -> "dict[str, list[Entry]]":
        """Return the values of each parameter, in the order of the tokens.

        Raises:
            UsageError: A token is not a flag, a flag is unknown, or it lacks its value.
        """
        gathered: dict[str, list[Entry]] = {}
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if not token.startswith("--") or token == "--":
                raise UsageError(
                    f"unexpected argument {brief(token)}", hint="Write --name value for a parameter"
                )
            flag, equals, raw = token.partition("=")
            name, rest, negated = self._locate(flag[2:])
            if not is_text(flag):
                raise UsageError(f"{printable(flag)} is not UTF-8 text")
            flag = printable(flag)
            if equals and negated:
                raise UsageError(f"{flag} takes no value")
            if equals:
                text = self.text(flag, raw, literal_dash=True)
            elif negated or self._is_switch(self._properties[name], rest):
                text = "false" if negated else "true"
            elif position < len(tokens) and not looks_like_option(tokens[position]):
                text = self.text(flag, tokens[position])
                if tokens[position] == "-" and self._is_reference(self._properties[name], rest):
                    text = text.removesuffix("\n").removesuffix("\r")
                position += 1
            else:
                hint = f"If the value begins with '-', write {flag}=VALUE"
                raise UsageError(f"{flag} needs a value", hint=hint)
            gathered.setdefault(name, []).append((rest, text))
        return gathered

    def _parameter(self, name: str) -> str | None:
        return name if name in self._properties else self._names.get(fold(name))

    def _locate(self, flag: str) -> tuple[str, str, bool]:
        """Return a flag's parameter, the rest after the dot, and whether the flag is negated."""
        head, _, rest = flag.partition(".")
        for candidate, remainder in ((flag, ""), (head, rest)):
            if name := self._parameter(candidate):
                return name, remainder, False
        if head.startswith(("no-", "no_")):
            name = self._parameter(head[3:])
            if name and self._is_switch(self._properties[name], rest):
                return name, rest, True
        names = [f"--{dashed(name)}" for name in self._properties]
        raise UsageError(
            f"unknown parameter --{printable(flag)}", hint=suggestion(f"--{flag}", names)
        )

    def _is_switch(self, schema: "JsonSchema", rest: str) -> bool:
        """Return whether a flag needs no value, because it is a boolean in every variant."""
        ends = [end for end in self._schemas.ends(schema, rest) if end.get("type") != "null"]
        return bool(ends) and all(end.get("type") == "boolean" for end in ends)

    def _is_reference(self, schema: "JsonSchema", rest: str) -> bool:
        """Return whether a value is a handle or an id, which never ends with a newline."""
        ends = self._schemas.ends(schema, rest)
        ends += [
            entry
            for end in ends
            if end.get("type") == "array" and isinstance(end.get("items"), dict)
            for entry in self._schemas.variants(end["items"])
        ]
        strings = [end for end in ends if end.get("type") == "string"]
        return bool(strings) and all(map(is_reference, strings))
