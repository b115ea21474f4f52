"""The base class of every plugin."""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel

from hubd.activation.api_version import check_api_version
from hubd.activation.declaration.class_checks import (
    check_arguments,
    check_lifespan,
    check_migrations,
    check_namespace,
    check_version,
    name_of,
)
from hubd.activation.handle import Origin
from hubd.activation.hints import check_listers
from hubd.activation.host import Host
from hubd.activation.mcp_registry import McpRegistry
from hubd.activation.method import (
    UNIVERSAL,
    Method,
    MethodMark,
    mark_of,
    read_method,
)
from hubd.activation.prompt import Prompt, PromptMessage
from hubd.activation.resolver import Resolver, read_resolver
from hubd.activation.settings import read_settings, unknown_tables
from hubd.errors import NotFound
from hubd.storage.database import Database, Tx
from hubd.storage.search.changes import changed
from hubd.storage.search.source import SearchSource
from hubd.wire.checks import Finding

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

log = logging.getLogger(__name__)


class Activation:
    """A plugin: a namespace, a semantic version, methods, handle types, perhaps children.

    Class arguments: `namespace`, one segment of a path; `version`; `requires_api`, the oldest
    version of the plugin API that the plugin works with. If instances of a class have different
    namespaces, the class leaves `namespace` out and sets `self.namespace`. A class with neither
    namespace nor version is a mixin: a part of the plugins that derive from it.

    Methods are listed in the order of the class: those of its bases in the order of the class
    statement, then its own. A method that replaces one of a base keeps the place of that one.
    """

    namespace: str = ""
    version: ClassVar[str] = ""
    # SQL texts, run once each and in order. Never edit one that was released: add another. The
    # names of tables and indexes begin with the namespace and "_".
    migrations: ClassVar[tuple[str, ...]] = ()

    # The model of the plugin's settings. The hub checks them when it loads the plugin.
    settings_model: ClassVar[type[BaseModel] | None] = None

    # True: MCP clients get the plugin's tools only if they ask for the namespace
    # (`hubd mcp --mcp-tools`, `?tools=`). For demonstrations: a model reads every tool's schema.
    mcp_on_request: ClassVar[bool] = False

    # All methods and resolvers, those of the bases included, in the order of help and schema.
    methods: ClassVar[Mapping[str, Method]] = {}
    resolvers: ClassVar[Mapping[str, Resolver]] = {}
    # The methods and resolvers that the class itself declares.
    _own_methods: ClassVar[Mapping[str, Method]] = {}
    _own_resolvers: ClassVar[Mapping[str, Resolver]] = {}
    # The first line of the class's docstring and the rest of it. An instance may replace them.
    description: str = ""
    details: str = ""

    # Set by the hub when the activation is attached.
    _host: Host | None = None
    _database: Database | None = None
    _path: str = ""
    _section: Mapping[str, Any] = {}

    def __init_subclass__(
        cls, *, namespace: str = "", version: str = "", requires_api: str = "", **kwargs: Any
    ) -> None:
        """Read and check the class.

        Raises:
            TypeError: A mistake in the class; names the class, the member and the remedy.
            VersionUnsupported: The hub has another version of the plugin API.
        """
        where = name_of(cls)
        check_arguments(where, kwargs, ("namespace", "version", "requires_api"))
        super().__init_subclass__(**kwargs)
        if requires_api:
            check_api_version(where, requires_api)
        if namespace:
            check_namespace(where, namespace)
            cls.namespace = namespace
        if version:
            cls.version = version
        if cls.namespace or cls.version:
            # Not a mixin.
            check_version(where, cls.version)
            if not cls.__dict__.get("__doc__"):
                raise TypeError(f"{where}: write a docstring; its first line is the help")
        check_migrations(where, cls.migrations)
        check_lifespan(where, cls.lifespan)
        summary, _, details = cleandoc(cls.__dict__.get("__doc__") or "").partition("\n")
        cls.description, cls.details = summary.strip(), details.strip()
        cls._own_methods, cls._own_resolvers = _read_members(cls, where)
        cls.methods = _inherit(cls, lambda each: each.methods, lambda each: each._own_methods)
        cls.resolvers = _inherit(cls, lambda each: each.resolvers, lambda each: each._own_resolvers)
        for entry in cls.methods.values() if namespace else ():
            check_listers(f"{where}.{entry.name}", namespace, entry.annotations, cls.methods)
        if cls.namespace:
            for resolver in cls.resolvers.values():
                resolver.handle.expected = Origin(cls.namespace, cls.version)

    @property
    def host(self) -> Host:
        """The hub that the activation is attached to.

        Raises:
            RuntimeError: The activation is not attached to a hub.
        """
        if self._host is None:
            raise RuntimeError(f"{type(self).__qualname__} is not attached to a hub")
        return self._host

    @property
    def db(self) -> Database:
        """The hub's database. The plugin owns the tables with its namespace in front.

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
        """The full namespace path; the namespace alone before the activation is attached."""
        return self._path or self.namespace

    @property
    def origin(self) -> Origin:
        """The owner of this activation's handles: `ref.at(self.origin)`."""
        return Origin(self.path, self.version)

    def settings(self, model: type[M]) -> M:
        """Return the plugin's settings from `config.toml` and the environment.

        The section has the name of the plugin's path. The variable `HUBD_NOTES_DAYS` overrides
        the field `days` of a plugin `notes`. Set `settings_model` too: the hub then checks the
        settings when it loads the plugin, not in the first call that reads them.

        Raises:
            InvalidParams: A value does not fit the model, or the model does not have the field.
        """
        return read_settings(model, self.path, self._section)

    def check_settings(self, children: Collection[str]) -> None:
        """Check the settings when the plugin is loaded.

        Args:
            children: The names of the plugin's children, which have sections inside its own.

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
        """Return the children to attach at the start. An activation with children is a hub."""
        return ()

    async def add_child(self, child: "Activation") -> None:
        """Attach a child while the hub runs. It stays until `remove_child` or the hub's end.

        The child has its tables and its lifespan has started before this returns. The schema
        and the hashes change, so clients see the child.

        Raises:
            Conflict: The name is taken.
            HubError: A setting or a migration is wrong.
            Exception: The error of the child's lifespan; the child is not attached.
        """
        await self.host.add_child(self, child)

    async def remove_child(self, namespace: str) -> None:
        """Detach and stop a child that `add_child` attached.

        Raises:
            NotFound: The plugin has not added this child.
        """
        await self.host.remove_child(self, namespace)

    async def offer_prompts(self) -> Sequence[Prompt]:
        """Return the prompts that users can choose in their MCP clients.

        Call `self.host.prompts_changed()` when the list changes.
        """
        return ()

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """Return the messages of a prompt with its arguments filled in.

        Raises:
            NotFound: The plugin does not offer this prompt.
        """
        raise NotFound(f"{self.path} has no prompt '{name}'")

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Yield when the result of a method for these params changes.

        The first `yield` is not a change: it reports that changes are noticed from now on. The
        hub uses this for methods that are resources (`mcp={"resource": …}`) and, without params,
        for the methods that list them (`completes`). By default, nothing changes.

        Raises:
            HubError: These params have no result.
        """
        return
        yield  # pragma: no cover -- makes this a generator

    async def marks(self, tree_id: str) -> Mapping[str, Sequence[str]]:
        """Return names for nodes of a tree, by the ids of the nodes. By default none.

        A drawing of the tree shows them: the sessions whose head is at a node, for example. Return
        them in order of creation, because the first one is the title of the drawing. Keep it
        cheap, and bounded: the hub calls it for every drawing.
        """
        return {}

    def extend_mcp(self, registry: McpRegistry) -> None:
        """Add tools, resources and prompts to the MCP server that are not methods.

        The hub calls it once: when the first MCP client connects, or when it attaches the
        plugin after that. It removes the additions when it detaches the plugin. Import the MCP
        SDK inside this function: a daemon without MCP clients does not load it.
        """

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the tables with rows that `plexus.search` finds. By default none."""
        return ()

    def search_row_changed(self, tx: Tx, source: str, key: int) -> None:
        """Let the search read a row again, after the transaction that changes it.

        New, finished and deleted rows need no call.

        Args:
            tx: The transaction.
            source: The name of the plugin's search source.
            key: The key of the row.
        """
        changed(tx, f"{self.path}.{source}", key)

    async def examine(self) -> Sequence[Finding]:
        """Check what the plugin needs from this machine, for `hubd doctor`. By default nothing.

        It may run programs. The hub gives up after a minute, and reports an exception as a
        finding that is not ok.
        """
        return ()

    async def lifespan(self) -> AsyncIterator[None]:
        """Start background work, `yield` once, and clean up after the `yield`."""
        yield

    def attach(
        self,
        path: str,
        host: Host,
        database: Database | None,
        section: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the place in the tree. The hub calls it once, before everything else.

        Args:
            path: The full namespace path.
            host: The implementation of `self.host`.
            database: The hub's database, if it has one.
            section: The plugin's section of the configuration file.
        """
        self._path, self._host, self._database = path, host, database
        self._section = section or {}
        for entry in self.resolvers.values():
            entry.handle.settle(self.origin)


def _inherit(
    cls: type[Activation],
    everything: Callable[[type[Activation]], Mapping[str, T]],
    own: Callable[[type[Activation]], Mapping[str, T]],
) -> dict[str, T]:
    """Merge the members of the bases with those of the class, in the order of the class.

    The order is that of the class statement. If several bases have a member of one name, Python's
    method resolution order decides which one it is.
    """
    bases = [base for base in cls.__bases__ if issubclass(base, Activation)]
    names = dict.fromkeys(name for base in bases for name in everything(base))
    names.update(dict.fromkeys(own(cls)))
    lineage = [each for each in cls.__mro__ if issubclass(each, Activation)]
    return {name: next(own(each)[name] for each in lineage if name in own(each)) for name in names}


def _read_members(
    cls: type[Activation], where: str
) -> tuple[dict[str, Method], dict[str, Resolver]]:
    """Read the methods and resolvers that the class itself declares."""
    methods: dict[str, Method] = {}
    resolvers: dict[str, Resolver] = {}
    for name, attribute in cls.__dict__.items():
        mark = mark_of(attribute)
        if isinstance(mark, MethodMark):
            entry = read_method(where, attribute, mark)
            if entry.name in UNIVERSAL:
                raise TypeError(
                    f"{where}.{entry.name}: the hub answers '{entry.name}' for every "
                    "namespace; choose another name"
                )
            if entry.name in methods:
                raise TypeError(f"{where}: two methods named '{entry.name}'")
            if hasattr(Activation, attribute.__name__):
                raise TypeError(
                    f"{where}.{attribute.__name__} replaces a member of every activation; rename "
                    f"the function and write @method(name={entry.name!r})"
                )
            methods[entry.name] = entry
        elif mark is not None:
            resolver = read_resolver(where, attribute, mark)
            if resolver.handle.method in resolvers:
                raise TypeError(
                    f"{where}: two resolvers for handles of type {resolver.handle.method}"
                )
            resolvers[resolver.handle.method] = resolver
        elif any(mark_of(getattr(base, name, None)) is not None for base in cls.__bases__):
            raise TypeError(
                f"{where}.{name} replaces a method of a base class; write its decorator "
                "(@method or @resolver) again"
            )
    return methods, resolvers
