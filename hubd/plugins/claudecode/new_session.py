"""Making a session: a name, a place in a tree, and the reference that holds the tree."""

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.methods.base import now
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.database import Tx


def new_session(
    tx: Tx,
    name: str,
    working_dir: str,
    options: str,
    tree_id: str | None = None,
    node_id: str | None = None,
) -> store.SessionRow:
    """A session that holds its tree: the one that is given, else one of its own.

    Raises:
        Conflict: The name is taken, or the tree is archived.
        NotFound: There is no such tree, or no such node in it.
    """
    session_id = ids.uuid4()
    owner = store.owner_of(session_id)
    if tree_id is None:
        held = tree.create(tx, owner, now())
    else:
        held = tree.writable(tx, tree_id)
        references.claim(tx, held, owner, 1, now())
    return store.create_session(
        tx,
        name=name,
        head=tree.place(tx, held, node_id),
        working_dir=working_dir,
        options=options,
        now=now(),
        session_id=session_id,
    )
