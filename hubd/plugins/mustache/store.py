"""mustache: all SQL of the plugin, behind functions."""

from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from hubd.activation import Conflict
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.mustache.parser import Variable
from hubd.mustache.template import Template
from hubd.storage.database import Database, Tx

# The text comes last: whoever reads only the other columns does not read it.
MIGRATIONS: Final = (
    """
    CREATE TABLE mustache_templates (
        name TEXT NOT NULL PRIMARY KEY,
        description TEXT NOT NULL,
        variables TEXT NOT NULL, -- JSON: [[name, section, required], …]
        partials TEXT NOT NULL, -- JSON: [name, …]
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        template TEXT NOT NULL
    ) STRICT
    """,
)

_ABOUT: Final = "name, description, variables, partials, created_at, updated_at"


class About(NamedTuple):
    """What is known of a template, without its text."""

    name: str
    description: str
    variables: tuple[Variable, ...]
    partials: tuple[str, ...]
    created_at: int
    updated_at: int


class Stored(NamedTuple):
    """A template with its text."""

    about: About
    text: str


def keep(
    tx: Tx, name: str, text: str, description: str, read: Template, *, replace: bool, now: int
) -> Literal["new", "replaced", "same"]:
    """Keep a template that was read.

    Raises:
        Conflict: There is another one of that name, and it is not to be replaced.
    """
    found = tx.fetch_one(
        "SELECT template, description FROM mustache_templates WHERE name = ?", name
    )
    if found == {"template": text, "description": description}:
        return "same"
    if found is not None and not replace:
        raise Conflict(
            f"there is another template named '{name}'",
            suggestion="Choose another name, or give replace as well to take its place",
        )
    variables = [(entry.name, entry.section, entry.required) for entry in read.variables]
    tx.execute(
        f"INSERT INTO mustache_templates ({_ABOUT}, template) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) "
        "ON CONFLICT (name) DO UPDATE SET description = ?2, variables = ?3, partials = ?4, "
        "updated_at = ?5, template = ?6",
        name,
        description,
        to_json(variables).decode(),
        to_json(read.partials).decode(),
        now,
        text,
    )
    return "new" if found is None else "replaced"


def delete(tx: Tx, name: str) -> bool:
    """Remove a template; whether there was one."""
    return tx.execute("DELETE FROM mustache_templates WHERE name = ?", name).rowcount > 0


async def find(db: Database, name: str) -> Stored | None:
    """A template with its text."""
    rows = await db.fetch_rows(
        f"SELECT {_ABOUT}, template FROM mustache_templates WHERE name = ?", name
    )
    return Stored(_about(rows[0][:-1]), rows[0][-1]) if rows else None


async def page(db: Database, after: str) -> list[About]:
    """Templates in the order of their names, behind one of them."""
    rows = await db.fetch_rows(
        f"SELECT {_ABOUT} FROM mustache_templates WHERE name > ? ORDER BY name LIMIT ?",
        after,
        ROWS_PER_ITEM,
    )
    return list(map(_about, rows))


async def names(db: Database, limit: int) -> list[str]:
    """The names of templates."""
    rows = await db.fetch_rows("SELECT name FROM mustache_templates LIMIT ?", limit)
    return [name for (name,) in rows]


def _about(row: tuple[Any, ...]) -> About:
    name, description, variables, partials, created_at, updated_at = row
    return About(
        name,
        description,
        tuple(Variable(*entry) for entry in from_json(variables)),
        tuple(from_json(partials)),
        created_at,
        updated_at,
    )
