"""The pipes of a child on either event loop."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from hubd.process.pipes import Pipes


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_may_end_before_its_pipes_are_connected(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> None:
        def pipes() -> Pipes:
            return Pipes(stderr_lines=False, output=None)

        transport, protocol = await asyncio.get_running_loop().subprocess_exec(pipes, "true")
        await protocol.closed.wait()
        late = pipes()
        late.connection_made(transport)
        late.abandon_input()
        transport.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
