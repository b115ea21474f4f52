"""Short texts: cut at a length, and suggest the nearest names."""

import pytest

from hubd.wire.text import did_you_mean, nearest_names, shorten

NAMES = ["tree_list", "tree_get", "node_get"]


@pytest.mark.parametrize(
    ("text", "shortened"), [("", ""), ("four", "four"), ("five5", "fiv…"), ("ääääää", "äää…")]
)
def test_a_long_text_is_cut_at_the_length_and_marked(text: str, shortened: str) -> None:
    assert shorten(text, 4) == shortened
    assert len(shortened) <= 4


@pytest.mark.parametrize("word", ["tree_lst", "tree-list", "TREE_LIST", "treelist"])
def test_case_and_dashes_do_not_count(word: str) -> None:
    assert nearest_names(word, NAMES) == ["tree_list"]
    assert did_you_mean(word, NAMES) == "Did you mean tree_list?"


def test_several_names_are_suggested_on_request() -> None:
    assert nearest_names("tree_et", NAMES, most=2) == ["tree_get", "tree_list"]
    assert did_you_mean("tree_et", NAMES, most=2) == "Did you mean tree_get or tree_list?"


def test_a_word_unlike_all_names_gets_no_suggestion() -> None:
    assert did_you_mean("zzz", NAMES) == ""
    assert did_you_mean("tree_list", []) == ""


def test_only_the_start_of_a_huge_word_is_compared() -> None:
    assert nearest_names("tree_list" + "x" * 10_000_000, NAMES) == []
