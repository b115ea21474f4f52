"""mustache: all SQL of the plugin."""

from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from hubd.activation import Conflict
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.mustache.parser import Variable
from hubd.mustache.template import Template
from hubd.storage.database import Database, Tx

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


def register(
    tx: Tx, name: str, text: str, description: str, parsed: Template, *, replace: bool, now: int
) -> Literal["new", "replaced", "same"]:
    """Store a template.

    Raises:
        Conflict: Another template has this name, and `replace` is False.
    """
    existing = tx.fetch_one(
        "SELECT template, description FROM mustache_templates WHERE name = ?", name
    )
    if existing == {"template": text, "description": description}:
        return "same"
    if existing is not None and not replace:
        raise Conflict(
            f"there is another template named '{name}'",
            suggestion="Choose another name, or set replace to overwrite the template",
        )
    variables = [(entry.name, entry.section, entry.required) for entry in parsed.variables]
    tx.execute(
        f"INSERT INTO mustache_templates ({_INFO}, template) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) "
        "ON CONFLICT (name) DO UPDATE SET description = ?2, variables = ?3, partials = ?4, "
        "updated_at = ?5, template = ?6",
        name,
        description,
        to_json(variables).decode(),
        to_json(parsed.partials).decode(),
        now,
        text,
    )
    return "new" if existing is None else "replaced"


def delete(tx: Tx, name: str) -> bool:
    """Remove a template. Return whether it existed."""
    return tx.execute("DELETE FROM mustache_templates WHERE name = ?", name).rowcount > 0


async def find(db: Database, name: str) -> Stored | None:
    """Return a template with its text, or None."""
    rows = await db.fetch_rows(
        f"SELECT {_INFO}, template FROM mustache_templates WHERE name = ?", name
    )
    return Stored(_info(rows[0][:-1]), rows[0][-1]) if rows else None


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
