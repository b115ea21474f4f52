"""The base of all parts of loopback."""

from hubd.activation import Activation


class LoopbackBase(Activation):
    """State that the parts of loopback share."""
