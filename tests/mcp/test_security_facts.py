"""Which namespaces a connection is offered: what it asks for never gives it more."""

from hypothesis import given
from hypothesis import strategies as st

from hubd.mcp.access import McpOptions, offered, read_profile

SEGMENTS = st.sampled_from(["a", "b", "ab", "a_b", "A"])
NAMESPACES = st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join)
PROFILES = st.none() | st.frozensets(NAMESPACES, max_size=5)


@given(profile=PROFILES, wanted=PROFILES, namespace=NAMESPACES)
def test_offered_is_what_the_daemon_offers_and_the_connection_wants(
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
def test_a_namespace_brings_those_below_it_and_none_beside_it(
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
def test_no_text_reads_as_a_profile_that_offers_what_it_does_not_name(text: str) -> None:
    profile = read_profile(text)
    assert all(name and name == name.strip() and "," not in name for name in profile)
    assert profile == {part.strip() for part in text.split(",")} - {""}
