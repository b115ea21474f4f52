"""Text for a terminal has no control sequences and no invisible characters."""

import json

import pytest

from hubd.wire.terminal import clean, escape_json, one_line, reveal

# What ordinary text needs.
READABLE = [
    "plain",
    "naïve café",
    "👨\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 👩🏽\u200d💻 ❤\ufe0f 1\ufe0f\u20e3",
    "می\u200cخواهم",
    "क्\u200dष",
    "שלום\u200f! (עברית)",
    "العربية\u200f 123",
    "葛\U000e0100城市",
    "tab\tand\nnewline",
]


@pytest.mark.parametrize("text", READABLE)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert escape_json(text) == text


@pytest.mark.parametrize(
    "code",
    [
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0x200B, 0x2010),
        *range(0xE0000, 0xE0080),
        *(0x00AD, 0x061C, 0x180E, 0x2028, 0x2029, 0x2060, 0x3164, 0xFEFF, 0xFFA0, 0xE0100),
    ],
)
def test_an_invisible_character_is_shown_by_its_number(code: int) -> None:
    assert clean(f"a{chr(code)}b") == f"a‹U+{code:04X}›b"
    text = json.dumps(f"a{chr(code)}b", ensure_ascii=False)
    escaped = escape_json(text)
    assert (escaped.isascii(), json.loads(escaped)) == (True, f"a{chr(code)}b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A run of selectors or marks can carry a hidden message.
        ("❤\ufe0f\ufe0f\ufe01", "❤\ufe0f‹U+FE0F›‹U+FE01›"),
        ("ש\u200f\u200f\u200f", "ש\u200f‹U+200F›‹U+200F›"),
        ("\ufe0f", "‹U+FE0F›"),
        ("🎉\u200d", "🎉‹U+200D›"),
        ("🏴\U000e0067\U000e007f", "🏴‹U+E0067›‹U+E007F›"),
    ],
)
def test_a_joiner_without_neighbours_to_join_is_shown(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize("character", ["\u200b", "\u200d", "\U000e0041", "\ufe01", "\u200f"])
def test_a_long_run_of_invisible_characters_is_counted(character: str) -> None:
    name = f"‹U+{ord(character):04X}›"
    # A judged text is shown in full.
    assert reveal(f" {character * 500}b") == f" {name * 500}b"
    assert clean(f" {character * 16}b") == f" {name * 16}b"
    assert clean(f" {character * 500}b") == f" {name * 16}‹484 more›b"
    # The length of a text of 10 million such characters stays readable.
    assert len(clean(character * 100_000)) < 100_000 // 4
    text = json.dumps(f" {character * 500}", ensure_ascii=False)
    assert json.loads(escape_json(text)) == f" {character * 500}"


def test_control_sequences_are_removed_and_lines_joined() -> None:
    assert clean("\x1b[31mred\x1b]0;title\x07\x9b1m!\x7f") == "red!"
    assert one_line(" one\n\x1b[2J\u202e two ") == "one ‹U+202E› two"
