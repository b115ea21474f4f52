"""Rows are found by name, by id, or by the beginning of an id, and never by a guess."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.errors import Ambiguous, HubError, NotFound
from hubd.storage import ids
from hubd.storage.database import Database
from hubd.storage.names import Names

NAMES = Names(
    "SELECT p.key, p.id, p.name FROM pets AS p", table="p", thing="pet", advice="list the pets"
)
TOM = bytes.fromhex("aaaaaaaa111141118111111111111111")
TIM = bytes.fromhex("aaaaaaaa222242228222222222222222")
# This name is the id of another row.
ODD = bytes.fromhex("bbbbbbbb333343338333333333333333")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as database:
        await database.execute("CREATE TABLE pets (key INTEGER PRIMARY KEY, id BLOB, name TEXT)")
        for pet_id, name in ((TOM, "Tom"), (TIM, "Tim"), (ODD, ids.text(TOM)), (b"x", "cafecafe")):
            await database.execute("INSERT INTO pets (id, name) VALUES (?, ?)", pet_id, name)
        yield database


async def found(db: Database, named: str, how: str) -> tuple[Any, ...]:
    if how == "read":
        return await NAMES.look_up(db, named)
    return await db.transaction(lambda tx: NAMES.find(tx, named))


@pytest.mark.parametrize("how", ["read", "transaction"])
@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("Tom", "Tom"),
        (ids.text(TIM), "Tim"),
        (ids.text(TIM).upper(), "Tim"),
        (TIM.hex(), "Tim"),
        ("aaaaaaaa-2", "Tim"),
        ("aaaaaaaa2", "Tim"),
        ("bbbbbbbb", ids.text(TOM)),
        (ids.text(TOM), "Tom"),
        ("cafecafe", "cafecafe"),
    ],
)
async def test_a_row_is_found_by_name_id_or_prefix(
    db: Database, named: str, name: str, how: str
) -> None:
    assert (await found(db, named, how))[2] == name


@pytest.mark.parametrize("how", ["read", "transaction"])
@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        ("aaaaaaaa", Ambiguous, "more than one pet has an id that starts with aaaaaaaa"),
        ("aaaaaaa", NotFound, "no pet 'aaaaaaa'"),
        ("tom", NotFound, "no pet 'tom'"),
        ("", NotFound, "no pet ''"),
        ("%", NotFound, "no pet '%'"),
        ("dddddddd", NotFound, "no pet 'dddddddd'"),
    ],
)
async def test_names_without_a_unique_row_are_refused(
    db: Database, named: str, error: type[HubError], message: str, how: str
) -> None:
    with pytest.raises(error) as caught:
        await found(db, named, how)
    assert caught.value.message == message
    if error is Ambiguous:
        assert sorted(caught.value.available) == ["Tim", "Tom"]
