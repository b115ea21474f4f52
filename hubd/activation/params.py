"""Types of parameters and events that several plugins share."""

import re
import unicodedata
from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from hubd.storage import ids
from hubd.wire.lazy_pattern import lazy_pattern

# In the schema only. The code that looks up an id refuses other strings in its own words.
_PREFIX: Final[JsonDict] = {"pattern": "^[0-9A-Fa-f-]{8,36}$"}
_ENDING: Final[JsonDict] = {"pattern": "^[0-9A-Fa-f-]{4,36}$"}

# The id of a tree, a session or a stream, or its first 8 or more hex digits.
IdPrefix = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        examples=["550e8400-e29b-41d4-a716-446655440000"],
        json_schema_extra=_PREFIX,
    ),
]
TreeId = IdPrefix
# The id of a node in a tree that the call names, or its last 4 or more hex digits.
NodeId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        examples=["01890a5d-ac96-774b-bcce-b302099a8057"],
        json_schema_extra=_ENDING,
    ),
]
# A complete id. It can't be shortened, because the ids to compare it with are not known.
WholeId = Annotated[UUID, WithJsonSchema({"type": "string", "pattern": "^[0-9A-Fa-f-]{32,36}$"})]

# Control characters, line ends, and characters that are invisible or change the direction of the
# text around them. The escapes mean the same in Python and in JavaScript.
_UNSAFE: Final = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb"
)
# Joiners are part of some scripts and emoji. Beside ASCII they are only invisible.
_JOINABLE: Final = rf"[^\u0000-\u007f{_UNSAFE}]"
NAME_PATTERN: Final = rf"^(?:[^{_UNSAFE}]|{_JOINABLE}(?:[\u200c\u200d]{_JOINABLE})+)*$"
_NAME: Final = lazy_pattern(NAME_PATTERN)
# Tags are invisible too, and have no escape that all dialects of regular expressions share.
_TAGS: Final = r"\U000e0000-\U000e007f"
_UNSAFE_CHARACTER: Final = lazy_pattern(f"[{_UNSAFE}{_TAGS}]")


def name_problem(text: str) -> str | None:
    """Return the reason why a text is not a name, without its subject; None if it is one.

    A name has no characters that terminals don't show.
    """
    if _NAME.fullmatch(text) and not re.search(f"[{_TAGS}]", text):
        return None
    unsafe = _UNSAFE_CHARACTER.search(text)
    assert unsafe is not None, "the pattern refuses nothing else"
    character = f"U+{ord(unsafe[0]):04X} {unicodedata.name(unsafe[0], '')}".strip()
    return f"can't contain {character}; use visible characters on one line"


def _check_name(text: str) -> str:
    problem = name_problem(text)
    if problem is not None:
        raise PydanticCustomError("unsafe_name", "{reason}", {"reason": problem})
    return text


# A text that terminals show unchanged. The schema has the pattern too.
SafeText = Annotated[
    str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": NAME_PATTERN})
]
# The name of a session, a cone, an owner …
Name = Annotated[SafeText, Field(min_length=1, max_length=200, examples=["hello"])]
# The name of a second one, for example of a copy.
NewName = Annotated[SafeText, Field(min_length=1, max_length=200, examples=["other"])]


class Position(BaseModel, defer_build=True):
    """A place in a tree."""

    tree_id: str
    node_id: str

    @classmethod
    def at(cls, tree_id: bytes, node_id: bytes) -> Self:
        """Return the position of stored ids."""
        return cls(tree_id=ids.text(tree_id), node_id=ids.text(node_id))
