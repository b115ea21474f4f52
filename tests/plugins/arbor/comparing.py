"""Whether the real trees look as the model says, from every side."""

from tests.plugins.arbor.by_storage import Storage
from tests.plugins.arbor.forest import BOTH, EVENTS, MAIN, Forest, Tree
from tests.plugins.arbor.over_wire import Wire
from tests.plugins.arbor.steps import Step
from tests.plugins.arbor.system import System

LANES = (MAIN, EVENTS, BOTH)


async def compare(forest: Forest, system: System, step: Step) -> None:
    """All trees from outside, and everything about the tree that the step was about."""
    expected = {
        tree.id: {
            "tree_id": tree.id,
            "owner_id": tree.holder,
            "ref_count": sum(tree.owners.values()),
            "owners": tree.owners,
            "metadata": tree.metadata,
            "state": tree.state,
            "root": tree.root,
        }
        for tree in forest.there()
    }
    trees = await system.trees()
    assert {entry["tree_id"]: entry for entry in trees} == expected
    assert len(trees) == len(expected)
    # Trees of one state come in the order in which they were made.
    for state in ("active", "scheduled", "archived"):
        listed = [entry["tree_id"] for entry in trees if entry["state"] == state]
        assert listed == [tree.id for tree in forest.there() if tree.state == state]
    everyone = list(forest.trees.values())
    tree = everyone[step.tree % len(everyone)]
    assert await system.history(tree.id) == tree.history
    if tree.state != "gone":
        await compare_tree(tree, system, step)


async def compare_tree(tree: Tree, system: System, step: Step) -> None:
    """One tree, along two of its nodes."""
    nodes = list(tree.nodes)
    one, other = nodes[step.node % len(nodes)], nodes[step.choice % len(nodes)]
    for lanes in LANES:
        views = await system.whole(tree.id, lanes)
        assert views == tree.seen(lanes), "nodes come in the order in which they were created"
        shallow = await system.whole(tree.id, lanes, 2)
        assert shallow == [view for view in views if view.depth <= 2]
        leaves = await system.leaves(tree.id, lanes)
        assert len(leaves) == len(set(leaves))
        assert set(leaves) == tree.leaves(lanes)
        for node in nodes:
            assert await system.children(tree.id, node, lanes) == tree.children(node, lanes)
        path = tree.shown(tree.path(one), lanes)
        assert await system.path(tree.id, one, lanes) == [tree.nodes[node] for node in path]
        for start, end in ((one, other), (other, one)):
            way = tree.shown(tree.between(start, end), lanes)
            walked = await system.between(tree.id, start, end, lanes)
            assert walked == [tree.nodes[node] for node in way]
    for node in nodes:
        assert await system.parent(tree.id, node) == tree.nodes[node].parent
    common = tree.common(one, other)
    shared = len(tree.path(common))
    ahead, behind = (len(tree.path(node)) - shared for node in (one, other))
    assert await system.diff(tree.id, one, other) == (common, shared, ahead, behind)
    lines = await system.export(tree.id)
    assert [line["id"] for line in lines[1:]] == [node for node in nodes if node != tree.root]
    if isinstance(system, Storage):
        await _compare_pages(tree, system, step)
    if isinstance(system, Wire):
        await _compare_words(tree, system, step)


async def _compare_pages(tree: Tree, system: Storage, step: Step) -> None:
    """Wherever a page ends, the whole is the same, and can be taken up again."""
    page, system.page = system.page, 1 + step.choice % 3
    for lanes in LANES:
        views = await system.whole(tree.id, lanes)
        assert views == tree.seen(lanes)
        system.page = page
        assert await system.whole(tree.id, lanes) == views
        system.page = 1 + step.choice % 3
        if views:
            number = step.node % len(views)
            assert await system.after(tree.id, views[number].id, lanes) == views[number + 1 :]
        assert await system.count(tree.id, lanes) == len(views)
        last, depth = list(tree.nodes)[step.node % len(tree.nodes)], step.choice % 5
        assert await system.left_out(tree.id, last, depth, lanes) == tree.left_out(
            last, depth, lanes
        )
    system.page = page


async def _compare_words(tree: Tree, system: Wire, step: Step) -> None:
    """Handles and renderings, which are the plugin's own."""
    node = list(tree.nodes)[step.node % len(tree.nodes)]
    for lanes in LANES:
        whole = [view.id for view in await system.whole(tree.id, lanes)]
        assert await system.handles(tree.id, None, lanes) == tree.handles(whole)
        path = tree.shown(tree.path(node), lanes)
        assert await system.handles(tree.id, node, lanes) == tree.handles(path)
        for depth in (0, 2, 200):
            render, more = await system.drawing(tree.id, lanes, depth)
            assert render == tree.drawing(lanes, depth)
            assert more == len([view for view in tree.seen(lanes) if view.depth > depth])
