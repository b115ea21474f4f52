"""solar: the solar system as a tree of hubs, a demonstration of nesting, paths and handles."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from hubd.activation import Activation, Event, Handle, NotFound, method, resolver


class BodyRef(Handle, method="info", kind="document", summary="{name}, {body_type}"):
    """The handle of one body of the solar system."""

    body: str


class Body(Event, summary="{name}, {body_type}"):
    """The data of one body. Distance and period are of its orbit around its parent."""

    name: str
    body_type: str
    parent: str | None
    mass_kg: float
    mean_radius_km: float
    orbit_km: float | None
    period_days: float | None
    moons: list[str]
    handle: BodyRef


class BodyData(NamedTuple):
    """The data of a body and of its moons."""

    name: str
    mass_kg: float
    mean_radius_km: float
    orbit_km: float | None = None
    period_days: float | None = None
    moons: tuple["BodyData", ...] = ()

    @property
    def namespace(self) -> str:
        """Return the name as a segment of a path."""
        return self.name.lower()


class Celestial(Activation, version="1.0.0"):
    """One body of the solar system, with its moons below it."""

    mcp_on_request = True

    def __init__(self, data: BodyData, body_type: str, parent: str | None) -> None:
        self.namespace = data.namespace
        self._data = data
        self._body_type = body_type
        self._parent = parent
        self.description = f"{data.name}, a {body_type} of {parent}" if parent else data.name

    def children(self) -> Iterable[Activation]:
        """Return the moons."""
        return [Celestial(moon, "moon", self._data.name) for moon in self._data.moons]

    @method(read_only=True)
    async def info(self) -> Body:
        """Show the data of this body."""
        return self.describe()

    @resolver
    async def body(self, handle: BodyRef) -> Body:
        """Read the data of this body."""
        if handle.body != self._data.namespace:
            raise NotFound(f"{self.path} is not '{handle.body}'")
        return self.describe()

    def describe(self) -> Body:
        """Return the event with the data of this body."""
        data = self._data
        return Body(
            name=data.name,
            body_type=self._body_type,
            parent=self._parent,
            mass_kg=data.mass_kg,
            mean_radius_km=data.mean_radius_km,
            orbit_km=data.orbit_km,
            period_days=data.period_days,
            moons=[moon.name for moon in data.moons],
            handle=BodyRef(body=data.namespace).at(self.origin),
        )


class Solar(Celestial, namespace="solar", version="1.0.0"):
    """The solar system: the Sun with its planets, and the planets with their larger moons."""

    def __init__(self) -> None:
        super().__init__(SUN, "star", None)
        self.namespace, self.description = type(self).namespace, type(self).description
        self._planets = [Celestial(planet, "planet", SUN.name) for planet in PLANETS]

    def children(self) -> Iterable[Activation]:
        """Return the planets."""
        return self._planets

    @method(read_only=True, render="table")
    async def observe(self) -> AsyncIterator[Body]:
        """List the planets, from the innermost to the outermost."""
        for planet in self._planets:
            yield planet.describe()


# Masses and mean radii; semi-major axes in km; sidereal orbital periods in days.
SUN = BodyData("Sun", 1.98841e30, 695_700.0)
PLANETS = (
    BodyData("Mercury", 3.3011e23, 2_439.7, 57_909_050.0, 87.9691),
    BodyData("Venus", 4.8675e24, 6_051.8, 108_208_000.0, 224.701),
    BodyData(
        "Earth",
        5.9722e24,
        6_371.0,
        149_598_023.0,
        365.256363,
        (BodyData("Luna", 7.346e22, 1_737.4, 384_399.0, 27.321661),),
    ),
    BodyData(
        "Mars",
        6.4171e23,
        3_389.5,
        227_939_366.0,
        686.980,
        (
            BodyData("Phobos", 1.060e16, 11.08, 9_376.0, 0.318910),
            BodyData("Deimos", 1.51e15, 6.27, 23_463.2, 1.263),
        ),
    ),
    BodyData(
        "Jupiter",
        1.8982e27,
        69_911.0,
        778_479_000.0,
        4_332.59,
        (
            BodyData("Io", 8.931938e22, 1_821.6, 421_700.0, 1.769138),
            BodyData("Europa", 4.79984e22, 1_560.8, 670_900.0, 3.551181),
            BodyData("Ganymede", 1.4819e23, 2_634.1, 1_070_400.0, 7.154553),
            BodyData("Callisto", 1.075938e23, 2_410.3, 1_882_700.0, 16.689018),
        ),
    ),
    BodyData(
        "Saturn",
        5.6834e26,
        58_232.0,
        1_433_530_000.0,
        10_759.22,
        (
            BodyData("Mimas", 3.75e19, 198.2, 185_539.0, 0.942),
            BodyData("Enceladus", 1.0802e20, 252.1, 237_948.0, 1.370218),
            BodyData("Tethys", 6.1749e20, 531.1, 294_619.0, 1.887802),
            BodyData("Dione", 1.095452e21, 561.4, 377_396.0, 2.736915),
            BodyData("Rhea", 2.306518e21, 763.8, 527_108.0, 4.518212),
            BodyData("Titan", 1.3452e23, 2_574.73, 1_221_870.0, 15.945),
            BodyData("Iapetus", 1.805635e21, 734.5, 3_560_820.0, 79.3215),
        ),
    ),
    BodyData(
        "Uranus",
        8.6810e25,
        25_362.0,
        2_870_972_000.0,
        30_688.5,
        (
            BodyData("Miranda", 6.59e19, 235.8, 129_390.0, 1.413479),
            BodyData("Ariel", 1.251e21, 578.9, 191_020.0, 2.520),
            BodyData("Umbriel", 1.275e21, 584.7, 266_000.0, 4.144),
            BodyData("Titania", 3.4e21, 788.4, 435_910.0, 8.706234),
            BodyData("Oberon", 3.076e21, 761.4, 583_520.0, 13.463234),
        ),
    ),
    BodyData(
        "Neptune",
        1.02409e26,
        24_622.0,
        4_500_000_000.0,
        60_195.0,
        (BodyData("Triton", 2.1390e22, 1_353.4, 354_759.0, 5.876854),),
    ),
)
