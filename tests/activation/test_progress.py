"""Progress is reported after the first second, then at most once a second."""

from typing import Any, cast

from hubd.activation import Host, Progress


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Reports:
    """The part of a host that progress uses; a report takes some time to send."""

    def __init__(self, clock: Clock, sending_seconds: float = 0.0) -> None:
        self._clock = clock
        self._sending_seconds = sending_seconds
        self.sent: list[tuple[str, float | None]] = []

    async def progress(self, message: str, percentage: float | None = None) -> None:
        self.sent.append((message, percentage))
        self._clock.seconds += self._sending_seconds


def progress_of(reports: Any, clock: Clock) -> Progress:
    return Progress(cast("Host", reports), "reading rows", clock=clock)


async def test_a_method_that_takes_less_than_a_second_reports_nothing() -> None:
    clock = Clock()
    reports = Reports(clock)
    progress = progress_of(reports, clock)
    for done in range(10):
        clock.seconds += 0.09
        await progress.update(done, 10)
    assert reports.sent == []


async def test_a_longer_method_reports_at_most_once_a_second() -> None:
    clock = Clock()
    reports = Reports(clock)
    progress = progress_of(reports, clock)
    for done in range(1, 41):
        clock.seconds += 0.125
        await progress.update(done, 40)
    assert [percentage for _, percentage in reports.sent] == [20.0, 40.0, 60.0, 80.0, 100.0]
    assert reports.sent[0][0] == "reading rows: 8 of 40"


async def test_without_a_known_total_a_report_has_no_percentage() -> None:
    clock = Clock()
    reports = Reports(clock)
    progress = progress_of(reports, clock)
    clock.seconds += 1
    await progress.update(7)
    assert reports.sent == [("reading rows: 7", None)]


async def test_a_slow_reader_gets_the_next_report_a_second_after_the_last_was_sent() -> None:
    clock = Clock()
    reports = Reports(clock, sending_seconds=5.0)
    progress = progress_of(reports, clock)
    clock.seconds += 1
    await progress.update(1)
    await progress.update(2)
    assert [message for message, _ in reports.sent] == ["reading rows: 1"]
