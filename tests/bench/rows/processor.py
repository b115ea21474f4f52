"""Processor time of the daemon for one event of 64 producers, against version 0.1.0."""

from contextlib import AsyncExitStack
from typing import Final

from tests.bench.clients.process import Side, clients
from tests.bench.row import BEFORE, Bench, Missing, Row, Samples, Target
from tests.bench.servers.daemon import BenchDaemon, daemon, settle
from tests.bench.versions import VERSION_0_1_0, UnknownCommit, Version, at_commit

PRODUCERS: Final = 64
EVENTS: Final = 2560
ROUNDS: Final = 11


async def processor_time(bench: Bench) -> Samples:
    """Let 64 producers push to each version, taking turns."""
    try:
        versions = _versions(bench)
    except UnknownCommit as problem:
        raise Missing(str(problem)) from None
    async with AsyncExitStack() as stack:
        running: dict[str, tuple[BenchDaemon, Side]] = {}
        for name, version in versions.items():
            home = bench.directory / f"home-{name}"
            hub = stack.enter_context(daemon(version, home, "pusher:Pusher"))
            begun = await hub.events("pusher.begin", count=PRODUCERS)
            address = {**hub.address, "streams": [event["stream"] for event in begun]}
            starting = clients("tests.bench.clients.hub:push", address, PRODUCERS)
            running[name] = hub, await stack.enter_async_context(starting)
        await settle()
        samples: dict[str, list[float]] = {name: [] for name in running}
        for number in range(bench.rounds_or(ROUNDS) + 1):
            for name in list(running) if number % 2 else reversed(list(running)):
                hub, side = running[name]
                began = hub.processor_seconds()
                events = await side.work(bench.count(EVENTS, PRODUCERS))
                if number:
                    spent = hub.processor_seconds() - began
                    samples[name].append(spent / events * 1e6)
    return Samples(samples)


def _versions(bench: Bench) -> dict[str, Version]:
    now, *old = bench.versions
    versions = {"hub": now, "0.1.0": at_commit(VERSION_0_1_0, bench.directory)}
    return versions | {f"hub{BEFORE}": version for version in old}


ROWS = [
    Row("processor-time", "processor time of the daemon per event, 64 producers",
        "version 0.1.0", Target("<=", 0.6), "µs", processor_time, "hub", "0.1.0"),
]  # fmt: skip
MORE: list[Row] = []
