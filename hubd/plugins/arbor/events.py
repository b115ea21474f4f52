"""What Arbor's methods yield."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hubd.activation import AnyHandle, Event

Lane = Literal["main", "events"]


def _always_tagged(schema: dict[str, Any]) -> None:
    schema["required"] = ["type", *schema["required"]]


class SparseEvent(Event):
    """An event that leaves out what has a default and would say nothing; its schema says so."""

    model_config = ConfigDict(
        json_schema_serialization_defaults_required=False, json_schema_extra=_always_tagged
    )


class TextData(BaseModel, defer_build=True):
    """A node that holds text."""

    type: Literal["text"]
    content: str


class ExternalData(BaseModel, defer_build=True):
    """A node that points at what a plugin owns."""

    type: Literal["external"]
    handle: AnyHandle


class NodeInfo(BaseModel, defer_build=True):
    """One node. It never changes, but for its label."""

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
    """One tree. `state_since` is when its state began, in seconds."""

    tree_id: str
    owner_id: str | None = Field(
        description="The owner that made the tree, or another if that one released it; null "
        "without owners"
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


class TreeCreated(Event):
    """A tree was made."""

    tree_id: str
    owner_id: str
    metadata: dict[str, Any] | None
    root: str


class TreeData(SparseEvent):
    """A page of a tree; `next` is there while more follows, and is what `after` takes."""

    tree: TreeWithNodes
    next: str | None = None


class TreeSkeleton(SparseEvent):
    """A page of a tree's structure; `next` as in `tree_data`."""

    tree: TreeWithSkeleton
    next: str | None = None


class TreeList(Event):
    """Some trees."""

    trees: list[TreeInfo]


class TreesScheduled(Event):
    """Trees that nobody holds any more, and that will be archived."""

    trees: list[TreeInfo]


class TreesArchived(Event):
    """Trees that can only be read, and that will be removed."""

    trees: list[TreeInfo]


class TreeUpdated(Event):
    """A tree has other metadata now."""

    tree_id: str
    metadata: dict[str, Any] | None


class TreeClaimed(Event):
    """A tree has one more reference, or several."""

    tree_id: str
    owner_id: str
    new_count: int = Field(description="All references to the tree, now")
    owner_count: int = Field(description="Those of this owner")


class TreeReleased(Event):
    """A tree has fewer references; with none it is scheduled for deletion."""

    tree_id: str
    owner_id: str
    new_count: int = Field(description="All references to the tree, now")
    owner_count: int = Field(description="Those of this owner")


class LifeStep(BaseModel, defer_build=True):
    """One step in the life of a tree."""

    step: str
    at: int
    owner_id: str | None
    count: int | None


class TreeRefs(Event):
    """Who holds a tree, and all that became of it."""

    tree_id: str
    state: Literal["active", "scheduled", "archived", "purged"]
    ref_count: int
    owners: dict[str, int]
    history: list[LifeStep]


class TreeDeleted(Event):
    """A tree is gone."""

    tree_id: str


class TreeArchived(Event):
    """A tree can only be read from now on."""

    tree_id: str


class CleanupStep(Event):
    """Something that was due for a tree: it was archived or purged, or would be."""

    tree_id: str
    step: Literal["archived", "purged"]
    since: int = Field(description="Since when it was in the state before, in seconds")
    dry_run: bool


class CleanupDone(Event):
    """All that was due."""

    archived: int
    purged: int
    dry_run: bool


class RenderedNode(BaseModel, defer_build=True):
    """One line of a rendering."""

    id: str
    short_id: str | None = Field(
        description="The shortest end of the id, at least 4 digits, that no other node of lane "
        "`main` in this tree has; null for other lanes"
    )
    parent: str | None
    depth: int
    lane: Lane
    summary: str = Field(description="The text, the handle or what it points at, in one line")
    more: int = Field(description="Nodes below this one that were left out")
    handle: str | None = None
    label: str | None = None


class TreeRender(Event):
    """A tree as text, and as flat nodes, depth first, for a client that draws it itself."""

    tree_id: str
    render: str
    nodes: list[RenderedNode]
    more: int = Field(description="Nodes of the tree that `nodes` leaves out")


class ExportedTree(Event, tag="tree"):
    """The first line of an export."""

    format: int
    tree_id: str
    owner_id: str
    metadata: dict[str, Any] | None
    root: str
    created_at: int


class ExportedNode(SparseEvent, tag="node"):
    """One node of an export; parents come before their children, these in order."""

    id: str
    parent: str
    lane: Lane
    data: Annotated[TextData | ExternalData, Field(discriminator="type")]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: int


class TreeImported(Event):
    """A tree was read in."""

    tree_id: str
    owner_id: str
    nodes: int


class NodeCreated(Event):
    """A node was added. `content` is its text, or its handle."""

    tree_id: str
    node_id: str
    parent: str
    content: str


class NodeData(Event):
    """One node."""

    node: NodeInfo


class NodeChildren(SparseEvent):
    """Children in the order in which they came; `next` is there while more follows."""

    tree_id: str
    node_id: str
    children: list[NodeInfo]
    next: str | None = None


class NodeParent(Event):
    """The parent of a node; the root has none."""

    tree_id: str
    node_id: str
    parent: NodeInfo | None


class NodePath(Event):
    """Ids from the root to a node."""

    tree_id: str
    node_id: str
    path: list[str]


class PathBetween(Event):
    """Nodes from one to another, by the last one that both paths share."""

    tree_id: str
    start: str
    end: str
    common: str
    path: list[NodeInfo]


class NodeLabelled(Event):
    """A node has another name."""

    tree_id: str
    node_id: str
    label: str | None


class NodeDeleted(Event):
    """A node is gone, with all below it."""

    tree_id: str
    node_id: str
    count: int


class ContextPath(Event):
    """Nodes from the root to a node."""

    tree_id: str
    node_id: str
    path: list[NodeInfo]


class ContextLeaves(Event):
    """Nodes without children."""

    tree_id: str
    leaves: list[str]


class ContextHandles(Event):
    """Handles in the order of the path or, of a whole tree, in order of creation."""

    tree_id: str
    handles: list[AnyHandle]


class ContextDiff(Event):
    """What two nodes share, and where they part. Of long branches, a page of each."""

    tree_id: str
    node_id: str
    other: str
    common: str = Field(description="The last node that both have on their path")
    shared: int = Field(description="How many nodes both have on their path")
    ahead: int = Field(description="How many only the first has")
    behind: int = Field(description="How many only the other has")
    only_node: list[NodeInfo]
    only_other: list[NodeInfo]
