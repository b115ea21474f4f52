"""galaxy: a hub of three levels, with children that come and go at run time."""

from hubd.activation import Activation, Event, method


class Changed(Event, summary="{namespace}"):
    namespace: str


class Mass(Event, summary="{earths} earths"):
    earths: float


class Planet(Activation, version="1.0.0"):
    """A planet."""

    def __init__(self, name: str) -> None:
        self.namespace = name

    @method(read_only=True)
    async def mass(self) -> Mass:
        """Return the mass of the planet."""
        return Mass(earths=1.0)


class Adding(Activation):
    """A mixin: the methods of an activation with children."""

    def new_child(self, name: str) -> Activation:
        """Return a child that is not attached yet."""
        raise NotImplementedError

    @method
    async def add(self, name: str) -> Changed:
        """Add a child.

        Args:
            name: Namespace of the child.
        """
        child = self.new_child(name)
        await self.add_child(child)
        return Changed(namespace=child.path)

    @method(destructive=True)
    async def remove(self, name: str) -> Changed:
        """Remove a child and everything below it.

        Args:
            name: Namespace of the child.
        """
        await self.remove_child(name)
        return Changed(namespace=f"{self.path}.{name}")


class Star(Adding, version="1.0.0"):
    """A star with planets."""

    def __init__(self, name: str) -> None:
        self.namespace = name

    def new_child(self, name: str) -> Activation:
        return Planet(name)


class Galaxy(Adding, namespace="galaxy", version="1.0.0"):
    """Stars with planets."""

    def new_child(self, name: str) -> Activation:
        return Star(name)
