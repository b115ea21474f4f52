"""A hub with the plugin bash."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.plugins.bash import execution
from hubd.testing import InProcessHub
from tests.plugins.bash.support import bash_hub


@pytest.fixture
async def bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessHub]:
    """A hub whose commands have little time after SIGTERM."""
    monkeypatch.setattr(execution, "TERM_SECONDS", 0.2)
    async with bash_hub(tmp_path) as h:
        yield h
