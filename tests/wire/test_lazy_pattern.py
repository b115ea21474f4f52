"""A pattern that is compiled at its first use."""

import re

import pytest

from hubd.wire.lazy_pattern import lazy_pattern


def test_a_lazy_pattern_has_the_methods_of_a_compiled_one() -> None:
    lazy, compiled = lazy_pattern(r"(\w)\d", re.IGNORECASE), re.compile(r"(\w)\d", re.IGNORECASE)
    assert lazy.sub("x", "a1 B2") == compiled.sub("x", "a1 B2") == "x x"
    assert lazy.findall("a1 B2") == compiled.findall("a1 B2") == ["a", "B"]
    assert lazy.fullmatch("a1 ") is None
    assert lazy.pattern == compiled.pattern


def test_a_lazy_pattern_is_compiled_at_its_first_use() -> None:
    mistake = lazy_pattern("(")
    with pytest.raises(re.error):
        mistake.search("text")
