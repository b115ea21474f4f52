"""The tree of activations: attach and detach, look up by path or by handle, hashes.

This module only routes. dispatch.py runs the calls.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from hubd.activation.base import Activation
from hubd.activation.declaration.class_checks import (
    check_migrations,
    check_namespace,
    check_version,
    name_of,
)
from hubd.activation.host import Host
from hubd.activation.templates import TemplateSource
from hubd.errors import ActivationNotFound, Conflict, InvalidParams, VersionUnsupported
from hubd.plexus import describe
from hubd.plexus.actors import Actors
from hubd.plexus.turns import Turns
from hubd.storage.database import Database
from hubd.storage.search.service import Search
from hubd.storage.search.source import SearchSource
from hubd.wire.handle import WireHandle, plugin_id
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.paths import HUB_NAME
from hubd.wire.schema import PluginSchema
from hubd.wire.text import did_you_mean

if TYPE_CHECKING:
    from hubd.plexus.routes import Route

# The maximum depth of the tree. It also ends a cycle of children.
MAX_DEPTH: Final = 32


# Reserved for the commands of synapse, so neither a hub nor a plugin can have the name.
COMMANDS: Final = "self"
# Names that plugins can't have. "hub" and "mcp" are prefixes of the hub's tables and settings.
RESERVED: Final = (COMMANDS, "hub", "mcp")


# A change of the tree with its methods, or of the prompts of a plugin.
Change = Literal["tree", "prompts"]


class Node:
    """An activation in the tree. A node with children is a hub and resolves their handles."""

    def __init__(self, activation: Activation, path: str, parent: "Node | None") -> None:
        self.activation = activation
        self.path = path
        self.parent = parent
        # By namespace, one segment of the path.
        self.children: dict[str, Node] = {}
        self.major = activation.version.partition(".")[0]
        # The same for all minor versions.
        self.plugin_id = plugin_id(path, self.major)
        # Built when it is needed; None after a change in the node or below it.
        self._schema: PluginSchema | None = None
        self._hash: str | None = None

    @property
    def schema(self) -> PluginSchema:
        """The schema of this namespace, with summaries of its children."""
        if self._schema is None:
            children = {name: child.schema for name, child in self.children.items()}
            self._schema = describe.plugin_schema(
                self.activation, self.path, self.plugin_id, children
            )
        return self._schema

    @property
    def hash(self) -> str:
        """The hash of the schema. The schema of a built-in plugin is not built for it."""
        if self._hash is None:
            own = describe.cached_self_hash(
                self.activation, self.path, lambda: self.schema["self_hash"]
            )
            hashes = {name: child.hash for name, child in self.children.items()}
            self._hash = describe.tree_hash(own, hashes)
        return self._hash

    def forget_schema(self) -> None:
        """Drop the schema and its hash, here and up to the root, after a change."""
        self._schema = self._hash = None
        if self.parent is not None:
            self.parent.forget_schema()

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all below it, each before its children, in order of names."""
        yield self
        for _, child in sorted(self.children.items()):
            yield from child.walk()

    def owner_of(self, plugin: UUID) -> "Node | None":
        """Return the owner of handles with a plugin id: this node or one below it."""
        if self.plugin_id == plugin:
            return self
        for child in self.children.values():
            if child.plugin_id == plugin:
                return child
        for child in self.children.values():
            if child.children and (owner := child.owner_of(plugin)):
                return owner
        return None


@dataclass(frozen=True)
class FailedPlugin:
    """A plugin that can't be loaded, or that failed in its background work."""

    # As `module:Class`.
    plugin: str
    # The origin of the name: built in, an entry point or --plugin.
    found_in: str
    reason: str
    # Empty if the plugin failed at import.
    namespace: str = ""

    @property
    def sentence(self) -> str:
        """The failure as a sentence, for suggestions."""
        return f"The plugin {self.plugin} failed: {self.reason}."


class Hub:
    """The Plexus: the root of the tree."""

    def __init__(
        self,
        root: Activation,
        database: Database | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        check_namespace("the hub's name", root.namespace)
        if root.namespace == COMMANDS:
            raise InvalidParams(
                f"'{root.namespace}' is reserved; it can't be the name of a hub",
                suggestion="Choose another --name",
            )
        self.name = root.namespace
        self.database = database
        # The content of the configuration file. A plugin gets the section of its path.
        self.settings = settings or {}
        self.root = Node(root, self.name, None)
        # The name of the hub is not part of paths, so it does not change the id.
        self.root.plugin_id = plugin_id(HUB_NAME, self.root.major)
        # Failures with their reasons: of plugins, and of parts that MCP can't offer.
        self.broken: list[tuple[str, str]] = []
        # The failed plugins among them.
        self.failed_plugins: list[FailedPlugin] = []
        # The methods that were called, by path; cleared when the tree changes.
        self.routes: dict[str, Route] = {}
        # Counts turns of the event loop, for methods that never wait.
        self.turns = Turns()
        # The actors of process trees and session tokens.
        self.actors = Actors()
        # The templates of plugins, the oldest first.
        self.template_sources: list[TemplateSource] = []
        # The search index; set while plugins run, if the hub has a database.
        self.search: Search | None = None
        # Returns the event of `_page`, an address with a new code; None without a page.
        self.page_link: Callable[[], Mapping[str, Any]] | None = None
        # Called at every change.
        self._listeners: set[Callable[[Change], None]] = set()

    @property
    def hash(self) -> str:
        """The hash of the whole tree."""
        return self.root.hash

    @contextmanager
    def listening(self, listener: Callable[[Change], None]) -> Iterator[None]:
        """Call `listener` at every change until the block ends."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def tell(self, change: Change) -> None:
        """Notify the listeners of a change."""
        for listener in list(self._listeners):
            listener(change)

    def attach(self, activation: Activation, host: Host, parent: Node | None = None) -> Node:
        """Attach an activation with all its children.

        Raises:
            Conflict: The name is taken.
            InvalidParams: A setting is wrong.
            TypeError: The namespace or the version is invalid, or the tree is too deep.
        """
        above = parent or self.root
        name = activation.namespace
        where = name_of(type(activation))
        check_namespace(where, name)
        check_version(where, activation.version)
        check_migrations(where, activation.migrations)
        taken = name in above.children or name in above.activation.methods
        if taken or (above is self.root and name in (self.name, *RESERVED)):
            other = above.children.get(name)
            owner = f"{name_of(type(other.activation))} has it. " if other else ""
            raise Conflict(
                f"the name '{name}' is taken in '{above.path}'",
                suggestion=f"{owner}Give the plugin another namespace",
            )
        path = name if above is self.root else f"{above.path}.{name}"
        if path.count(".") >= MAX_DEPTH:
            raise TypeError(f"{path}: more than {MAX_DEPTH} levels; do its children contain it?")
        node = Node(activation, path, above)
        activation.attach(path, host, self.database, self._section(path))
        # Children first: if a child is refused, the plugin is refused.
        for child in activation.children():
            self.attach(child, host, node)
        activation.check_settings(node.children)
        above.children[name] = node
        self._change(above)
        return node

    def _change(self, node: Node) -> None:
        """Drop everything that depends on the children of a node, and notify the listeners."""
        node.forget_schema()
        self.routes.clear()
        self.tell("tree")

    def report_failure(self, failed: FailedPlugin) -> None:
        """Record a failed plugin for `hubd status` and other reports."""
        self.failed_plugins.append(failed)
        self.broken.append((f"{failed.plugin} ({failed.found_in})", failed.reason))

    def search_sources(self) -> dict[str, SearchSource]:
        """Return the search sources of all plugins, by the path of the plugin and their names."""
        return {
            f"{node.path}.{source.name}": source
            for node in self.root.walk()
            for source in node.activation.search_sources()
        }

    def _section(self, path: str) -> Mapping[str, Any]:
        section: Any = self.settings
        for segment in path.split("."):
            section = section.get(segment) if isinstance(section, Mapping) else None
        return section if isinstance(section, Mapping) else {}

    def detach(self, node: Node) -> None:
        """Detach a namespace with everything below it."""
        assert node.parent is not None, "the root can't be detached"
        del node.parent.children[node.activation.namespace]
        self._change(node.parent)

    def find(self, path: list[str]) -> Node:
        """Return the node at a path. The path may begin with the name of the root.

        Raises:
            ActivationNotFound: Lists the names that exist, and suggests the nearest.
        """
        node: Node = self.root
        for position, segment in enumerate(path):
            if position == 0 and segment == self.name:
                continue
            child = node.children.get(segment)
            if child is None:
                raise self._no_such_activation(node, segment)
            node = child
        return node

    def owner_of(self, handle: WireHandle, within: Node | None = None) -> Node:
        """Return the node that resolves a handle.

        Args:
            handle: The handle.
            within: The namespace to search; the whole tree by default.

        Raises:
            ActivationNotFound: No plugin owns the handle; lists the plugins with handles.
            VersionUnsupported: The plugin has another major version.
        """
        top = within or self.root
        owner = top.owner_of(handle.plugin_id)
        if owner is None:
            # The same plugin in another major version has another id.
            owner = next((node for node in top.walk() if _is_other_major(node, handle)), None)
        if owner is None:
            owners = [node.path for node in top.walk() if node.activation.resolvers]
            raise ActivationNotFound(
                f"no plugin '{handle.plugin}' owns this handle",
                suggestion=self._failure_of(handle.plugin.partition(".")[0])
                or did_you_mean(handle.plugin, owners)
                or "These plugins have handles",
                available=owners,
            )
        if owner.major != handle.major:
            raise VersionUnsupported(
                f"{handle} is of major version {handle.major}, and {owner.path} is "
                f"{owner.activation.version}"
            )
        return owner

    def _no_such_activation(self, node: Node, segment: str) -> ActivationNotFound:
        names = sorted(node.children)
        where = "" if node.parent is None else f" in '{node.path}'"
        failure = self._failure_of(segment) if node.parent is None else ""
        nearest = did_you_mean(segment, names) or ("" if failure else "These activations exist")
        return ActivationNotFound(
            f"no activation '{segment}'{where}",
            suggestion=" ".join(filter(None, (failure, nearest))),
            available=names,
        )

    def _failure_of(self, namespace: str) -> str:
        """Return the reason why a namespace may be missing; empty if no plugin failed."""
        failed = [entry for entry in self.failed_plugins if entry.namespace == namespace]
        failed = failed or [entry for entry in self.failed_plugins if not entry.namespace]
        return " ".join(entry.sentence for entry in failed)


def _is_other_major(node: Node, handle: WireHandle) -> bool:
    return handle.plugin == node.path or plugin_id(node.path, handle.major) == handle.plugin_id
