"""A command line: synapse's own options, the path to a method, and the method's tokens.

This is the only module that walks argv. The fast path, the full command and completion use it, so
they can't disagree.
"""

from synapse.errors import UnknownCommand, UsageError, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubd.wire.schema import JsonSchema
    from synapse.hub.cache import Cache

    # An option's long name and value, then the number of words; the name is empty for other words.
    Option = tuple[str, str | None, int]

# synapse's own options; True: a value follows.
OPTIONS = {
    "--hub": True,
    "--home": True,
    "--token": True,
    "--token-file": True,
    "--output": True,
    "--json": False,
    "--items": False,
    "--fields": True,
    "--raw": False,
    "--exit-code": False,
    "--all": False,
    "--times": False,
    "--watch": False,
    "--no-pager": False,
    "--thinking": False,
    "--timeout": True,
    "--params": True,
    "--answer": True,
    "--yes": False,
    "--no-input": False,
    "--no-autostart": False,
    "--dry-run": False,
    "--schema": False,
    "--help": False,
    "--version": False,
}
SHORT = {"-o": "--output", "-j": "--json", "-h": "--help", "-y": "--yes"}
# The options that are read before the schema is known.
HUB_OPTIONS = ("--hub", "--home", "--token", "--token-file", "--no-autostart", "--version")
OUTPUTS = ("auto", "json", "ndjson", "table", "raw")

# The variable with the hub's name or address, used without --hub and --home.
HUB_VARIABLE = "SYNAPSE_HUB"

# The first word of synapse's own commands.
BUILT_IN = "self"
# Its commands that take words of another command.
STORING = ("alias", "use")


class Invocation:
    """One command line, split by the hub's schema."""

    def __init__(self) -> None:
        # The namespaces in order, and the method; empty if the line names none.
        self.path: list[str] = []
        self.method = ""
        # The words that follow the method, without own options.
        self.tokens: list[str] = []
        # Own options by their long names, with all values in order.
        self.options: dict[str, list[str]] = {}
        # The words after `self`; None for a command of the hub.
        self.built_in: list[str] | None = None

    @property
    def namespace(self) -> str:
        """The path of namespaces with dots."""
        return ".".join(self.path)

    @property
    def flags(self) -> set[str]:
        """The method's tokens up to their `=`, its flags among them."""
        return {token.partition("=")[0] for token in self.tokens}

    @property
    def output(self) -> str:
        """The output format that the options ask for, else `auto`."""
        if self.flag("--json"):
            return "ndjson"
        if self.flag("--raw"):
            return "raw"
        return self.value("--output") or "auto"

    def flag(self, name: str) -> bool:
        """Return whether an option is given."""
        return name in self.options

    def value(self, name: str) -> str | None:
        """Return the last value of an option."""
        values = self.options.get(name)
        return values[-1] if values else None

    def add(self, name: str, value: str | None) -> None:
        """Add an option.

        Raises:
            UsageError: The value is missing, or the option takes none.
        """
        if OPTIONS[name] and value is None:
            raise UsageError(f"{name} needs a value")
        if not OPTIONS[name] and value is not None:
            raise UsageError(f"{name} takes no value")
        self.options.setdefault(name, []).append(value or "")


# -- before the schema is known ----------------------------------------------------------------


def own_options(argv: list[str], *, strict: bool = True) -> Invocation:
    """Return only the options that select the hub.

    The other options may be parameters of the method, so they are not checked here.

    Args:
        argv: The words of the command line.
        strict: Whether a missing or superfluous value is an error; else the option is ignored.

    Raises:
        UsageError: The value of an option is missing, or the option takes none.
    """
    invocation = Invocation()
    for _, name, value in _steps(argv):
        if name in HUB_OPTIONS and (strict or OPTIONS[name] == (value is not None)):
            invocation.add(name, value)
    return invocation


def before_first_word(argv: list[str]) -> list[str]:
    """Return the own options, with their values, at the start of a command line."""
    start: list[str] = []
    for words, name, _ in _steps(argv):
        if not name:
            break
        start += words
    return start


def plain_words(argv: list[str]) -> list[str]:
    """Return the words that are neither own options nor their values."""
    return [words[0] for words, name, _ in _steps(argv) if not name]


def replace_first_word(argv: list[str], words: list[str]) -> list[str]:
    """Return a command line with other words in place of its first plain word."""
    start = len(before_first_word(argv))
    return [*argv[:start], *words, *argv[start + 1 :]]


def wants_help(argv: list[str]) -> bool:
    """Return whether --help is among the own options."""
    return any(name == "--help" for _, name, _ in _steps(argv))


def built_in_words(argv: list[str]) -> list[str]:
    """Return the words of a `self` command, with --json and --help at their end.

    The options that select the hub are left out: `own_options` reads them. A command that stores
    other words gets them as they are.
    """
    words = plain_words(argv)
    if words[1:2] and words[1] in STORING:
        return [BUILT_IN, *argv[argv.index(BUILT_IN) + 1 :]]
    options = [(name, value) for _, name, value in _steps(argv)]
    if any(
        name == "--json" or (name == "--output" and value in ("json", "ndjson"))
        for name, value in options
    ):
        words.append("--json")
    return [*words, "--help"] if len(words) == 1 or ("--help", None) in options else words


def rejoin(words: list[str], line: str) -> list[str]:
    """Return the words of a shell's line as the user typed them.

    bash cuts words at `=`, `:` and `@`. Parts with nothing between them on the line are one word.
    """
    joined: list[str] = []
    # The end of the command's own name.
    end = len(line) - len(line.lstrip()) + len((line.split() or [""])[0])
    for word in words:
        start = line.find(word, end)
        if joined and start == end and (word or not line[end:]):
            joined[-1] += word
        else:
            joined.append(word)
        end = max(start, end) + len(word)
    return joined


# -- with the schema ---------------------------------------------------------------------------


def split(argv: list[str], cache: "Cache") -> Invocation:
    """Split a command line by the hub's schema.

    Raises:
        UnknownCommand: A word is neither a namespace nor a method at its place.
        UsageError: An option is unknown, lacks its value, or takes none.
    """
    invocation = Invocation()
    parameters: set[str] = set()
    position = 0
    while position < len(argv):
        token = argv[position]
        name, value, count = option_at(argv, position)
        if invocation.method:
            if name and token.partition("=")[0].replace("-", "_") not in parameters:
                invocation.add(name, value)
            else:
                # The value of a parameter may look like an own option.
                count = 2 if _takes_next(argv, position) else 1
                invocation.tokens += argv[position : position + count]
        elif name:
            invocation.add(name, value)
        elif token.startswith("-") and token != "-":
            flag = token.partition("=")[0]
            raise UsageError(f"unknown option {flag}", hint=suggestion(flag, list(OPTIONS)))
        elif token == BUILT_IN and not invocation.path:
            invocation.built_in = argv[position + 1 :]
            return invocation
        else:
            parameters = _enter(invocation, token, cache)
        position += count
    return invocation


def unknown_word(path: list[str], word: str, cache: "Cache") -> UnknownCommand:
    """Return the error for a word that is neither a namespace nor a method."""
    namespace = ".".join(path)
    if not path:
        names = [cache.root, *cache.children(""), BUILT_IN]
        hint = suggestion(word, names)
        return UnknownCommand(f"unknown namespace '{word}'", hint=hint, namespace=word)
    names = cache.methods(namespace)
    if path != [cache.root]:
        names = [*names, *cache.children(namespace)]
    return UnknownCommand(
        f"'{' '.join(path)}' has no method or namespace '{word}'", hint=suggestion(word, names)
    )


def looks_like_option(token: str) -> bool:
    """Return whether a token is a flag rather than the value of the flag before it."""
    flag = token.partition("=")[0]
    if flag in SHORT:
        return True
    name = flag[2:]
    return flag.startswith("--") and name[:1].isalpha() and not any(map(str.isspace, name))


def option_at(argv: list[str], position: int) -> "Option":
    """Return the own option at a position; its name is empty if the word is not an option.

    The value is None if the word has no `=` and no value follows.
    """
    name, equals, value = argv[position].partition("=")
    name = SHORT.get(name, name)
    if name not in OPTIONS:
        return "", None, 1
    if equals:
        return name, value, 1
    if OPTIONS[name] and position + 1 < len(argv):
        return name, argv[position + 1], 2
    return name, None, 1


def _steps(argv: list[str]) -> "Iterator[tuple[list[str], str, str | None]]":
    """Yield an own option with its words, name and value, or any other word with an empty name."""
    position = 0
    while position < len(argv):
        name, value, count = option_at(argv, position)
        yield argv[position : position + count], name, value
        position += count


def _enter(invocation: Invocation, word: str, cache: "Cache") -> set[str]:
    """Add a namespace or the method to the path; for a method, return the names of its flags."""
    namespace = invocation.namespace
    if word == cache.root and not invocation.path:
        invocation.path = [word]
        return set()
    is_in_root = invocation.path == [cache.root]
    if not is_in_root and cache.has_namespace(f"{namespace}.{word}".lstrip(".")):
        invocation.path.append(word)
        return set()
    name = word.replace("-", "_")
    if invocation.path and cache.has_method(namespace, name):
        invocation.method = name
        schema = cache.method(namespace, name)
        properties = schema["params"].get("properties", {})
        names = [*properties, *(f"no_{key}" for key in properties if _is_boolean(properties[key]))]
        for aliases in schema.get("annotations", {}).get("aliases", {}).values():
            names += aliases
        return {f"--{name}".replace("-", "_") for name in names}
    raise unknown_word(invocation.path, word, cache)


def _takes_next(argv: list[str], position: int) -> bool:
    """Return whether a parameter's value follows that begins with a dash."""
    token = argv[position]
    return (
        token.startswith("--")
        and "=" not in token
        and position + 1 < len(argv)
        and argv[position + 1].startswith("-")
        and not looks_like_option(argv[position + 1])
    )


def _is_boolean(schema: "JsonSchema") -> bool:
    """Return whether a parameter has a `--no-` form."""
    kinds = [entry.get("type") for entry in schema.get("anyOf", [schema])]
    return "boolean" in kinds and all(kind in ("boolean", "null") for kind in kinds)
