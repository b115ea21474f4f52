"""Children of three levels come and go at run time, and every client follows."""

from pathlib import Path

import pytest

from hubd.activation import Conflict, HubError, NotFound
from hubd.errors import ActivationNotFound
from hubd.testing import hub
from tests.mcp.support import MODERN, over_http
from tests.sample_plugins.galaxy import Galaxy
from tests.support import McpDaemon
from tests.synapse.support import synapse


async def test_calls_and_hashes_follow_children_of_three_levels() -> None:
    async with hub(Galaxy()) as h:
        hashes = [h.hub.hash]
        await h.call_one("galaxy.add", name="sun")
        hashes.append(h.hub.hash)
        added = await h.call_one("galaxy.sun.add", name="earth")
        hashes.append(h.hub.hash)
        assert added["namespace"] == "galaxy.sun.earth"
        assert (await h.call_one("galaxy.sun.earth.mass"))["earths"] == 1.0
        schema = await h.call_one("galaxy.sun.schema")
        assert [child["namespace"] for child in schema["children"]] == ["earth"]
        assert len(set(hashes)) == 3
        await h.call_one("galaxy.sun.remove", name="earth")
        assert h.hub.hash == hashes[1]
        with pytest.raises(ActivationNotFound):
            await h.call_one("galaxy.sun.earth.mass")
        await h.call_one("galaxy.sun.add", name="earth")
        await h.call_one("galaxy.remove", name="sun")
        assert h.hub.hash == hashes[0]


@pytest.mark.parametrize(
    ("method", "name", "error"),
    [("galaxy.add", "sun", Conflict), ("galaxy.remove", "moon", NotFound)],
)
async def test_a_taken_name_and_a_missing_child_are_errors(
    method: str, name: str, error: type[HubError]
) -> None:
    async with hub(Galaxy()) as h:
        await h.call_one("galaxy.add", name="sun")
        with pytest.raises(error):
            await h.call_one(method, name=name)


async def test_command_line_completion_and_mcp_follow_children(home: Path) -> None:
    def complete(*words: str) -> list[str]:
        result = synapse(*words, "", home=home, _SYNAPSE_COMPLETE="zsh")
        return [line.partition("\t")[0] for line in result.stdout.splitlines()]

    with McpDaemon(home, "--plugin", "tests.sample_plugins.galaxy:Galaxy") as daemon:
        async with over_http(daemon.record["mcp_url"], daemon.token, MODERN) as client:

            async def tools() -> set[str]:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                return {name for name in listed if name.startswith("galaxy.")}

            # The schema without children is in the cache of synapse.
            assert "add" in synapse("galaxy", "--help", home=home).stdout
            assert complete("galaxy") == ["add", "remove"]
            assert await tools() == {"galaxy.add", "galaxy.remove"}
            for words in (
                ("galaxy", "add", "--name", "sun"),
                ("galaxy", "sun", "add", "--name", "earth"),
                ("galaxy", "sun", "earth", "mass"),
            ):
                assert synapse(*words, home=home).returncode == 0, words
            assert complete("galaxy") == ["sun", "add", "remove"]
            assert complete("galaxy", "sun", "earth") == ["mass"]
            assert "galaxy.sun.earth.mass" in await tools()
            synapse("galaxy", "remove", "--name", "sun", home=home)
            missing = synapse("galaxy", "sun", "earth", "mass", home=home)
            assert missing.returncode in (2, 3), missing.stderr
            assert complete("galaxy") == ["add", "remove"]
            assert await tools() == {"galaxy.add", "galaxy.remove"}
