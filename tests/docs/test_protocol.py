"""docs/protocol.md shows the messages, items, questions and limits of the code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from hubd.page.login import NOT_AUTHENTICATED
from hubd.page.socket import CLOSE_CODE, LOGIN_SECONDS, MAX_STRANGERS
from hubd.rpc.clients import MAX_CLIENTS
from hubd.rpc.connection import MAX_UNSENT_BYTES
from hubd.wire import item as items
from hubd.wire.item import ANSWERS, EXIT_CODES
from hubd.wire.limits import (
    LARGE_BYTES,
    MAX_DEPTH,
    MAX_MESSAGE_MIB,
    MAX_SHARES,
    MESSAGE_SECONDS,
    MIB,
    RPC_COUNTS,
)
from hubd.wire.schema import Annotations
from hubd.wire.summary import KEYWORDS
from tests.page.support import new_code, page
from tests.support import Daemon, LineClient

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text()
WORDS = " ".join(PAGE.split())
# The exchanges of the page. A line that begins with `→` is a request, one with `←` its replies.
CALL, QUESTION, CONTEXT, LOGIN = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
METADATA = items.Stamp(("plexus", "x", "y"), "0" * 16).metadata()


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    with Daemon(home, "--plugin", "tests.sample_plugins.trouble:Trouble") as running:
        yield running


def lines(block: str, arrow: str) -> list[str]:
    return [line.removeprefix(arrow).strip() for line in block.splitlines() if line[:1] == arrow]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table whose first heading this is."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([A-Za-z_]+)", cell)


async def send(client: LineClient, request: dict[str, Any]) -> None:
    client.writer.write(json.dumps(request).encode() + b"\n")
    await client.writer.drain()


async def test_a_call_has_the_messages_of_the_page(daemon: Daemon) -> None:
    [request] = lines(CALL, "→")
    async with daemon.client() as client:
        await send(client, json.loads(request))
        reply, *notified = [await client.receive() for _ in lines(CALL, "←")]
    expected, *patterns = lines(CALL, "←")
    assert reply == {**json.loads(expected), "result": reply["result"]}
    for message, pattern in zip(notified, patterns, strict=True):
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        subscription = f'"subscription":{reply["result"]}'
        parts = pattern.replace('"subscription":7', subscription).split("…")
        assert re.fullmatch(".*".join(map(re.escape, parts)), text), text


def test_the_page_logs_in_with_the_messages_of_the_page(daemon: Daemon) -> None:
    [request], [reply] = lines(LOGIN, "→"), lines(LOGIN, "←")
    with page(daemon) as opened:
        opened.connection.send(request.replace("CODE", new_code(daemon)))
        text = opened.connection.recv()
        key = json.loads(text)["result"]["key"]
        assert text == reply.replace("KEY", key)
    assert f"{LOGIN_SECONDS:g} seconds without a message" in WORDS
    assert f"the error {NOT_AUTHENTICATED} and the WebSocket code {CLOSE_CODE}" in WORDS
    assert f"the newest {MAX_STRANGERS} stay open" in WORDS


async def test_a_question_is_answered_with_the_messages_of_the_page(daemon: Daemon) -> None:
    [request] = lines(QUESTION, "→")
    asked, answered = lines(QUESTION, "←")
    async with daemon.client() as client:
        await client.send("trouble.ask_confirm", {"wait": 30.0})
        await client.receive()
        question = (await client.receive())["params"]["result"]
        event = json.loads(asked.partition('"result":')[2])
        assert question == {
            **event,
            "requestId": question["requestId"],
            "metadata": question["metadata"],
        }
        await send(client, json.loads(request.replace('"R"', f'"{question["requestId"]}"')))
        replies = [await client.receive() for _ in range(2)]
    assert json.loads(answered) in replies


def test_the_example_of_a_caller_context_is_a_call() -> None:
    [request] = lines(CONTEXT, "→")
    params = json.loads(request.replace("{…}", "{}"))["params"]
    assert set(params) == {"method", "params", "context"}
    assert set(params["context"]) == {"cwd", "env"}


def test_the_table_of_items_has_every_item_with_its_fields() -> None:
    documented = {names(kind)[0]: set(names(fields)) for kind, fields in rows("type")}
    for kind in get_args(items.Item):
        encoded = json.loads(example(kind).encode())
        assert "metadata" in encoded
        assert encoded["type"] in documented, "the table lacks an item"
        fields = documented.pop(encoded["type"]) - {"type"}
        assert fields == set(encoded) - {"type", "metadata"}, encoded["type"]
    assert documented == {}
    assert "All items have `metadata {provenance, plexus_hash, timestamp}`" in WORDS


def example(kind: type[items.Item]) -> items.Item:
    """Return an item of a type, with all its fields."""
    values = {bytes: b"{}", str: "x", int: 1, bool: True, float | None: 1.0}
    fields = {name: values.get(hint) for name, hint in get_type_hints(kind).items()}
    return kind(**{**fields, "metadata": METADATA})  # type: ignore[arg-type]


def test_the_table_of_error_codes_is_the_one_in_the_code() -> None:
    documented = {
        code: int(status) for codes, status in rows("error codes") for code in names(codes)
    }
    assert documented == EXIT_CODES


def test_the_tables_of_schemas_have_every_annotation_and_keyword() -> None:
    listed = {name for cells in rows("annotation") for name in names(cells[0])}
    assert listed == Annotations.__annotations__.keys()
    assert {cells[0].strip("`") for cells in rows("keyword")} == set(KEYWORDS)


def test_the_table_of_questions_has_every_kind_with_its_answer() -> None:
    documented = {}
    for kind, _, answer in rows("question"):
        example = json.loads(answer.strip("`").replace("…}", '"…"}'))
        [field] = set(example) - {"type"}
        documented[names(kind)[0]] = (example["type"], field)
    assert documented == ANSWERS


def test_the_limits_are_the_ones_in_the_code() -> None:
    assert f"at most {MAX_MESSAGE_MIB} MiB" in WORDS
    for count in RPC_COUNTS:
        assert f"{count:,}" in WORDS
    assert f"{MAX_DEPTH} levels" in WORDS
    assert MAX_SHARES == 2
    assert "Only two of the three counts" in WORDS
    assert f"checked above {LARGE_BYTES // 1024} KiB" in WORDS
    assert MESSAGE_SECONDS == 60
    assert "one minute after its first byte" in WORDS
    assert f"while {MAX_UNSENT_BYTES // MIB} MiB of its items is unsent" in WORDS
    assert f"has {MAX_CLIENTS} connections" in WORDS
