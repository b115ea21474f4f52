"""The plugin loopback: its parts in the order of its help."""

from hubd.plugins.loopback.methods.rules import Rules
from hubd.plugins.loopback.tables import MIGRATIONS


class Loopback(Rules, namespace="loopback", version="1.0.0"):
    """Approvals: rules that decide the tool calls of agents."""

    migrations = MIGRATIONS
