"""The tree of activations: attaching, finding by path, finding by handle, hashes.

Routes; does not run anything. How a call runs is dispatch.py's business.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal
from uuid import UUID

from hubd.activation.base import Activation, check_namespace
from hubd.activation.host import Host
from hubd.errors import ActivationNotFound, Conflict, InvalidParams, VersionUnsupported
from hubd.plexus import describe
from hubd.storage.database import Database
from hubd.wire.handle import WireHandle, plugin_id
from hubd.wire.paths import HUB_NAME
from hubd.wire.schema import PluginSchema

# Deep enough for any tree a person designs; a cycle of children stops here.
MAX_DEPTH: Final = 32


# What no namespace can be called: the commands of synapse itself.
COMMANDS: Final = "self"
# What no plugin can be called either: they name the hub's own tables and settings.
RESERVED: Final = (COMMANDS, "hub", "mcp")


# What can change: the tree with its methods, or the prompts that somebody in it offers.
Change = Literal["tree", "prompts"]


class Node:
    """One place in the tree. Every node with children is a hub and resolves within them."""

    def __init__(self, activation: Activation, path: str, parent: "Node | None") -> None:
        self.activation = activation
        self.path = path
        self.parent = parent
        # By one segment of the path. Grows while plugins are attached.
        self.children: dict[str, Node] = {}
        self.major = activation.version.partition(".")[0]
        # Stable over minor versions.
        self.plugin_id = plugin_id(path, self.major)
        # Dropped whenever something below changes.
        self._schema: PluginSchema | None = None

    @property
    def schema(self) -> PluginSchema:
        """The shallow schema of this namespace."""
        if self._schema is None:
            below = {name: child.schema for name, child in self.children.items()}
            self._schema = describe.plugin_schema(self.activation, self.path, self.plugin_id, below)
        return self._schema

    def forget_schema(self) -> None:
        """Something below changed: describe again, up to the root."""
        self._schema = None
        if self.parent is not None:
            self.parent.forget_schema()

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, each before its children, in the order of names."""
        yield self
        for _, child in sorted(self.children.items()):
            yield from child.walk()

    def owner_of(self, wanted: UUID) -> "Node | None":
        """Who owns handles with this plugin id: me, a direct child, or somebody below a child."""
        if self.plugin_id == wanted:
            return self
        for child in self.children.values():
            if child.plugin_id == wanted:
                return child
        for child in self.children.values():
            if child.children and (owner := child.owner_of(wanted)):
                return owner
        return None


@dataclass(frozen=True)
class FailedPlugin:
    """A plugin that could not be loaded, or whose background work ended with an error."""

    # As `module:Class`.
    plugin: str
    # Where the hub knows the plugin from: built in, an entry point or --plugin.
    found_in: str
    reason: str
    # Empty if the plugin failed before its namespace was known.
    namespace: str = ""

    @property
    def sentence(self) -> str:
        """The failure, for guidance."""
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
                f"a hub cannot be called '{root.namespace}'", suggestion="Choose another --name"
            )
        self.name = root.namespace
        self.database = database
        # The configuration file; a plugin gets the section of its own path.
        self.settings = settings or {}
        self.root = Node(root, self.name, None)
        # The same whatever the hub is called: its name is no part of any path below it.
        self.root.plugin_id = plugin_id(HUB_NAME, self.root.major)
        # All that was left out, with the reason: plugins, and parts of them that MCP can't offer.
        self.broken: list[tuple[str, str]] = []
        # Of these, the plugins.
        self.failed_plugins: list[FailedPlugin] = []
        # Who wants to know when there is something else to describe than before.
        self._listeners: set[Callable[[Change], None]] = set()

    @property
    def hash(self) -> str:
        """Changes when anything in the tree does."""
        return self.root.schema["hash"]

    @contextmanager
    def listening(self, listener: Callable[[Change], None]) -> Iterator[None]:
        """Call `listener` at every change, for as long as the block lasts."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def tell(self, change: Change) -> None:
        """Say what changed."""
        for listener in list(self._listeners):
            listener(change)

    def attach(self, activation: Activation, host: Host, parent: Node | None = None) -> Node:
        """Add an activation with all its children.

        Raises:
            Conflict: The name is taken.
            InvalidParams: A setting is wrong.
            TypeError: A namespace is no word, or the tree is deeper than it may be.
        """
        above = parent or self.root
        name = activation.namespace
        check_namespace(type(activation).__qualname__, name)
        taken = name in above.children or name in above.activation.methods
        if taken or (above is self.root and name in (self.name, *RESERVED)):
            raise Conflict(
                f"the name '{name}' is taken in '{above.path}'",
                suggestion="Give the plugin another namespace",
            )
        path = name if above is self.root else f"{above.path}.{name}"
        if path.count(".") >= MAX_DEPTH:
            raise TypeError(f"{path}: more than {MAX_DEPTH} levels; do its children contain it?")
        node = Node(activation, path, above)
        activation.attach(path, host, self.database, self._section(path))
        # Children first: a plugin whose child is refused is refused whole.
        for child in activation.children():
            self.attach(child, host, node)
        activation.check_settings(node.children)
        above.children[name] = node
        above.forget_schema()
        self.tell("tree")
        return node

    def report_failure(self, failed: FailedPlugin) -> None:
        """Remember a plugin that does not work, for everything that reports on the hub."""
        self.failed_plugins.append(failed)
        self.broken.append((f"{failed.plugin} ({failed.found_in})", failed.reason))

    def _section(self, path: str) -> Mapping[str, Any]:
        section: Any = self.settings
        for segment in path.split("."):
            section = section.get(segment) if isinstance(section, Mapping) else None
        return section if isinstance(section, Mapping) else {}

    def detach(self, node: Node) -> None:
        """Take a namespace out again."""
        assert node.parent is not None, "the root stays"
        del node.parent.children[node.activation.namespace]
        node.parent.forget_schema()
        self.tell("tree")

    def find(self, path: list[str]) -> Node:
        """The node at a path; the root's own name in front is optional.

        Raises:
            ActivationNotFound: With the names there are, and the nearest.
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
        """The node that resolves a handle, searched from the root or from a hub below it.

        Raises:
            ActivationNotFound: Nobody owns it; names the plugins there are.
            VersionUnsupported: The plugin is there, in another major version.
        """
        top = within or self.root
        owner = top.owner_of(handle.plugin_id)
        if owner is None:
            # The same plugin in another major version has another id.
            owner = next((node for node in top.walk() if _is_other_major(node, handle)), None)
        if owner is None:
            known = [node.path for node in top.walk() if node.activation.resolvers]
            raise ActivationNotFound(
                f"no plugin '{handle.plugin}' owns this handle",
                suggestion=self._failure_of(handle.plugin.partition(".")[0])
                or did_you_mean(handle.plugin, known)
                or "These plugins have handles",
                available=known,
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
        nearest = did_you_mean(segment, names) or ("" if failure else "These are there")
        return ActivationNotFound(
            f"no activation '{segment}'{where}",
            suggestion=" ".join(filter(None, (failure, nearest))),
            available=names,
        )

    def _failure_of(self, namespace: str) -> str:
        """Return why a namespace may be missing, or nothing."""
        failed = [entry for entry in self.failed_plugins if entry.namespace == namespace]
        failed = failed or [entry for entry in self.failed_plugins if not entry.namespace]
        return " ".join(entry.sentence for entry in failed)


def _is_other_major(node: Node, handle: WireHandle) -> bool:
    return handle.plugin == node.path or plugin_id(node.path, handle.major) == handle.plugin_id


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """A sentence with the name closest to a misspelt word, or nothing."""
    folded = {name.lower().replace("-", "_"): name for name in names}
    # Only the beginning is compared: the word comes from outside and may be huge.
    matches = get_close_matches(word[:100].lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return f"Did you mean {folded[matches[0]]}?" if matches else ""
