"""The base of all parts of loopback."""

from functools import cached_property
from typing import Final

from hubd.activation import Activation
from hubd.plugins.loopback.answering import Answering
from hubd.plugins.loopback.asking import Asking
from hubd.plugins.loopback.settings import Settings

NAMESPACE: Final = "loopback"
# Completion offers the ids of pending approvals.
LIST_PENDING: Final = {"approval_id": f"{NAMESPACE}.pending"}


class LoopbackBase(Activation):
    """State that the parts of loopback share."""

    @cached_property
    def asking(self) -> Asking:
        """Asks for approvals."""
        return Asking(self.db, self.host, self.settings(Settings))

    @cached_property
    def answering(self) -> Answering:
        """Answers approvals."""
        return Answering(self.db)
