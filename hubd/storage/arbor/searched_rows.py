"""The rows of trees and nodes for the search."""

from typing import Final

TREES: Final = "SELECT key, id, metadata, state, created_at FROM arbor_trees"
# Nodes of a removed tree stay for a while, without a row of their tree.
NODES: Final = """
    SELECT n.key, n.id, n.text, n.label, n.lane, n.created_at, t.id AS tree_id, t.state
    FROM arbor_nodes AS n LEFT JOIN arbor_trees AS t ON t.key = n.tree
"""
