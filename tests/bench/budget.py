"""Where the processor time of one call goes: by step, by function, and by thread.

`python -m tests.bench budget [--against COMMIT]`. The daemon samples itself by the plugin
`tests.bench.sampler`. A sample belongs to the innermost function that a step claims. A library's
time, for example pydantic's, therefore counts for the step that called it. The kernel's time
counts for the function that made the system call.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench.clients.process import Side, clients
from tests.bench.servers.daemon import BenchDaemon, daemon, settle
from tests.bench.versions import Version

ROUNDS: Final = 8
CALLS: Final = 6400
PRODUCERS: Final = 64
FUNCTIONS: Final = 15

WAIT: Final = "other threads, or select"
# The beginning of a path below the root, or a function of a library, and its step. The first match
# counts. A file of hubd that no step claims is listed by its name.
STEPS: Final = (
    ("selectors.py:", WAIT),
    ("asyncio/selector_events.py:_SelectorSocketTransport._read", "socket read"),
    ("asyncio/selector_events.py:_SelectorSocketTransport", "socket write"),
    ("asyncio/", "event loop"),
    ("hubd/rpc/frames.py", "frame split"),
    ("hubd/rpc/client_protocol.py", "frame split"),
    ("hubd/rpc/websocket.py", "frame split"),
    ("hubd/rpc/inbox.py", "frame split"),
    ("hubd/rpc/deadline.py", "frame split"),
    ("hubd/wire/limits.py", "parse"),
    ("hubd/plexus/params/large.py", "parse"),
    ("hubd/wire/jsonrpc.py:item_notification", "splice"),
    ("hubd/wire/envelope.py", "splice"),
    ("hubd/wire/jsonrpc.py", "session"),
    ("hubd/rpc/session.py", "session"),
    ("hubd/rpc/connection.py:_Subscriber", "splice"),
    ("hubd/rpc/connection.py", "task"),
    ("hubd/rpc/calls.py", "task"),
    ("hubd/rpc/running.py", "task"),
    ("hubd/wire/caller.py", "task"),
    ("hubd/plexus/hub.py", "look up"),
    ("hubd/plexus/grants.py", "look up"),
    ("hubd/plexus/namespace.py", "look up"),
    ("hubd/plexus/universal.py", "look up"),
    ("hubd/plexus/params/", "validate"),
    ("hubd/plexus/dispatch.py:validate", "validate"),
    ("hubd/plexus/dispatch.py", "dispatch"),
    ("hubd/plexus/unawaited.py", "dispatch"),
    ("hubd/plexus/turns.py", "dispatch"),
    ("hubd/activation/event.py", "encode"),
    ("hubd/plexus/encode.py", "encode"),
    ("hubd/wire/item.py", "encode"),
    ("hubd/wire/values.py", "encode"),
    ("hubd/wire/handle.py", "events and handles"),
    ("hubd/activation/", "events and handles"),
    ("hubd/rpc/outbox.py", "write"),
    ("hubd/rpc/flushes.py", "write"),
    ("hubd/storage/", "storage"),
    ("hubd/plugins/", "method"),
    ("tests/bench/", "method"),
)
# Frames that are below every call and claim nothing.
UNCLAIMED: Final = ("hubd/__main__.py", "hubd/cli.py", "hubd/daemon/", "hubd/app.py")


@dataclass
class Profile:
    """The samples of one version for one kind of call."""

    calls: int = 0
    main_seconds: float = 0.0
    other_seconds: float = 0.0
    steps: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)

    @property
    def microseconds(self) -> float:
        """The processor time of one call."""
        return self.main_microseconds + self.other_microseconds

    @property
    def main_microseconds(self) -> float:
        """The part of the thread of the event loop."""
        return self.main_seconds / max(1, self.calls) * 1e6

    @property
    def other_microseconds(self) -> float:
        """The part of all other threads."""
        return self.other_seconds / max(1, self.calls) * 1e6

    def share_of(self, step: str) -> float:
        """Return the microseconds that a step takes of one call."""
        return self.steps[step] / max(1, self.steps.total()) * self.microseconds

    def add(self, stacks: Sequence[Sequence[Any]], root: Path) -> None:
        """Count some stacks, each with its count before its frames."""
        for count, *frames in stacks:
            step, function = claim([(file, name) for file, name in frames], root)
            self.steps[step] += count
            self.functions[function] += count


def claim(frames: Sequence[tuple[str, str]], root: Path) -> tuple[str, str]:
    """Return the step of a stack and the function that it is counted for."""
    for file, name in frames:
        function = f"{_short(file, root)}:{name}"
        for beginning, step in STEPS:
            if function.startswith(beginning):
                return step, function
        if function.startswith("hubd/") and not function.startswith(UNCLAIMED):
            return function.partition(":")[0], function
    return "other", "other"


def _short(file: str, root: Path) -> str:
    """Return a path below the root of the version, or below the library's directory."""
    path = Path(file)
    if path.is_relative_to(root):
        # Version 0.1.0 had another name for the folder.
        return str(path.relative_to(root)).replace("hubd/transport/", "hubd/rpc/")
    return f"asyncio/{path.name}" if path.parent.name == "asyncio" else path.name


async def show(versions: Sequence[Version], scratch: Path, rounds: int) -> None:
    """Measure and print."""
    for title, kind in (
        ("echo.once over WebSocket, 16 in flight", "echo"),
        ("one durable event over WebSocket, 64 producers", "push"),
    ):
        profiles = await _profiles(versions, scratch / kind, kind, rounds)
        print(f"\n{title}: µs of the daemon's processor time per call")
        _print(profiles)


async def _profiles(
    versions: Sequence[Version], directory: Path, kind: str, rounds: int
) -> dict[str, Profile]:
    producers = PRODUCERS if kind == "push" else 1
    async with AsyncExitStack() as stack:
        running: list[tuple[BenchDaemon, Side, Profile]] = []
        for version in versions:
            home = directory / version.name
            plugins = ("pusher:Pusher", "sampler:Sampler")
            hub = stack.enter_context(daemon(version, home, *plugins))
            begun = await hub.events("pusher.begin", count=PRODUCERS)
            address = {**hub.address, "streams": [event["stream"] for event in begun]}
            address |= {"transport": "websocket", "in_flight": 16}
            starting = clients(f"tests.bench.clients.hub:{kind}", address, producers)
            running.append((hub, await stack.enter_async_context(starting), Profile()))
        await settle()
        for number in range(rounds + 1):
            for hub, side, profile in running:
                await _round(hub, side, profile if number else Profile())
    return {hub.version.name: profile for hub, _, profile in running}


async def _round(hub: BenchDaemon, side: Side, profile: Profile) -> None:
    await hub.events("sampler.start")
    before = _thread_seconds(hub.pid)
    profile.calls += await side.work(CALLS)
    after = _thread_seconds(hub.pid)
    [told] = await hub.events("sampler.stop")
    profile.main_seconds += after[hub.pid] - before[hub.pid]
    others = [thread for thread in after if thread != hub.pid]
    profile.other_seconds += sum(after[thread] - before.get(thread, 0.0) for thread in others)
    profile.add(told["stacks"], hub.version.root)


def _thread_seconds(pid: int) -> dict[int, float]:
    """Return the processor time of each thread."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return {int(file.parent.name): int(file.read_text().split()[0]) / 1e9 for file in files}


def _print(profiles: Mapping[str, Profile]) -> None:
    names = list(profiles)
    print(f"  {'step':<40}" + "".join(f"{name:>12}" for name in names))
    steps = {step for profile in profiles.values() for step in profile.steps}
    first = profiles[names[0]]
    for step in sorted(steps, key=lambda each: -first.share_of(each)):
        shares = "".join(f"{profile.share_of(step):>12.1f}" for profile in profiles.values())
        print(f"  {step:<40}{shares}")
    for title, values in (
        ("sum", [each.microseconds for each in profiles.values()]),
        ("  of the main thread", [each.main_microseconds for each in profiles.values()]),
        ("  of other threads", [each.other_microseconds for each in profiles.values()]),
    ):
        print(f"  {title:<40}" + "".join(f"{value:>12.1f}" for value in values))
    samples = [each.steps.total() for each in profiles.values()]
    # The standard error of a share of 10 %.
    error = (0.1 * 0.9 / max(1, min(samples))) ** 0.5
    counts = " and ".join(f"{count:,}" for count in samples)
    print(f"  (from {counts} samples: a step of 10 % has a standard error of {error:.1%})")
    for name, profile in profiles.items():
        print(f"  functions of {name}")
        for function, count in profile.functions.most_common(FUNCTIONS):
            part = count / profile.steps.total() * profile.microseconds
            print(f"    {part:>6.1f}  {function}")
