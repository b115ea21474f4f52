"""Short ids: each means its node, and none could be shorter."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hubd.storage import ids
from hubd.storage.arbor import outline, tree
from hubd.storage.arbor.tree import EVENTS, MAIN, TreeRow
from hubd.storage.database import Database, Tx
from tests.support import examples

# Few different digits, so that many ids end alike.
node_ids = st.lists(st.sampled_from("0123"), min_size=8, max_size=8).map(
    lambda digits: bytes.fromhex("019a0000000070008000" + "f" * 4 + "".join(digits))
)


def plant(tx: Tx, main: set[bytes], events: set[bytes]) -> TreeRow:
    """A tree with these nodes in its lanes."""
    tree_row = tree.create(tx, "system", 0)
    root = tree.place(tx, tree_row, None)
    for lane, chosen in ((MAIN, main), (EVENTS, events - main)):
        for node_id in sorted(chosen):
            tree.append(tx, root, tree.text("x"), 0, node_id=node_id, lane=lane)
    return tree_row


@given(st.sets(node_ids, max_size=30), st.sets(node_ids, max_size=10))
@examples(8)
async def test_a_short_id_is_the_shortest_unique_end_of_the_id(
    main: set[bytes], events: set[bytes]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory) / "hub.db") as db:
            oak = await db.transaction(lambda tx: plant(tx, main, events))
            visible = {oak.root_id, *sorted(main)[::2]}
            short_ids = await outline.short_ids(db, oak.key, visible)
            assert short_ids.keys() == visible
            everything = [node_id.hex() for node_id in (oak.root_id, *main)]
            for node_id, short in short_ids.items():
                assert (await tree.look_up_place(db, oak, short)).id == node_id
                assert sum(digits.endswith(short) for digits in everything) == 1
                if len(short) > ids.MIN_ENDING:
                    assert sum(digits.endswith(short[1:]) for digits in everything) > 1
