"""A hub with the plugin web that may fetch from this machine, and a hostile server."""

from collections.abc import AsyncIterator

import pytest

from hubd.plugins.web.plugin import Web
from hubd.testing import InProcessHub, hub
from tests.fakes.hostile_web import HostileWeb, hostile_web


@pytest.fixture
async def server() -> AsyncIterator[HostileWeb]:
    async with hostile_web() as server:
        yield server


@pytest.fixture
async def h() -> AsyncIterator[InProcessHub]:
    async with hub(Web(), settings={"web": {"allow_private": True}}) as h:
        yield h
