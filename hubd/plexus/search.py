"""The search of the root: find stored texts, and find methods."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, NotRequired, TypedDict, Unpack

from pydantic import ConfigDict, Field

from hubd.activation import Activation, Event, InvalidParams, Unavailable, columns, method
from hubd.activation.handle import AnyHandle, Kind
from hubd.plexus.dispatch import current_call
from hubd.plexus.grants import may_see, visible_methods
from hubd.plexus.hub import Hub, Node
from hubd.plexus.resolve import read_handle
from hubd.storage.search.searching import Filters
from hubd.storage.search.text import MAX_TERMS, terms_of
from hubd.storage.search.times import first_second, last_second
from hubd.wire.caller import Actor
from hubd.wire.item import Guidance
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.summary import MARKS_KEYWORD

_WORD: Final = lazy_pattern(r"[a-z0-9]+")
MAX_QUERY: Final = 1000
MAX_FILTER: Final = 200

Name = Annotated[str, Field(min_length=1, max_length=MAX_FILTER)]
Time = Annotated[str, Field(min_length=1, max_length=40, examples=["2d"])] | int
Limit = Annotated[int, Field(ge=1, le=1000)]


class Hit(Event, summary="{snippet}"):
    """A stored text with all words of a query."""

    model_config = ConfigDict(
        json_schema_extra=columns(
            created="{created_at}",
            session="{session}",
            text="{snippet}",
            role="{role}",
            tool="{tool}",
            kind="{kind}",
        )
    )

    handle: AnyHandle
    kind: str = Field(description="The kind of the data behind the handle")
    snippet: str = Field(
        description="The part of the text around the first match, in one line",
        json_schema_extra={MARKS_KEYWORD: "matches"},
    )
    session: str | None = Field(None, description="Name of the session that the text belongs to")
    created_at: int = Field(description="Unix seconds")
    score: float = Field(description="Rank: larger is better; 0 if the text was found by reading")
    role: str | None = None
    tool: str | None = Field(None, description="Name of the tool that was called")
    matches: list[tuple[int, int]] = Field(
        description="Places of the words in the snippet: first character, and the one after it"
    )


class Match(Event):
    """A method that matches a search."""

    model_config = ConfigDict(
        json_schema_extra=columns(method="{method}", description="{description}")
    )

    method: str
    description: str
    score: int


class SearchFilters(TypedDict):
    """The texts to search.

    Args:
        session: Session name, id, or the first 8 or more digits of the id.
        role: Role of the speaker: `user`, `assistant` or `system`.
        tool: Name of the called tool, such as `Bash`.
        kind: Kind of the data, such as `message`, `output` or `document`.
        since: Earliest time: Unix seconds, an ISO date or time, or an age such as `2d` or `90m`.
        until: Latest time, in the same forms; a date includes the whole day.
        limit: Maximum number of hits.
    """

    session: NotRequired[Name | None]
    role: NotRequired[Name | None]
    tool: NotRequired[Name | None]
    kind: NotRequired[Kind | None]
    since: NotRequired[Time | None]
    until: NotRequired[Time | None]
    limit: NotRequired[Annotated[Limit, Field(default=20)]]


class SearchMethods(Activation):
    """The methods of the root that search."""

    # Set by `build_hub`.
    hub: Hub

    @method(read_only=True, render="table")
    async def search(
        self,
        query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY, examples=["timeout"])],
        **filters: Unpack[SearchFilters],
    ) -> AsyncIterator[Hit]:
        """Find messages, tool calls, outputs, files and pages by the words in them.

        A text must have all words, in any order and inside longer words too. Case does not
        count. Words in double quotes are a phrase. The best of the newest hits come first, the
        newest first if they are equally good. Each hit has a handle for `resolve_handle`.

        Args:
            query: Words to find; a phrase in double quotes.
        """
        terms = terms_of(query)
        if not 1 <= len(terms) <= MAX_TERMS:
            raise InvalidParams(f"query must have 1 to {MAX_TERMS} words")
        if self.hub.search is None:
            raise Unavailable("this hub has no database")
        wanted = Filters(
            session=filters.get("session"),
            role=filters.get("role"),
            tool=filters.get("tool"),
            kind=filters.get("kind"),
            since=first_second(filters.get("since"), "since"),
            until=last_second(filters.get("until"), "until"),
        )
        actor = current_call.get().actor
        seen = {name for name in self.hub.search_sources() if _may_resolve(self.hub, actor, name)}
        outcome, waiting = await self.hub.search.query(
            terms, wanted, filters["limit"], seen.__contains__
        )
        for hit in outcome.hits:
            document = hit.document
            yield Hit(
                handle=read_handle(document.handle),
                kind=document.kind,
                snippet=hit.snippet,
                session=document.session,
                created_at=document.created_at,
                score=round(hit.score, 6),
                role=document.role,
                tool=document.tool,
                matches=hit.matches,
            )
        if not seen:
            await _advise(
                "search_grants", "This agent has no grant for resolve_handle, so it finds no texts."
            )
        if outcome.stopped:
            await _advise("search_incomplete", f"There may be more hits: {outcome.stopped}.")
        if waiting:
            await _advise("search_status", f"{waiting:,} rows are not indexed yet.")

    @method(name="methods", read_only=True, render="table")
    async def find_methods(self, query: str, limit: Limit = 20) -> AsyncIterator[Match]:
        """Find methods by words in their names and descriptions, the best match first.

        Args:
            query: One or more words.
            limit: Maximum number of methods.
        """
        words = set(_WORD.findall(query.lower()))
        actor = current_call.get().actor
        matches = [
            match
            for node in self.hub.root.walk()
            if may_see(actor, node)
            for match in _matches(node, words, actor)
        ]
        matches.sort(key=lambda match: (-match.score, match.method))
        for match in matches[:limit]:
            yield match


def _may_resolve(hub: Hub, actor: Actor, source: str) -> bool:
    """Return whether an actor may resolve the handles of a search source."""
    plugin = source.rpartition(".")[0]
    return any(actor.is_granted(each, "resolve_handle") for each in (hub.name, plugin))


async def _advise(topic: str, sentence: str) -> None:
    call = current_call.get()
    await call.send(Guidance(call.stamp.metadata(), topic, sentence, []))


def _matches(node: Node, words: set[str], actor: Actor) -> list[Match]:
    """Return the methods of a node that match. A name counts four times as much as a text."""
    matches = []
    for method_name in visible_methods(node, actor):
        entry = node.activation.methods[method_name]
        path = f"{node.path}.{entry.name}"
        name = path.lower()
        text = f"{entry.description} {entry.details} {node.activation.description}".lower()
        score = sum(4 * (word in name) + (word in text) for word in words)
        if score:
            matches.append(Match(method=path, description=entry.description, score=score))
    return matches
