"""The offered namespaces of a connection: a request never widens them."""

from hypothesis import given
from hypothesis import strategies as st

from hubd.mcp.access import McpOptions, offered, read_profile

SEGMENTS = st.sampled_from(["a", "b", "ab", "a_b", "A"])
NAMESPACES = st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join)
PROFILES = st.none() | st.frozensets(NAMESPACES, max_size=5)


@given(profile=PROFILES, wanted=PROFILES, namespace=NAMESPACES)
def test_a_connection_gets_the_intersection_of_both_profiles(
    profile: frozenset[str] | None, wanted: frozenset[str] | None, namespace: str
) -> None:
    narrowed = McpOptions(profile=profile).narrowed(wanted)
    both = offered(namespace, profile) and offered(namespace, wanted)
    assert offered(namespace, narrowed) == both


@given(profile=PROFILES, first=PROFILES, second=PROFILES, namespace=NAMESPACES)
def test_the_order_of_narrowing_does_not_matter(
    profile: frozenset[str] | None,
    first: frozenset[str] | None,
    second: frozenset[str] | None,
    namespace: str,
) -> None:
    one_way = McpOptions(profile=McpOptions(profile=profile).narrowed(first)).narrowed(second)
    other_way = McpOptions(profile=McpOptions(profile=profile).narrowed(second)).narrowed(first)
    assert offered(namespace, one_way) == offered(namespace, other_way)


@given(namespace=NAMESPACES, below=NAMESPACES, beside=SEGMENTS)
def test_a_profile_includes_child_namespaces_and_no_siblings(
    namespace: str, below: str, beside: str
) -> None:
    profile = frozenset({namespace})
    assert offered(namespace, profile)
    assert offered(f"{namespace}.{below}", profile)
    assert not offered(f"{namespace}{beside}", profile)
    assert not offered(f"x.{namespace}", profile)
    assert not offered("", profile)


@given(namespace=NAMESPACES)
def test_an_empty_profile_offers_nothing_and_no_profile_everything(namespace: str) -> None:
    assert not offered(namespace, frozenset())
    assert offered(namespace, None)
    assert not offered(namespace, McpOptions().narrowed(frozenset()))


@given(text=st.text(st.sampled_from("ab., "), max_size=30))
def test_a_profile_offers_only_the_namespaces_it_names(text: str) -> None:
    profile = read_profile(text)
    assert all(name and name == name.strip() and "," not in name for name in profile)
    assert profile == {part.strip() for part in text.split(",")} - {""}
