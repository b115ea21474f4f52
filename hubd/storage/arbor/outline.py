"""Arbor: the number of nodes that a drawing leaves out, and short ids of nodes."""

import json
from collections.abc import Collection
from itertools import pairwise
from typing import Final

from hubd.storage import ids
from hubd.storage.arbor.tree import MAIN, TreeRow
from hubd.storage.database import Database


async def left_out(
    db: Database, tree: TreeRow, lanes: frozenset[int], last_key: int, depth: int
) -> dict[tuple[int, int], int]:
    """Count the nodes of these lanes that were created after a node, or are too deep.

    Each is counted at its nearest ancestor that is neither, or at the root if a node of another
    lane is between the two.

    Args:
        db: The database.
        tree: The tree.
        lanes: The lanes to count.
        last_key: The key of the last node that is not left out.
        depth: The depth of the deepest nodes that are not left out.

    Returns:
        The numbers by the segment and depth of these ancestors.
    """
    rows = await db.fetch_rows(_SEGMENTS, tree.key, json.dumps(sorted(lanes)), last_key, depth)
    # For each segment, the place at which its nodes count that are left out.
    places: dict[int, tuple[int, int]] = {}
    counts: dict[tuple[int, int], int] = {}
    # The segment of a parent comes before the segments of its children.
    for segment, size, visible, visible_depth, above_key, above_segment, above_depth in rows:
        if visible:
            place = (segment, visible_depth)
        elif above_segment not in places:
            place = (tree.root, 0)
        elif above_key <= last_key and above_depth <= depth:
            place = (above_segment, above_depth)
        else:
            place = places[above_segment]
        places[segment] = place
        if size > visible:
            counts[place] = counts.get(place, 0) + size - visible
    return counts


async def short_ids(db: Database, tree: int, node_ids: Collection[bytes]) -> dict[bytes, str]:
    """Return the shortest last digits of each id that are unique in lane `main` of the tree.

    Args:
        db: The database.
        tree: The key of the tree.
        node_ids: Ids of nodes of lane `main`.
    """
    endings = sorted({node_id.hex()[-ids.MIN_ENDING :].upper() for node_id in node_ids})
    rows = await db.fetch_rows(_BY_ENDINGS, tree, json.dumps(endings))
    # The digits from the last to the first, sorted: ids that end alike are neighbours.
    backwards = sorted({node_id.hex()[::-1] for (node_id,) in rows})
    lengths = dict.fromkeys(backwards, ids.MIN_ENDING)
    for one, other in pairwise(backwards):
        if one[: ids.MIN_ENDING] == other[: ids.MIN_ENDING]:
            length = 1 + next(
                place for place, pair in enumerate(zip(one, other, strict=True)) if len({*pair}) > 1
            )
            lengths[one] = max(lengths[one], length)
            lengths[other] = max(lengths[other], length)
    wanted = {node_id: node_id.hex() for node_id in node_ids}
    # A node that was deleted meanwhile has no rows.
    return {
        node_id: digits[-lengths[digits[::-1]] :]
        for node_id, digits in wanted.items()
        if digits[::-1] in lengths
    }


_BY_ENDINGS: Final = f"""
    SELECT n.id FROM json_each(?2) AS wanted CROSS JOIN arbor_nodes AS n
        ON n.tree = ?1 AND n.lane = {MAIN} AND substr(hex(n.id), 29) = wanted.value
"""
# Every segment: its size, the number of nodes that stay, and the parent of its first node.
_SEGMENTS: Final = """
    SELECT s.key, count(*), sum(n.key <= ?3 AND n.depth <= ?4),
        max(CASE WHEN n.key <= ?3 AND n.depth <= ?4 THEN n.depth END),
        above.key, above.segment, above.depth
    FROM arbor_nodes AS s CROSS JOIN arbor_nodes AS n ON n.segment = s.key
        LEFT JOIN arbor_nodes AS above ON above.key = s.parent
    WHERE s.tree = ?1 AND s.segment = s.key AND s.lane IN (SELECT value FROM json_each(?2))
    GROUP BY s.key ORDER BY s.key
"""
