"""The activation: what every plugin derives from."""

import inspect
import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel

from hubd.activation.handle import Origin
from hubd.activation.hints import check_listers
from hubd.activation.host import Host
from hubd.activation.method import (
    UNIVERSAL,
    Method,
    MethodMark,
    Resolver,
    mark_of,
    read_method,
    read_resolver,
)
from hubd.activation.prompt import Prompt, PromptMessage
from hubd.activation.settings import read_settings, unknown_tables
from hubd.errors import NotFound
from hubd.storage.database import Database

M = TypeVar("M", bound=BaseModel)

log = logging.getLogger("hubd.activation")

_SEGMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[A-Za-z0-9.-]+)?")


class Activation:
    """A plugin: a namespace, a semantic version, methods, handle types, perhaps children.

    Class arguments: `namespace`, one segment of a path, and `version`. A class whose instances
    have different namespaces leaves `namespace` out and sets `self.namespace` itself.
    """

    namespace: str = ""
    version: ClassVar[str] = ""
    # SQL, append-only: never edit one that was released. Names begin with the namespace and "_".
    migrations: ClassVar[tuple[str, ...]] = ()

    # The settings of the plugin. The hub checks them when it loads the plugin.
    settings_model: ClassVar[type[BaseModel] | None] = None

    # MCP clients are offered the plugin and its children only if they ask for the namespace
    # (`hubd mcp --mcp-tools`, `?tools=`). For demonstrations: a model reads every tool's schema.
    mcp_on_request: ClassVar[bool] = False

    # Read from the class, once.
    methods: ClassVar[Mapping[str, Method]] = {}
    resolvers: ClassVar[Mapping[str, Resolver]] = {}
    # From the class's docstring; an instance may say something more particular.
    description: str = ""
    details: str = ""

    # Set by the hub when the activation is attached.
    _host: Host | None = None
    _database: Database | None = None
    _path: str = ""
    _section: Mapping[str, Any] = {}

    def __init_subclass__(cls, *, namespace: str = "", version: str = "", **kwargs: Any) -> None:
        """Read methods and resolvers; a mistake is an error at import."""
        super().__init_subclass__(**kwargs)
        where = f"{cls.__module__}.{cls.__qualname__}"
        if namespace:
            check_namespace(where, namespace)
            cls.namespace = namespace
        if version:
            cls.version = version
        if not _VERSION.fullmatch(cls.version):
            raise TypeError(f"{where}: give a semantic version, such as version='1.0.0'")
        if not cls.__dict__.get("__doc__"):
            raise TypeError(f"{where}: write a docstring; its first line is the help")
        summary, _, details = inspect.cleandoc(cls.__doc__ or "").partition("\n")
        cls.description, cls.details = summary.strip(), details.strip()
        cls.methods, cls.resolvers = _collect(cls, where)
        for entry in cls.methods.values() if namespace else ():
            check_listers(f"{where}.{entry.name}", namespace, entry.annotations, cls.methods)
        if cls.namespace:
            for resolving in cls.resolvers.values():
                resolving.handle.expected = Origin(cls.namespace, cls.version)

    @property
    def host(self) -> Host:
        """The hub, as a plugin sees it.

        Raises:
            RuntimeError: The activation is not attached to one.
        """
        if self._host is None:
            raise RuntimeError(f"{type(self).__qualname__} is not attached to a hub")
        return self._host

    @property
    def db(self) -> Database:
        """The hub's database, in which the plugin owns the tables with its prefix.

        Raises:
            RuntimeError: The activation is not attached to a hub with a database.
        """
        if self._database is None:
            raise RuntimeError(
                f"{type(self).__qualname__} is not attached to a hub with a database"
            )
        return self._database

    @property
    def path(self) -> str:
        """The full namespace path, once attached; before that the namespace."""
        return self._path or self.namespace

    @property
    def origin(self) -> Origin:
        """What handles of this very activation carry: `ref.at(self.origin)`."""
        return Origin(self.path, self.version)

    def settings(self, model: type[M]) -> M:
        """Return the plugin's settings: its section of `config.toml`, under its variables.

        A section is named as the plugin's path; the variable of the field `days` of a plugin
        `notes` is `HUBD_NOTES_DAYS`. Name the model in `settings_model` too: a mistake in the
        settings then keeps the plugin from being loaded, instead of failing a call.

        Raises:
            InvalidParams: A value does not fit the model, or the model has no such field.
        """
        return read_settings(model, self.path, self._section)

    def check_settings(self, children: Collection[str]) -> None:
        """Read the settings once, so that a mistake is reported when the plugin is loaded.

        Raises:
            InvalidParams: As `settings`.
        """
        if self.settings_model is None:
            return
        self.settings(self.settings_model)
        for name in unknown_tables(self.settings_model, self._section):
            if name not in children:
                log.warning(
                    "config.toml: [%s.%s] is neither a setting nor a child of %s",
                    self.path,
                    name,
                    self.path,
                )

    def children(self) -> Iterable["Activation"]:
        """Return the activations below this one at the start; having any makes it a hub."""
        return ()

    async def add_child(self, child: "Activation") -> None:
        """Attach an activation below this one while the hub runs, until it stops.

        The child's tables are made and its lifespan is started before this returns. The schema
        and the hashes change, so clients see the child.

        Raises:
            Conflict: The name is taken.
            HubError: A setting or a migration is wrong.
            Exception: What the child's lifespan raised; the child is not attached then.
        """
        await self.host.add_child(self, child)

    async def remove_child(self, namespace: str) -> None:
        """Stop and detach a child that `add_child` attached.

        Raises:
            NotFound: There is no such child.
        """
        await self.host.remove_child(self, namespace)

    async def offer_prompts(self) -> Sequence[Prompt]:
        """The prompts that people may choose in their clients.

        When there are others than before, say so: `self.host.prompts_changed()`.
        """
        return ()

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """One of those prompts, with its blanks filled.

        Raises:
            NotFound: There is none of that name.
        """
        raise NotFound(f"{self.path} has no prompt '{name}'")

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Yield whenever a method would answer these params otherwise than before.

        The first `yield` says that changes are noticed from then on, and is none itself. Asked
        for methods that are resources (`mcp={"resource": …}`) and, without params, for those
        that list which there are (`completes`). By default nothing changes.

        Raises:
            HubError: There is nothing under these params.
        """
        return
        yield  # makes this a generator

    def extend_mcp(self, registry: Any) -> None:
        """Add tools, resources and prompts that no method describes to the MCP server.

        Called once, with a `hubd.mcp.registry.Registry`: when the first MCP client
        comes, or on being attached after that. What was added goes with the plugin. Import the
        MCP SDK in here, not above: a daemon without MCP clients does without it.
        """

    async def lifespan(self) -> AsyncIterator[None]:
        """Long-lived work: start it, `yield` once, and clean up after the yield."""
        yield

    def attach(
        self,
        path: str,
        host: Host,
        database: Database | None,
        section: Mapping[str, Any] | None = None,
    ) -> None:
        """Called by the hub, once, before anything else."""
        self._path, self._host, self._database = path, host, database
        self._section = section or {}
        for entry in self.resolvers.values():
            entry.handle.settle(self.origin)


def check_namespace(where: str, namespace: str) -> None:
    """Refuse what cannot be one segment of a path.

    Raises:
        TypeError: With the rule in words.
    """
    if not _SEGMENT.fullmatch(namespace):
        raise TypeError(
            f"{where}: namespace {namespace!r} must be one word: a letter, then letters, "
            "digits, '_' or '-'"
        )


def _collect(cls: type[Activation], where: str) -> tuple[dict[str, Method], dict[str, Resolver]]:
    methods: dict[str, Method] = {}
    resolvers: dict[str, Resolver] = {}
    for attribute in cls.__dict__.values():
        mark = mark_of(attribute)
        if isinstance(mark, MethodMark):
            read = read_method(where, attribute, mark)
            if read.name in UNIVERSAL:
                raise TypeError(
                    f"{where}.{read.name}: the hub answers '{read.name}' for every "
                    "namespace; choose another name"
                )
            if read.name in methods:
                raise TypeError(f"{where}: two methods named '{read.name}'")
            if hasattr(Activation, attribute.__name__):
                raise TypeError(
                    f"{where}.{attribute.__name__} hides what every activation has; "
                    "call the function otherwise and give @method(name=…)"
                )
            methods[read.name] = read
        elif mark is not None:
            resolving = read_resolver(where, attribute)
            if resolving.handle.method in resolvers:
                raise TypeError(
                    f"{where}: two resolvers for handles of type {resolving.handle.method}"
                )
            resolvers[resolving.handle.method] = resolving
    # A subclass has what its bases have, and may replace it.
    for base in cls.__bases__:
        if issubclass(base, Activation):
            methods = {**base.methods, **methods}
            resolvers = {**base.resolvers, **resolvers}
    return methods, resolvers
