"""solar: the solar system as a tree of hubs, to see nesting, paths and handles at work."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from hubd.activation import Activation, Event, Handle, NotFound, method, resolver


class BodyRef(Handle, method="info", kind="document", summary="{name}, {body_type}"):
    """Points at one body of the solar system."""

    body: str


class Body(Event):
    """The figures of one body. Distances and periods are of its orbit around its parent."""

    name: str
    body_type: str
    parent: str | None
    mass_kg: float
    mean_radius_km: float
    orbit_km: float | None
    period_days: float | None
    moons: list[str]
    handle: BodyRef


@dataclass(frozen=True)
class Facts:
    """What is known of a body."""

    name: str
    mass_kg: float
    mean_radius_km: float
    orbit_km: float | None = None
    period_days: float | None = None
    moons: tuple["Facts", ...] = ()

    @property
    def namespace(self) -> str:
        """The name as a segment of a path."""
        return self.name.lower()


class Celestial(Activation, version="1.0.0"):
    """One body of the solar system, with its moons below it."""

    mcp_on_request = True

    def __init__(self, facts: Facts, body_type: str, parent: str | None) -> None:
        self.namespace = facts.namespace
        self._facts = facts
        self._body_type = body_type
        self._parent = parent
        self.description = f"{facts.name}, a {body_type} of {parent}" if parent else facts.name

    def children(self) -> Iterable[Activation]:
        """The moons."""
        return [Celestial(moon, "moon", self._facts.name) for moon in self._facts.moons]

    @method(streaming=False, read_only=True)
    async def info(self) -> AsyncIterator[Body]:
        """The figures of this body."""
        yield self.describe()

    @resolver
    async def body(self, handle: BodyRef) -> AsyncIterator[Body]:
        """Read the figures back."""
        if handle.body != self._facts.namespace:
            raise NotFound(f"{self.path} is not '{handle.body}'")
        yield self.describe()

    def describe(self) -> Body:
        """The event about this body."""
        facts = self._facts
        return Body(
            name=facts.name,
            body_type=self._body_type,
            parent=self._parent,
            mass_kg=facts.mass_kg,
            mean_radius_km=facts.mean_radius_km,
            orbit_km=facts.orbit_km,
            period_days=facts.period_days,
            moons=[moon.name for moon in facts.moons],
            handle=BodyRef(body=facts.namespace).at(self.origin),
        )


class Solar(Celestial, namespace="solar", version="1.0.0"):
    """The solar system: the Sun, the planets below it, their larger moons below them."""

    def __init__(self) -> None:
        super().__init__(SUN, "star", None)
        self.namespace, self.description = type(self).namespace, type(self).description
        self._planets = [Celestial(planet, "planet", SUN.name) for planet in PLANETS]

    def children(self) -> Iterable[Activation]:
        """The planets."""
        return self._planets

    @method(read_only=True, render="table")
    async def observe(self) -> AsyncIterator[Body]:
        """Look at the planets, from the innermost outwards."""
        for planet in self._planets:
            yield planet.describe()


# Masses and mean radii; semi-major axes in km; sidereal orbital periods in days.
SUN = Facts("Sun", 1.98841e30, 695_700.0)
PLANETS = (
    Facts("Mercury", 3.3011e23, 2_439.7, 57_909_050.0, 87.9691),
    Facts("Venus", 4.8675e24, 6_051.8, 108_208_000.0, 224.701),
    Facts(
        "Earth",
        5.9722e24,
        6_371.0,
        149_598_023.0,
        365.256363,
        (Facts("Luna", 7.346e22, 1_737.4, 384_399.0, 27.321661),),
    ),
    Facts(
        "Mars",
        6.4171e23,
        3_389.5,
        227_939_366.0,
        686.980,
        (
            Facts("Phobos", 1.060e16, 11.08, 9_376.0, 0.318910),
            Facts("Deimos", 1.51e15, 6.27, 23_463.2, 1.263),
        ),
    ),
    Facts(
        "Jupiter",
        1.8982e27,
        69_911.0,
        778_479_000.0,
        4_332.59,
        (
            Facts("Io", 8.931938e22, 1_821.6, 421_700.0, 1.769138),
            Facts("Europa", 4.79984e22, 1_560.8, 670_900.0, 3.551181),
            Facts("Ganymede", 1.4819e23, 2_634.1, 1_070_400.0, 7.154553),
            Facts("Callisto", 1.075938e23, 2_410.3, 1_882_700.0, 16.689018),
        ),
    ),
    Facts(
        "Saturn",
        5.6834e26,
        58_232.0,
        1_433_530_000.0,
        10_759.22,
        (
            Facts("Mimas", 3.75e19, 198.2, 185_539.0, 0.942),
            Facts("Enceladus", 1.0802e20, 252.1, 237_948.0, 1.370218),
            Facts("Tethys", 6.1749e20, 531.1, 294_619.0, 1.887802),
            Facts("Dione", 1.095452e21, 561.4, 377_396.0, 2.736915),
            Facts("Rhea", 2.306518e21, 763.8, 527_108.0, 4.518212),
            Facts("Titan", 1.3452e23, 2_574.73, 1_221_870.0, 15.945),
            Facts("Iapetus", 1.805635e21, 734.5, 3_560_820.0, 79.3215),
        ),
    ),
    Facts(
        "Uranus",
        8.6810e25,
        25_362.0,
        2_870_972_000.0,
        30_688.5,
        (
            Facts("Miranda", 6.59e19, 235.8, 129_390.0, 1.413479),
            Facts("Ariel", 1.251e21, 578.9, 191_020.0, 2.520),
            Facts("Umbriel", 1.275e21, 584.7, 266_000.0, 4.144),
            Facts("Titania", 3.4e21, 788.4, 435_910.0, 8.706234),
            Facts("Oberon", 3.076e21, 761.4, 583_520.0, 13.463234),
        ),
    ),
    Facts(
        "Neptune",
        1.02409e26,
        24_622.0,
        4_500_000_000.0,
        60_195.0,
        (Facts("Triton", 2.1390e22, 1_353.4, 354_759.0, 5.876854),),
    ),
)
