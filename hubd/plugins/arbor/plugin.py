"""arbor: the plugin, with its methods in the order of the help."""

from hubd.plugins.arbor.lifecycle import Lifecycle
from hubd.plugins.arbor.nodes import Nodes
from hubd.plugins.arbor.paths import Paths
from hubd.plugins.arbor.search import Searched
from hubd.plugins.arbor.trees import Trees


class Arbor(Trees, Nodes, Paths, Lifecycle, Searched, namespace="arbor", version="1.0.0"):
    """Conversations as branching trees of text and handles.

    A tree has owners. A tree without owners is archived after a week, and removed after another
    month. Nodes never change, so a branch costs one node and nothing is copied.
    """
