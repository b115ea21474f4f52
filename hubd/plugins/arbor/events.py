"""The events of arbor's methods."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hubd.activation import AnyHandle, Event, columns
from hubd.storage.arbor.tree import Lane


def _always_tagged(schema: dict[str, Any]) -> None:
    schema["required"] = ["type", *schema["required"]]


class SparseEvent(Event):
    """An event without the fields that are None; its schema marks them as optional."""

    model_config = ConfigDict(
        json_schema_serialization_defaults_required=False, json_schema_extra=_always_tagged
    )


class TextData(BaseModel, defer_build=True):
    """A node that holds text."""

    type: Literal["text"]
    content: str


class ExternalData(BaseModel, defer_build=True):
    """A node that points at data of a plugin."""

    type: Literal["external"]
    handle: AnyHandle


class NodeInfo(BaseModel, defer_build=True):
    """One node. Only its label can change."""

    id: str
    tree_id: str
    parent: str | None
    depth: int
    lane: Lane
    data: Annotated[TextData | ExternalData, Field(discriminator="type")]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: int


class SkeletonNode(BaseModel, defer_build=True):
    """One node without its content."""

    id: str
    parent: str | None
    depth: int
    lane: Lane
    kind: Literal["text", "external"]
    label: str | None = None


class TreeInfo(BaseModel, defer_build=True):
    """One tree. `state_since` is the start of its state, in seconds."""

    tree_id: str
    owner_id: str | None = Field(
        description="The owner that created the tree, or another owner if that one released it; "
        "null without owners"
    )
    ref_count: int
    owners: dict[str, int]
    metadata: dict[str, Any] | None
    state: Literal["active", "scheduled", "archived"]
    state_since: int
    root: str
    created_at: int


class TreeWithNodes(TreeInfo):
    """A tree with some of its nodes, in order of creation."""

    nodes: list[NodeInfo]


class TreeWithSkeleton(TreeInfo):
    """A tree with some of its nodes, without their content."""

    nodes: list[SkeletonNode]


def _trees() -> Any:
    """Return the field of a list of trees, with its columns at a terminal."""
    return Field(
        json_schema_extra=columns(
            tree="{tree_id}",
            state="{state}",
            owner="{owner_id}",
            references="{ref_count}",
            created="{created_at}",
            metadata="{metadata}",
        )
    )


class TreeCreated(Event, summary="created tree {tree_id}"):
    """A new tree."""

    tree_id: str
    owner_id: str
    metadata: dict[str, Any] | None
    root: str


class TreeData(SparseEvent):
    """A page of a tree. `next` is the value for `after` if more pages follow."""

    tree: TreeWithNodes
    next: str | None = None


class TreeSkeleton(SparseEvent):
    """A page of a tree's structure. `next` is as in `tree_data`."""

    tree: TreeWithSkeleton
    next: str | None = None


class TreeList(Event):
    """A page of trees."""

    trees: list[TreeInfo] = _trees()


class TreesScheduled(Event):
    """Trees without owners, which are due to be archived."""

    trees: list[TreeInfo] = _trees()


class TreesArchived(Event):
    """Trees that are read-only and due to be removed."""

    trees: list[TreeInfo] = _trees()


class TreeUpdated(Event, summary="updated tree {tree_id}"):
    """The new metadata of a tree."""

    tree_id: str
    metadata: dict[str, Any] | None


class TreeClaimed(Event, summary="{owner_id} claimed tree {tree_id}, references: {new_count}"):
    """The references to a tree after a claim."""

    tree_id: str
    owner_id: str
    new_count: int = Field(description="The number of references to the tree")
    owner_count: int = Field(description="The references of this owner")


class TreeReleased(Event, summary="{owner_id} released tree {tree_id}, references: {new_count}"):
    """The references to a tree after a release. Without any, the tree is scheduled."""

    tree_id: str
    owner_id: str
    new_count: int = Field(description="The number of references to the tree")
    owner_count: int = Field(description="The references of this owner")


class LifeStep(BaseModel, defer_build=True):
    """One step in the life of a tree."""

    step: str
    at: int
    owner_id: str | None
    count: int | None


class TreeRefs(Event, summary="tree {tree_id}: {state}, references: {ref_count}"):
    """The owners of a tree, and the steps of its life."""

    tree_id: str
    state: Literal["active", "scheduled", "archived", "purged"]
    ref_count: int
    owners: dict[str, int]
    history: list[LifeStep]


class TreeDeleted(Event, summary="deleted tree {tree_id}"):
    """A deleted tree."""

    tree_id: str


class TreeArchived(Event, summary="archived tree {tree_id}"):
    """A tree that is read-only from now on."""

    tree_id: str


class CleanupStep(Event, summary="tree {tree_id}: {step}"):
    """A step that was due for a tree. With `dry_run` it was not taken."""

    tree_id: str
    step: Literal["archived", "purged"]
    since: int = Field(description="The start of the previous state, in seconds")
    dry_run: bool


class CleanupDone(Event, summary="archived: {archived}, purged: {purged}"):
    """The number of steps that were due."""

    archived: int
    purged: int
    dry_run: bool


class RenderedNode(BaseModel, defer_build=True):
    """One line of a rendering."""

    id: str
    short_id: str | None = Field(
        description="The shortest unique end of the id, at least 4 digits, among the nodes of "
        "lane `main` in this tree; null for other lanes"
    )
    parent: str | None
    depth: int
    lane: Lane
    summary: str = Field(
        description="The text, the handle, or the data behind the handle, in one line"
    )
    more: int = Field(description="The number of nodes below this one that are left out")
    created_at: int
    handle: str | None = None
    label: str | None = None
    marks: list[str] | None = Field(
        default=None, description="Names at this node, such as the sessions whose head it is"
    )
    kind: str | None = Field(
        default=None, description="With `resolve`, the kind of the data behind the handle"
    )
    text: str | None = Field(default=None, description="With `resolve`, the text of the data")
    role: str | None = Field(default=None, description="With `resolve`, the role of a message")
    tool_name: str | None = Field(default=None, description="With `resolve`, the called tool")
    tool_use_id: str | None = Field(
        default=None, description="With `resolve`, the id of a tool call, also of its result"
    )
    is_error: bool | None = Field(
        default=None, description="With `resolve`, whether the result of a tool is an error"
    )
    styled: str | None = Field(
        default=None, description="With `style`, the text by a template, if the handle type has one"
    )


class TreeRender(SparseEvent):
    """A tree as text, and as flat nodes, depth first, for clients that draw it themselves."""

    tree_id: str
    title: str | None = Field(
        default=None, description="The first name on the tree, such as the session that began it"
    )
    render: str
    nodes: list[RenderedNode]
    more: int = Field(description="The number of nodes that `nodes` leaves out")


class ExportedTree(Event, tag="tree"):
    """The first line of an export."""

    format: int
    tree_id: str
    owner_id: str
    metadata: dict[str, Any] | None
    root: str
    created_at: int


class ExportedNode(SparseEvent, tag="node"):
    """One node of an export. Parents come before their children, siblings in order."""

    id: str
    parent: str
    lane: Lane
    data: Annotated[TextData | ExternalData, Field(discriminator="type")]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: int


class TreeImported(Event, summary="imported tree {tree_id}, nodes: {nodes}"):
    """An imported tree. `nodes` does not count the root."""

    tree_id: str
    owner_id: str
    nodes: int


class NodeCreated(Event, summary="created node {node_id}: {content}"):
    """A new node. `content` is its text, or its handle."""

    tree_id: str
    node_id: str
    parent: str
    content: str


class NodeData(Event):
    """One node."""

    node: NodeInfo


class NodeFound(Event):
    """The node behind a handle."""

    node_id: str
    node: NodeInfo


class TreeFound(Event):
    """The tree behind a handle, without its nodes."""

    tree_id: str
    tree: TreeInfo


class NodeChildren(SparseEvent):
    """A page of children in order of creation. `next` is as in `tree_data`."""

    tree_id: str
    node_id: str
    children: list[NodeInfo]
    next: str | None = None


class NodeParent(Event):
    """The parent of a node; null for the root."""

    tree_id: str
    node_id: str
    parent: NodeInfo | None


class NodePath(Event):
    """A page of the ids from the root to a node."""

    tree_id: str
    node_id: str
    path: list[str]


class PathBetween(Event):
    """A page of the nodes from one to another, through the last shared node `common`."""

    tree_id: str
    start: str
    end: str
    common: str
    path: list[NodeInfo]


class NodeLabelled(Event, summary="node {node_id}: {label}"):
    """The new label of a node; null if it was removed."""

    tree_id: str
    node_id: str
    label: str | None


class NodeDeleted(Event, summary="deleted nodes: {count}"):
    """A deleted node. `count` includes the nodes below it."""

    tree_id: str
    node_id: str
    count: int


class ContextPath(Event):
    """A page of the nodes from the root to a node."""

    tree_id: str
    node_id: str
    path: list[NodeInfo]


class ContextLeaves(Event):
    """A page of nodes without children."""

    tree_id: str
    leaves: list[str]


class ContextHandles(Event):
    """A page of handles, in the order of the path, or in order of creation."""

    tree_id: str
    handles: list[AnyHandle]


class ContextDiff(Event, summary="shared: {shared}, ahead: {ahead}, behind: {behind}"):
    """The shared part of two paths, and the first page of each branch."""

    tree_id: str
    node_id: str
    other: str
    common: str = Field(description="The last node of both paths")
    shared: int = Field(description="The number of nodes of both paths")
    ahead: int = Field(description="The number of nodes that only the first path has")
    behind: int = Field(description="The number of nodes that only the other path has")
    only_node: list[NodeInfo]
    only_other: list[NodeInfo]
