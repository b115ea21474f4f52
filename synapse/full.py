"""The full way: any hub, any output, help, a schema that may have to be fetched first."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import escape_json
from synapse import hubs, refresh
from synapse.cache import DamagedCache, load
from synapse.client import request
from synapse.context import caller_context, new_sources
from synapse.errors import CommandError, UnknownCommand, UsageError
from synapse.invocation import OPTIONS, OUTPUTS, SHORT, Invocation, own_options, split
from synapse.params import parse
from synapse.render.plain import write_json

if TYPE_CHECKING:
    from synapse.cache import Cache
    from synapse.client import Connection
    from synapse.hubs import Hub
    from synapse.render import Renderer


def run(argv: list[str]) -> int:
    """Do a command; returns its exit status.

    Raises:
        CommandError: It failed, or was wrong.
    """
    if not sys.stdout.isatty() and isinstance(sys.stdout, io.TextIOWrapper):
        # What programs read is UTF-8, whatever the locale says.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return _Command(argv).run()


class _Command:
    """One command line on its way to a hub."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._options = _options(argv)
        self._hub: Hub = hubs.chosen(self._options)
        # None until something needs the hub itself.
        self._connection: Connection | None = None
        # What the hub says it is now; None until it was asked.
        self._current: Cache | None = None
        self._status = 0
        # What broke the call off, to be told apart from what Typer makes of it.
        self._broken_off: BaseException | None = None

    def run(self) -> int:
        if self._options.flag("--version") and not _has_words(self._argv):
            from hubd import __version__

            sys.stdout.write(f"synapse {__version__}\n")
            return 0
        if _first_word(self._argv) == "self":
            return self._built_in()
        cache = self._cache()
        if cache is None:
            return _help_without_hub(self._argv)
        try:
            return self._with(cache)
        except DamagedCache:
            os.unlink(self._hub.cache_file)
            return self._with(self._refreshed())
        except UsageError as problem:
            # Perhaps it is only unknown to an old cache.
            fresh = self._fresh_cache(cache)
            if fresh is None:
                raise self._explained(problem, self._current or cache) from None
            try:
                return self._with(fresh)
            except UsageError as still:
                raise self._explained(still, fresh) from None

    def _with(self, cache: Cache) -> int:
        """The command as this schema understands it."""
        found = split(self._argv, cache)
        if found.flag("--output") and found.output not in OUTPUTS:
            raise UsageError(f"--output must be one of {', '.join(OUTPUTS)}")
        if found.flag("--help") or not found.method:
            return self._describe(cache, found)
        from synapse.tree import build

        def execute(tokens: list[str]) -> None:
            try:
                self._status = self._call(cache, found, tokens)
            except (KeyboardInterrupt, BrokenPipeError) as end:
                self._broken_off = end

        # The mark keeps Typer from reading anything into the tokens.
        words = [*found.path, found.method, "--", *found.tokens]
        build(cache, found, execute)(words, standalone_mode=False)
        if self._broken_off is not None:
            raise self._broken_off
        return self._status

    def _call(self, cache: Cache, found: Invocation, tokens: list[str]) -> int:
        path = ".".join(found.path)
        schema = cache.method(path, found.method)
        if found.flag("--schema"):
            return _print_json(schema)
        params = parse(
            tokens,
            schema["params"],
            new_sources(),
            aliases=schema.get("annotations", {}).get("aliases"),
            base=found.value("--params"),
        )
        target = f"{path}.{found.method}"
        renderer = choose_renderer(found, schema)
        _resolve_for_people(found, schema, params)
        if found.flag("--dry-run"):
            needs_context = schema.get("annotations", {}).get("needs_context")
            context = json.dumps({"cwd": caller_context()["cwd"]}) if needs_context else ""
            message = request(cache.root, target, json.dumps(params, ensure_ascii=False), context)
            text = message.decode()
            sys.stdout.write((escape_json(text) if sys.stdout.isatty() else text) + "\n")
            return 0
        from synapse.questions import confirm_destruction
        from synapse.run import Retry, call

        confirm_destruction(found, schema, params, " ".join((*found.path, found.method)))
        try:
            return call(self._connect(), cache, target, params, schema, found, renderer, self._hub)
        except Retry:
            if self._current is not None:
                raise CommandError("the hub keeps changing; try again") from None
            self._hang_up()
            return self._with(self._refreshed())

    def _describe(self, cache: Cache, found: Invocation) -> int:
        """Help, or the schema, of what the words name."""
        from synapse import help as helping

        path = ".".join(found.path)
        if found.flag("--schema"):
            return _print_json(cache.whole(path or cache.root))
        if found.method:
            text = helping.method_help(cache, path, found.method)
        elif path:
            text = helping.namespace_help(cache, path)
        else:
            text = helping.root_help(cache)
        sys.stdout.write(helping.fitted(text) + "\n")
        return 0

    def _built_in(self) -> int:
        from synapse.tree import build

        app = build(None, Invocation(), lambda tokens: None)
        words = _built_in_words(self._argv)
        try:
            status = app(words, prog_name="synapse", standalone_mode=False, obj=self._hub)
        except Exception as error:
            # What Typer refuses can say so; anything else is a defect of ours.
            if not hasattr(error, "format_message"):
                raise
            raise UsageError(error.format_message(), hint="See: synapse self --help") from None
        return status if isinstance(status, int) else 0

    # -- the schema --------------------------------------------------------------------------

    def _cache(self) -> Cache | None:
        """Return the cached schema, else the hub's; None if only help is wanted and no hub runs."""
        cache = load(self._hub.cache_file)
        if cache is None and _wants_help(self._argv):
            self._connection = self._hub.connect_if_running()
            if self._connection is None:
                return None
        return cache or self._refreshed()

    def _refreshed(self) -> Cache:
        self._current = refresh.current(self._hub.cache_file, self._connect())
        return self._current

    def _fresh_cache(self, cache: Cache) -> Cache | None:
        """A newer schema, if the hub can be asked and has one."""
        if self._current is not None:
            return None
        try:
            self._connection = self._connection or self._hub.connect_if_running()
            if self._connection is None:
                return None
            fresh = self._refreshed()
        except CommandError:
            return None
        return fresh if fresh.hash != cache.hash else None

    def _explained(self, problem: UsageError, cache: Cache) -> UsageError:
        """Add the usage line of the method, or the plugin that the hub could not load."""
        if isinstance(problem, UnknownCommand) and problem.namespace and self._connection:
            failures = refresh.failures(self._connection, problem.namespace)
            return UsageError(problem.message, hint=" ".join([*failures, problem.hint]).strip())
        if problem.show_usage:
            from synapse import help as helping

            found = split(self._argv, cache)
            usage = helping.usage(cache, ".".join(found.path), found.method)
            problem.hint = f"{usage}      (--help shows all parameters)"
        return problem

    # -- the connection ----------------------------------------------------------------------

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._hub.connect()
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _options(argv: list[str]) -> Invocation:
    """Our own options, before it is known which hub is meant.

    A method may have a parameter of the same name, which then is no option of ours: what stands
    in front of all words says which hub's schema decides that, as far as it is known.
    """
    leading = own_options(argv[: _first_word_at(argv)])
    known = load(hubs.chosen(leading).cache_file)
    if known is not None:
        try:
            found = split(argv, known)
        except CommandError:
            pass
        else:
            if found.method:
                return found
    everywhere = own_options(argv)
    if leading.flag("--home") or leading.flag("--hub"):
        for name in ("--home", "--hub", "--token", "--token-file"):
            everywhere.options.pop(name, None)
        everywhere.options |= leading.options
    return everywhere


def choose_renderer(found: Invocation, schema: dict[str, Any]) -> Renderer:
    """Return the renderer for the events of this call.

    Raises:
        UsageError: The method returns no such field as `--fields` asks for.
    """
    from synapse.render import plain

    names = (found.value("--fields") or "").replace(" ", "").split(",")
    fields = None
    if any(names):
        from synapse.render.fields import Fields

        fields = Fields([name for name in names if name], schema["returns"])
    if found.flag("--items"):
        return plain.Items()
    output = _output(found)
    hints = schema.get("annotations", {})
    if output == "ndjson":
        return plain.Lines(fields)
    if output == "json":
        return plain.Document(streaming=schema["streaming"], fields=fields)
    if output == "raw":
        from synapse.render import raw

        is_chat = hints.get("render") == "chat" and fields is None
        return raw.RawChat(all_roles=bool(hints.get("read_only"))) if is_chat else raw.Raw(fields)
    from synapse.render import human

    return human.Picked(fields) if fields else human.for_method(schema)


def _output(found: Invocation) -> str:
    """Return the output format: as asked for, else by where stdout leads."""
    if found.output != "auto":
        return found.output
    return "table" if sys.stdout.isatty() else "ndjson"


def _resolve_for_people(found: Invocation, schema: dict[str, Any], params: dict[str, Any]) -> None:
    """Ask for resolved handles when a tree is drawn on a terminal, unless the user chose."""
    hints = schema.get("annotations", {})
    option = schema["params"]["properties"].get("resolve", {})
    is_drawn = _output(found) == "table" and not found.flag("--items") and sys.stdout.isatty()
    if is_drawn and hints.get("render") == "tree" and option.get("type") == "boolean":
        params.setdefault("resolve", True)


def _print_json(value: object) -> int:
    write_json(value)
    return 0


def _wants_help(argv: list[str]) -> bool:
    options = {word.partition("=")[0] for word, is_own in _marked(argv) if is_own}
    return bool(options & {"--help", "-h"})


def _help_without_hub(argv: list[str]) -> int:
    """Show the help of synapse itself; asking for help never starts a daemon.

    Raises:
        CommandError: The help of a namespace or a method was wanted.
    """
    from synapse import help as helping

    if _has_words(argv):
        raise CommandError(
            "the hub's methods are not known yet, and no daemon runs",
            hint="Start it: hubd start",
            status=5,
        )
    sys.stdout.write(helping.fitted(helping.own_help()) + "\n")
    return 0


def _has_words(argv: list[str]) -> bool:
    return _first_word(argv) is not None


def _first_word(argv: list[str]) -> str | None:
    """The first word that is neither an option of ours nor the value of one."""
    position = _first_word_at(argv)
    return argv[position] if position < len(argv) else None


def _first_word_at(argv: list[str]) -> int:
    marks = [is_own for _, is_own in _marked(argv)]
    return marks.index(False) if False in marks else len(argv)


def _built_in_words(argv: list[str]) -> list[str]:
    """The words of a built-in command, wherever our own options stand.

    What says which hub is meant was read already; of the rest, the commands know `--json`.
    """
    marked = _marked(argv)
    words = [word for word, is_own in marked if not is_own]
    options = {SHORT.get(word, word) for word, is_own in marked if is_own}
    if options & {"--json", "json", "ndjson", "--output=json", "--output=ndjson"}:
        words.append("--json")
    return [*words, "--help"] if "--help" in options or len(words) == 1 else words


def _marked(argv: list[str]) -> list[tuple[str, bool]]:
    """The words of a command line, and whether each is an option of ours or its value."""
    marked = []
    position = 0
    while position < len(argv):
        name, equals, _ = argv[position].partition("=")
        option = SHORT.get(name, name)
        marked.append((argv[position], option in OPTIONS))
        if OPTIONS.get(option) and not equals and position + 1 < len(argv):
            position += 1
            marked.append((argv[position], True))
        position += 1
    return marked
