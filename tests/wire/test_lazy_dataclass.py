"""A dataclass that generates its methods with its first object."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, field, is_dataclass, replace

import pytest

from hubd.wire.lazy_dataclass import dataclass


def test_objects_behave_as_those_of_a_dataclass() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)

    point = Point(1)
    assert point == Point(x=1, y=2, names=["other"])
    assert hash(point) == hash(Point(1))
    assert repr(point).endswith("Point(x=1, y=2, names=[])")
    assert replace(point, x=5).x == 5
    assert asdict(point) == {"x": 1, "y": 2, "names": []}
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


def test_a_class_inherits_the_fields_of_its_base() -> None:
    @dataclass
    class Base:
        x: int

    @dataclass(kw_only=True)
    class Below(Base):
        y: int

        def __post_init__(self) -> None:
            self.total = self.x + self.y

    class Plain(Below):
        pass

    assert Below(1, y=2).total == 3
    assert Plain(2, y=3).total == 5
    assert Base(1) == Base(1)


def test_the_methods_are_generated_with_the_first_object() -> None:
    @dataclass
    class Point:
        x: int

    assert not is_dataclass(Point)
    Point(1)
    assert is_dataclass(Point)
    first = Point.__init__
    Point(2)
    assert Point.__init__ is first


def test_threads_may_create_the_first_object_at_the_same_time() -> None:
    for _ in range(20):

        @dataclass(frozen=True)
        class Point:
            x: int

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(Point, [1] * 8)) == [Point(1)] * 8
