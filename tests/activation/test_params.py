"""Names: visible characters on one line, in every script."""

import re
import unicodedata

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hubd.activation.declaration.json_schema import json_schema
from hubd.activation.params import NAME_PATTERN, Name

NAMES: TypeAdapter[str] = TypeAdapter(Name)
SCHEMA = json_schema(Name, "validation")


@pytest.mark.parametrize(
    "name",
    [
        "fix",
        "a b-c_d.e",
        "naïve",
        "日本語",
        "שלום",
        "مرحبا",
        "می\N{ZERO WIDTH NON-JOINER}خواهم",
        "👩\N{ZERO WIDTH JOINER}💻",
        "❤\N{VARIATION SELECTOR-16}\N{ZERO WIDTH JOINER}🔥",
        "👩🏽\N{ZERO WIDTH JOINER}🤝\N{ZERO WIDTH JOINER}👩🏼",
    ],
)
def test_names_of_any_script_are_accepted(name: str) -> None:
    assert NAMES.validate_python(name) == name
    jsonschema.validate(name, SCHEMA)


@pytest.mark.parametrize(
    ("name", "character"),
    [
        ("a\nb", "U+000A"),
        ("a\x00b", "U+0000"),
        ("\x1b[31mred", "U+001B"),
        ("a\x7fb", "U+007F"),
        ("a\x9bb", "U+009B"),
        ("a\u2028b", "U+2028 LINE SEPARATOR"),
        ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u2066b", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("a\u200bb", "U+200B ZERO WIDTH SPACE"),
        ("a\u200db", "U+200D ZERO WIDTH JOINER"),
        ("מ\u200d", "U+200D ZERO WIDTH JOINER"),
        ("\ufeffa", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("a\U000e0041b", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("\u3164", "U+3164 HANGUL FILLER"),
        ("a\n", "U+000A"),
    ],
)
def test_invisible_characters_are_refused_by_name(name: str, character: str) -> None:
    with pytest.raises(ValidationError) as caught:
        NAMES.validate_python(name)
    [error] = caught.value.errors()
    assert error["msg"] == f"can't contain {character}; use visible characters on one line"


@given(st.text(min_size=1, max_size=200))
def test_the_schema_and_the_check_agree(name: str) -> None:
    tagged = any(0xE0000 <= ord(character) <= 0xE007F for character in name)
    try:
        NAMES.validate_python(name)
    except ValidationError:
        assert tagged or not re.fullmatch(NAME_PATTERN, name)
    else:
        assert re.fullmatch(NAME_PATTERN, name)
        assert not {unicodedata.category(character) for character in name} & {"Cc", "Zl", "Zp"}
