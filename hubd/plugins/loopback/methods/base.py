"""The base of all parts of loopback."""

from functools import cached_property
from typing import Final

from hubd.activation import Activation, Actor, PermissionDenied
from hubd.plugins.loopback.answering import Answering
from hubd.plugins.loopback.asking import Asking
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
    def asking(self) -> Asking:
        """Asks for approvals."""
        return Asking(self.db, self.host, self.settings(Settings))

    @cached_property
    def answering(self) -> Answering:
        """Answers approvals."""
        return Answering(self.db)
