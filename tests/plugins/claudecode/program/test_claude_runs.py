"""The rule for tests that run the real `claude`."""

import pytest

from tests.fakes.agent_process import claude_program

# Each takes a second of processor time.
MOST = 16


def test_only_a_marked_test_gets_the_real_claude() -> None:
    with pytest.raises(AssertionError, match="mark it `claude`, or `soak`"):
        claude_program()


def test_few_tests_run_the_real_claude_by_default(request: pytest.FixtureRequest) -> None:
    marked = [
        item.nodeid
        for item in request.session.items
        if item.get_closest_marker("claude") and not item.get_closest_marker("soak")
    ]
    assert len(marked) <= MOST, "mark some of them `soak`:\n" + "\n".join(marked)
