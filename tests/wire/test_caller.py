"""Actors and their grants."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.caller import HUB, PERSON, UNKNOWN, Actor
from tests.support import examples

NAMES = st.sampled_from(["a", "ab", "b", "tree", "tree_get", "*", "tree_*", "*_get", "a*"])
GRANTS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
PATHS = st.lists(st.sampled_from(["a", "ab", "b", "tree", "tree_get"]), min_size=2, max_size=4)


def session(*grants: str) -> Actor:
    return Actor("session", "one", grants)


def is_covered(grant: str, path: str) -> bool:
    """Grants in other words: a path, or a path and anything below it; `*` is any text."""
    pattern = ".*".join(map(re.escape, grant.split("*")))
    return re.fullmatch(rf"{pattern}(\..*)?", path) is not None


@examples(300)
@given(st.lists(GRANTS, max_size=3), PATHS)
def test_a_session_may_call_exactly_what_a_grant_covers(grants: list[str], path: list[str]) -> None:
    *namespace, method = path
    actor = session(*grants)
    expected = any(is_covered(grant, ".".join(path)) for grant in grants)
    assert actor.is_granted(".".join(namespace), method) == expected
    # The schema of every namespace on the way is readable.
    for length in range(1, len(path)):
        assert actor.may_see(".".join(path[:length])) or not expected


def test_namespaces_methods_and_patterns_are_granted() -> None:
    cases = [
        ("arbor", "arbor", "tree_get", True),
        ("arbor", "arbor.nested", "get", True),
        ("arbor", "arboretum", "tree_get", False),
        ("arb", "arbor", "tree_get", False),
        ("arbor.tree_get", "arbor", "tree_get", True),
        ("arbor.tree_get", "arbor", "tree_get_skeleton", False),
        ("arbor.tree_*", "arbor", "tree_get", True),
        ("arbor.tree_*", "arbor", "node_get", False),
        ("tree_*", "arbor", "tree_get", False),
        ("*", "arbor", "tree_get", True),
        ("", "arbor", "tree_get", False),
        # Without a method: everything in the namespace.
        ("arbor", "arbor", "", True),
        ("arbor.*", "arbor", "", True),
        ("arbor.tree_*", "arbor", "", False),
    ]
    wrong = [case for case in cases if session(case[0]).is_granted(case[1], case[2]) is not case[3]]
    assert wrong == []


def test_only_namespaces_with_a_granted_method_are_visible() -> None:
    actor = session("solar.earth.info", "arbor.tree_*")
    visible = ["solar", "solar.earth", "arbor"]
    assert [name for name in (*visible, "solar.mars", "sol", "cone") if actor.may_see(name)] == (
        visible
    )
    assert not session().may_see("arbor")


def test_the_hub_and_people_may_call_everything() -> None:
    assert HUB.is_granted("a", "b")
    assert PERSON.is_granted("a", "b")
    assert not UNKNOWN.is_granted("a", "b")


def test_agents_are_clients_sessions_and_unknown_processes() -> None:
    agents = [Actor("client", "process:1@x"), session(), UNKNOWN]
    assert all(actor.is_agent for actor in agents)
    assert not HUB.is_agent
    assert not PERSON.is_agent


def test_grants_are_not_part_of_the_identity() -> None:
    assert session("arbor") == session()
    assert session() != Actor("client", "one")
