"""The base of all parts of loopback."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from hubd.activation import Activation, Actor, PermissionDenied
from hubd.plugins.loopback import answering, asking
from hubd.plugins.loopback.settings import Settings

NAMESPACE: Final = "loopback"
# Completion offers the ids of pending approvals.
LIST_PENDING: Final = {"approval_id": f"{NAMESPACE}.pending"}


class LoopbackBase(Activation):
    """State that the parts of loopback share."""

    def check_person(self) -> Actor:
        """Return the caller, who must be a person: a rule also applies to the agent that adds it.

        Raises:
            PermissionDenied: The caller is an agent.
        """
        actor = self.host.client.actor
        if actor.is_agent:
            raise PermissionDenied(
                "an agent can't change the rules, because they decide its own calls too",
                suggestion="A person can add and remove rules",
            )
        return actor

    @cached_property
    def asking(self) -> asking.Asking:
        """Asks for approvals."""
        return asking.Asking(self.db, self.host, self.settings(Settings))

    @cached_property
    def answering(self) -> answering.Answering:
        """Answers approvals."""
        return answering.Answering(self.db)
