"""mustache: all SQL of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from hubd.activation import Conflict
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.mustache.parser import Variable
from hubd.storage.database import Database, Tx

if TYPE_CHECKING:
    from hubd.mustache.template import Template

# The text is the last column, so that reads of the other columns skip it.
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
    """
    CREATE TABLE mustache_ties (
        handle_type TEXT NOT NULL, -- plugin::method
        style TEXT NOT NULL,
        name TEXT NOT NULL REFERENCES mustache_templates (name) ON DELETE CASCADE,
        PRIMARY KEY (handle_type, style)
    ) STRICT;
    CREATE INDEX mustache_ties_name ON mustache_ties (name);
    """,
)

_INFO: Final = "name, description, variables, partials, created_at, updated_at"


class TemplateInfo(NamedTuple):
    """A template without its text."""

    name: str
    description: str
    variables: tuple[Variable, ...]
    partials: tuple[str, ...]
    created_at: int
    updated_at: int


class Stored(NamedTuple):
    """A template with its text."""

    info: TemplateInfo
    text: str


class NewTemplate(NamedTuple):
    """A template to store."""

    name: str
    text: str
    description: str
    parsed: Template
    now: int


class Tie(NamedTuple):
    """The handles that a template shows: their type, and the style."""

    handle_type: str
    style: str


Outcome = Literal["new", "replaced", "same"]


def register(tx: Tx, new: NewTemplate, tie: Tie | None = None, *, replace: bool) -> Outcome:
    """Store a template, and tie it to a handle type.

    Raises:
        Conflict: Another template has this name, or is tied to the handle type in this style, and
            `replace` is False.
    """
    outcome = _store(tx, new, replace=replace)
    if tie is not None:
        _tie(tx, new.name, tie, replace=replace)
    return outcome


def _store(tx: Tx, new: NewTemplate, *, replace: bool) -> Outcome:
    existing = tx.fetch_one(
        "SELECT template, description FROM mustache_templates WHERE name = ?", new.name
    )
    if existing == {"template": new.text, "description": new.description}:
        return "same"
    if existing is not None and not replace:
        raise Conflict(
            f"there is another template named '{new.name}'",
            suggestion="Choose another name, or set replace to overwrite the template",
        )
    variables = [(entry.name, entry.section, entry.required) for entry in new.parsed.variables]
    tx.execute(
        f"INSERT INTO mustache_templates ({_INFO}, template) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) "
        "ON CONFLICT (name) DO UPDATE SET description = ?2, variables = ?3, partials = ?4, "
        "updated_at = ?5, template = ?6",
        new.name,
        new.description,
        to_json(variables).decode(),
        to_json(new.parsed.partials).decode(),
        new.now,
        new.text,
    )
    return "new" if existing is None else "replaced"


def _tie(tx: Tx, name: str, tie: Tie, *, replace: bool) -> None:
    existing = tx.fetch_one(
        "SELECT name FROM mustache_ties WHERE handle_type = ? AND style = ?", *tie
    )
    if existing is not None and existing["name"] != name and not replace:
        raise Conflict(
            f"the template '{existing['name']}' shows {tie.handle_type} in style {tie.style}",
            suggestion="Choose another style, or set replace to use this template instead",
        )
    tx.execute(
        "INSERT INTO mustache_ties (handle_type, style, name) VALUES (?1, ?2, ?3) "
        "ON CONFLICT (handle_type, style) DO UPDATE SET name = ?3",
        *tie,
        name,
    )


def delete(tx: Tx, name: str) -> bool:
    """Remove a template with its ties. Return whether it existed."""
    return tx.execute("DELETE FROM mustache_templates WHERE name = ?", name).rowcount > 0


async def find(db: Database, name: str) -> Stored | None:
    """Return a template with its text, or None."""
    rows = await db.fetch_rows(
        f"SELECT {_INFO}, template FROM mustache_templates WHERE name = ?", name
    )
    return Stored(_info(rows[0][:-1]), rows[0][-1]) if rows else None


async def tied(db: Database, handle_type: str, style: str) -> str | None:
    """Return the text of the template for handles of a type in a style."""
    rows = await db.fetch_rows(
        "SELECT t.template FROM mustache_ties AS s JOIN mustache_templates AS t ON t.name = s.name "
        "WHERE s.handle_type = ? AND s.style = ?",
        handle_type,
        style,
    )
    return str(rows[0][0]) if rows else None


async def ties(db: Database, names: list[str]) -> dict[str, list[str]]:
    """Return the handle types and styles of templates, by their names."""
    rows = await db.fetch_rows(
        "SELECT name, handle_type || ' ' || style FROM mustache_ties "
        "WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name, handle_type, style",
        to_json(names).decode(),
    )
    by_name: dict[str, list[str]] = {}
    for name, text in rows:
        by_name.setdefault(name, []).append(text)
    return by_name


async def page(db: Database, after: str) -> list[TemplateInfo]:
    """Return the templates after a name, sorted by name."""
    rows = await db.fetch_rows(
        f"SELECT {_INFO} FROM mustache_templates WHERE name > ? ORDER BY name LIMIT ?",
        after,
        ROWS_PER_ITEM,
    )
    return list(map(_info, rows))


async def names(db: Database, limit: int) -> list[str]:
    """Return the names of templates."""
    rows = await db.fetch_rows("SELECT name FROM mustache_templates LIMIT ?", limit)
    return [name for (name,) in rows]


def _info(row: tuple[Any, ...]) -> TemplateInfo:
    name, description, variables, partials, created_at, updated_at = row
    return TemplateInfo(
        name,
        description,
        tuple(Variable(*entry) for entry in from_json(variables)),
        tuple(from_json(partials)),
        created_at,
        updated_at,
    )
