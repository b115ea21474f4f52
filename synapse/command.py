"""A full command: any hub, any output, help, and a schema that may have to be fetched first."""

from __future__ import annotations

import gc
import io
import os
import sys

from hubd.wire.envelope import call_request
from hubd.wire.terminal import escape_json, one_line
from synapse.argv import (
    BUILT_IN,
    OUTPUTS,
    Invocation,
    before_first_word,
    built_in_words,
    own_options,
    plain_words,
    split,
    wants_help,
)
from synapse.errors import CommandError, UnknownCommand, UsageError
from synapse.hub import hubs
from synapse.hub.cache import DamagedCache, load
from synapse.params.parser import parse
from synapse.preferences import apply_defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.client import Connection
    from hubd.wire.schema import MethodSchema
    from synapse.hub.cache import Cache
    from synapse.hub.hubs import Hub
    from synapse.render import Renderer
    from synapse.render.watch import Watch


def run(argv: list[str]) -> int:
    """Run a command and return its exit status.

    Raises:
        CommandError: The command failed, or its command line is wrong.
    """
    if not sys.stdout.isatty() and isinstance(sys.stdout, io.TextIOWrapper):
        # Programs get UTF-8 in every locale.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    # Imports and help create hardly any garbage. A call turns collection on again.
    gc.disable()
    try:
        return _Command(argv).run()
    finally:
        gc.enable()


class _Command:
    """One command line and the hub that it is for."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        # The words that are neither own options nor their values.
        self._words = plain_words(argv)
        self._options = _hub_options(argv)
        self._hub: Hub = hubs.chosen(self._options)
        # None until the command needs the hub.
        self._connection: Connection | None = None
        # The schema that the hub has now; None until the command has asked for it.
        self._current: Cache | None = None

    def run(self) -> int:
        try:
            return self._run()
        finally:
            self._show_notice()

    def _run(self) -> int:
        if self._options.flag("--version") and not self._words:
            from hubd import __version__

            sys.stdout.write(f"synapse {__version__}\n")
            return 0
        if self._words[:1] == [BUILT_IN]:
            return self._run_built_in()
        cache = self._cache()
        if cache is None:
            return self._help_without_hub()
        try:
            return self._run_with(cache)
        except DamagedCache:
            os.unlink(self._hub.cache_file)
            return self._run_with(self._refreshed())
        except UsageError as problem:
            # The command may be right for a newer schema.
            fresh = self._newer_cache(cache)
            if fresh is None:
                raise self._explained(problem, self._current or cache) from None
            try:
                return self._run_with(fresh)
            except UsageError as same_problem:
                raise self._explained(same_problem, fresh) from None

    def _run_with(self, cache: Cache) -> int:
        """Run the command by one schema."""
        invocation = split(self._argv, cache)
        if invocation.flag("--output") and invocation.output not in OUTPUTS:
            raise UsageError(f"--output must be one of {', '.join(OUTPUTS)}")
        if invocation.flag("--help") or not invocation.method:
            return self._describe(cache, invocation)
        schema = cache.method(invocation.namespace, invocation.method)
        apply_defaults(invocation, schema, self._hub.paths)
        # Typer's command would pass its tokens on to the same parser; a call saves its import.
        return self._call(cache, invocation, invocation.tokens)

    def _call(self, cache: Cache, invocation: Invocation, tokens: list[str]) -> int:
        schema = cache.method(invocation.namespace, invocation.method)
        if invocation.flag("--schema"):
            from synapse.render.plain import write_json

            write_json(schema)
            return 0
        is_interactive = "interactive" in schema.get("annotations", {})
        if is_interactive and sys.stdin.isatty() and sys.stdout.isatty():
            from synapse.conversation.conversation import Conversation, conversation_params

            started = conversation_params(tokens, schema, invocation)
            if started is not None:
                gc.enable()
                return Conversation(self._hub, cache, invocation, schema, started).run()
        params = parse(
            tokens,
            schema["params"],
            aliases=schema.get("annotations", {}).get("aliases"),
            base=invocation.value("--params"),
        )
        path = f"{invocation.namespace}.{invocation.method}"
        words = " ".join((*invocation.path, invocation.method))
        if invocation.flag("--exit-code"):
            from synapse.call.exit_status import check_runs_command

            check_runs_command(schema, words)
        if invocation.flag("--all"):
            from synapse.params.limit import lift_limit

            lift_limit(params, schema["params"])
        from synapse.render.choose import choose_renderer, params_of_drawing

        watch = _watch(invocation, schema)
        renderer = choose_renderer(invocation, schema, params, watch)
        params = {**params_of_drawing(invocation, schema), **params}
        if invocation.flag("--dry-run"):
            return _print_request(cache.root, path, params, schema)
        from synapse.call.call import Retry, call
        from synapse.call.questions import confirm_destruction

        gc.enable()
        confirm_destruction(invocation, schema, params, words)

        def draw(renderer: Renderer) -> int:
            connection = self._connect()
            return call(connection, cache, path, params, schema, invocation, renderer, self._hub)

        try:
            if watch is not None:
                watch.run(lambda: draw(choose_renderer(invocation, schema, params, watch)))
            return draw(renderer)
        except Retry:
            if self._current is not None:
                raise CommandError("the hub's schema keeps changing; try again") from None
            self._disconnect()
            return self._run_with(self._refreshed())

    def _describe(self, cache: Cache, invocation: Invocation) -> int:
        """Print help, or the schema, of the root, a namespace or a method."""
        path = invocation.namespace
        if invocation.flag("--schema"):
            from synapse.render.plain import write_json

            write_json(cache.whole(path or cache.root))
            return 0
        self._show_help(_help(cache, invocation), invocation)
        return 0

    def _show_help(self, text: str, invocation: Invocation) -> None:
        from synapse.render import pager

        if pager.may_page() and not invocation.flag("--no-pager"):
            import shutil

            pager.page(f"{text}\n", shutil.get_terminal_size().lines)
        else:
            pager.write(f"{text}\n")

    def _help_without_hub(self) -> int:
        """Print the help of synapse itself, because --help never starts a daemon.

        Raises:
            CommandError: The user asked for the help of a namespace or a method.
        """
        from synapse import help as help_text

        if self._words:
            raise CommandError(
                "the hub's methods are unknown, because no daemon runs",
                hint="Start it: hubd start",
                status=5,
            )
        sys.stdout.write(help_text.fit_terminal(help_text.own_help()) + "\n")
        return 0

    def _run_built_in(self) -> int:
        from synapse.commands.typer_app import build

        app = build(None, Invocation(), lambda tokens: None)
        words = built_in_words(self._argv)
        try:
            status = app(words, prog_name="synapse", standalone_mode=False, obj=self._hub)
        except Exception as error:
            # Only Typer's usage errors have this method; any other exception is a defect.
            if not hasattr(error, "format_message"):
                raise
            raise UsageError(error.format_message(), hint="See: synapse self --help") from None
        return status if isinstance(status, int) else 0

    def _show_notice(self) -> None:
        """Show a person that the daemon should be restarted."""
        if not sys.stderr.isatty() or not isinstance(self._hub, hubs.LocalHub):
            return
        from synapse.hub.version_notice import version_notice

        if (notice := version_notice(self._hub.paths)) is not None:
            sys.stderr.write(f"synapse: {one_line(notice)}\n")

    # -- the schema --------------------------------------------------------------------------

    def _cache(self) -> Cache | None:
        """Return the cached schema, else the hub's; None for --help if no daemon runs."""
        cache = load(self._hub.cache_file)
        if cache is None and wants_help(self._argv):
            self._connection = self._hub.connect_if_running()
            if self._connection is None:
                return None
        return cache or self._refreshed()

    def _refreshed(self) -> Cache:
        from synapse.hub import refresh

        self._current = refresh.current(self._hub.cache_file, self._connect())
        return self._current

    def _newer_cache(self, cache: Cache) -> Cache | None:
        """Return the hub's schema if it is newer than the cache; None if no hub answers."""
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
        """Add the method's usage line, or the plugin that failed to load, to an error."""
        if isinstance(problem, UnknownCommand) and problem.namespace and self._connection:
            from synapse.hub import refresh

            failures = refresh.failures(self._connection, problem.namespace)
            return UsageError(problem.message, hint=" ".join([*failures, problem.hint]).strip())
        if problem.show_usage:
            import shutil

            from synapse.help import usage

            invocation = split(self._argv, cache)
            line = usage(cache, invocation.namespace, invocation.method)
            note = "      (--help shows all parameters)"
            room = shutil.get_terminal_size().columns - len("synapse: ")
            # The error of a terminal has two lines if the usage line itself fits.
            fits = not sys.stderr.isatty() or len(line) + len(note) <= room
            problem.hint = f"{line}{note}" if fits else line
        return problem

    # -- the connection ----------------------------------------------------------------------

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._hub.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _hub_options(argv: list[str]) -> Invocation:
    """Return the options that select the hub.

    A method may have a parameter with the name of an option. The options in front of all words
    select the schema that decides this, if the cache has it.
    """
    leading = own_options(before_first_word(argv))
    cache = load(hubs.chosen(leading).cache_file)
    if cache is not None:
        try:
            invocation = split(argv, cache)
        except CommandError:
            pass
        else:
            if invocation.method:
                return invocation
    options = own_options(argv)
    if leading.flag("--home") or leading.flag("--hub"):
        for name in ("--home", "--hub", "--token", "--token-file"):
            options.options.pop(name, None)
        options.options |= leading.options
    return options


def _help(cache: Cache, invocation: Invocation) -> str:
    """Return the help of the root, a namespace or a method."""
    from synapse import help as help_text

    path = invocation.namespace
    if not path:
        from synapse.overview import show

        return show(cache, in_full=invocation.flag("--help"))
    if sys.stdout.isatty():
        from synapse.render.pager import is_plain_terminal

        if not is_plain_terminal():
            from synapse.commands.typer_import import OnlyForHelp

            with OnlyForHelp():
                from synapse.commands.help_screen import help_screen, is_wide_enough

            if is_wide_enough():
                return help_screen(cache, invocation)
    if invocation.method:
        return help_text.fit_terminal(help_text.method_help(cache, path, invocation.method))
    return help_text.fit_terminal(help_text.namespace_help(cache, path))


def _watch(invocation: Invocation, schema: MethodSchema) -> Watch | None:
    """Return the screen for `--watch`; None without this option.

    Raises:
        UsageError: The output is not a list on a terminal.
    """
    if not invocation.flag("--watch"):
        return None
    hints = schema.get("annotations", {})
    if hints.get("render") != "table" or not hints.get("read_only"):
        raise UsageError("--watch needs a method that lists", hint="Such a method shows a table")
    if not sys.stdout.isatty() or invocation.output not in ("auto", "table"):
        raise UsageError("--watch needs a terminal", hint="In a script, repeat the command")
    from synapse.render.watch import Watch

    return Watch()


def _print_request(root: str, path: str, params: dict[str, Any], schema: MethodSchema) -> int:
    """Print a request; of the caller context only the working directory."""
    needs_context = schema.get("annotations", {}).get("needs_context")
    import json

    from synapse.hub.caller import caller_context

    context = json.dumps({"cwd": caller_context()["cwd"]}) if needs_context else ""
    text = call_request(root, path, json.dumps(params, ensure_ascii=False), context).decode()
    sys.stdout.write((escape_json(text) if sys.stdout.isatty() else text) + "\n")
    return 0
