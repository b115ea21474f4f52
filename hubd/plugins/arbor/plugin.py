"""arbor: the plugin, put together from its parts."""

from hubd.plugins.arbor.base import VERSION
from hubd.plugins.arbor.contexts import Contexts
from hubd.plugins.arbor.holding import Holding
from hubd.plugins.arbor.nodes import Nodes
from hubd.plugins.arbor.trees import Trees


class Arbor(Trees, Holding, Nodes, Contexts, namespace="arbor", version=VERSION):
    """Conversations as branching trees of text and handles.

    A tree is held by its owners; one that nobody holds is archived after a week and removed
    after another month. Nodes never change, so a branch costs one node and nothing is copied.
    """
