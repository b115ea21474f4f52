"""The gate checks token, Host and Origin of TCP requests."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.rpc.gate import Gate

TOKEN = "correct-horse-battery-staple"
BEARER = ("Authorization", f"Bearer {TOKEN}")
HOST = ("Host", "127.0.0.1:4444")
PAGE = "http://localhost:3000"
ORIGIN = ("Origin", PAGE)

LOCKED = Gate(TOKEN)
FOR_PAGE = Gate(TOKEN, frozenset({PAGE}))
OPEN = Gate(None)


class Headers:
    """A header collection: pairs, names without regard to case."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def get_all(self, key: str) -> Sequence[str]:
        """All values of a header."""
        return [value for name, value in self._pairs if name.lower() == key.lower()]


def status(gate: Gate, *pairs: tuple[str, str], path: str = "/") -> int | None:
    """Return the HTTP status of the refusal; None if the request is allowed."""
    refusal = gate.check(path, Headers(*pairs))
    if refusal is not None:
        assert refusal.message
        assert TOKEN not in refusal.message
    return refusal.status if refusal else None


def test_the_right_token_is_accepted() -> None:
    assert status(LOCKED, HOST, BEARER) is None


def test_a_missing_token_is_401_with_advice_how_to_send_it() -> None:
    refusal = LOCKED.check("/", Headers(HOST))
    assert refusal is not None
    assert refusal.status == 401
    assert "Authorization: Bearer" in refusal.message


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", " Bearer ", "Bearer  "])
def test_the_scheme_is_read_without_regard_to_case_and_spaces(scheme: str) -> None:
    assert status(LOCKED, HOST, ("authorization", f"{scheme} {TOKEN} ")) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer{TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer,{TOKEN}",
        "Bearer größer",
        "Bearer \udcff\udcfe",
        "Bearer \x00",
        "Bearer " + "x" * 1_000_000,
        "x" * 1_000_000,
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_any_other_authorization_is_401(value: str) -> None:
    assert status(LOCKED, HOST, ("Authorization", value)) == 401


def test_a_token_with_lone_surrogates_is_refused() -> None:
    odd = Gate("?" * 20)
    assert status(odd, HOST, ("Authorization", "Bearer " + "\udcff" * 20)) == 401
    assert status(odd, HOST, ("Authorization", "Bearer " + "?" * 20)) is None


def test_two_authorization_headers_are_refused() -> None:
    assert status(LOCKED, HOST, BEARER, BEARER) == 401


@pytest.mark.parametrize(
    ("gate", "pairs", "path", "expected"),
    [
        pytest.param(FOR_PAGE, [ORIGIN], f"/?token={TOKEN}", None, id="from the page"),
        pytest.param(FOR_PAGE, [ORIGIN], f"/ws?a=1&token={TOKEN}&b", None, id="among others"),
        pytest.param(FOR_PAGE, [], f"/?token={TOKEN}", 401, id="without an origin"),
        pytest.param(LOCKED, [ORIGIN], f"/?token={TOKEN}", 403, id="page not listed"),
        pytest.param(FOR_PAGE, [ORIGIN], "/?token=wrong", 401, id="wrong token"),
        pytest.param(FOR_PAGE, [ORIGIN], "/?token=", 401, id="empty token"),
        pytest.param(FOR_PAGE, [ORIGIN], "/", 401, id="no token"),
        pytest.param(FOR_PAGE, [ORIGIN], f"/?token=x&token={TOKEN}", 401, id="two tokens"),
        pytest.param(FOR_PAGE, [ORIGIN], f"/?token={TOKEN}&token=x", 401, id="the right one first"),
        pytest.param(FOR_PAGE, [ORIGIN], f"/?token={TOKEN}&token={TOKEN}", 401, id="twice"),
        pytest.param(FOR_PAGE, [ORIGIN], f"/token={TOKEN}", 401, id="token in the path"),
        pytest.param(FOR_PAGE, [ORIGIN], "/?token=%ff%00", 401, id="escaped bytes"),
        pytest.param(FOR_PAGE, [ORIGIN], "/?token=" + "x" * 1_000_000, 401, id="huge"),
        pytest.param(FOR_PAGE, [ORIGIN], "//[?token=x", 401, id="a path that is no address"),
        pytest.param(FOR_PAGE, [ORIGIN, BEARER], "/?token=wrong", None, id="header decides"),
        pytest.param(
            FOR_PAGE, [ORIGIN, ("Authorization", "Bearer no")], f"/?token={TOKEN}", 401, id="both"
        ),
        pytest.param(LOCKED, [BEARER], "/?token=wrong", None, id="header without origin"),
    ],
)
def test_a_token_in_the_url_is_accepted_only_from_an_allowed_origin(
    gate: Gate, pairs: list[tuple[str, str]], path: str, expected: int | None
) -> None:
    assert status(gate, HOST, *pairs, path=path) == expected


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://localhost:3001",
        "https://localhost:3000",
        f"{PAGE}/",
        f"{PAGE}.evil.example",
        PAGE.upper(),
        "é",
        "x" * 1_000_000,
    ],
    ids=lambda origin: ascii(origin)[:40],
)
def test_an_origin_that_is_not_listed_is_403_even_with_the_token(origin: str) -> None:
    for gate in (FOR_PAGE, Gate(None, frozenset({PAGE}))):
        assert status(gate, HOST, BEARER, ("Origin", origin)) == 403
        assert status(gate, HOST, BEARER, ORIGIN, ("Origin", origin)) == 403


def test_by_default_no_origin_is_listed() -> None:
    assert status(LOCKED, HOST, BEARER, ORIGIN) == 403
    assert status(OPEN, HOST, ORIGIN) == 403


def test_a_listed_origin_still_needs_the_token() -> None:
    assert status(FOR_PAGE, HOST, ORIGIN) == 401
    assert status(FOR_PAGE, HOST, ORIGIN, BEARER) is None


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
def test_local_host_names_are_allowed_with_and_without_a_port(name: str) -> None:
    for gate in (LOCKED, OPEN):
        for port in ("", ":4444", ":80"):
            assert status(gate, ("Host", name + port), BEARER) is None, (gate, port)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":4444",
        "evil.example",
        "evil.example:4444",
        "127.0.0.1.evil.example",
        "localhost.evil.example:4444",
        "evil.example@127.0.0.1",
        "127.0.0.1@evil.example",
        "localhost/evil.example",
        "localhost:evil",
        "localhost, evil.example",
        "localhost evil.example",
        "0.0.0.0",
        "127.0.0.2",
        "2130706433",
        "[::",
        "[::2]",
        "::1",
        "[::1].evil.example",
        "ｌocalhost",
        "localho\u017ft",
        "localhost:\u0664\u0664\u0664\u0664",
        "localhost:123456",
        "localhost:",
        "localhost\n",
        "localhost.",
        "\udcff",
        "é" * 1000,
        "x" * 1_000_000,
    ],
    ids=lambda host: ascii(host)[:40],
)
def test_any_other_host_is_403_with_and_without_the_token(host: str) -> None:
    assert status(LOCKED, ("Host", host), BEARER) == 403
    assert status(OPEN, ("Host", host), BEARER) == 403


@pytest.mark.parametrize("gate", [LOCKED, OPEN], ids=["token", "open"])
def test_no_host_and_several_hosts_are_403(gate: Gate) -> None:
    assert status(gate, BEARER) == 403
    assert status(gate, HOST, HOST, BEARER) == 403
    assert status(gate, HOST, ("Host", "evil.example"), BEARER) == 403


def test_a_gate_without_a_token_still_checks_host_and_origin() -> None:
    assert status(OPEN, HOST) is None
    assert status(OPEN, HOST, ("Authorization", "Bearer wrong")) is None
    assert status(OPEN, ("Host", "evil.example")) == 403
    assert status(OPEN, HOST, ("Origin", "http://evil.example")) == 403


@given(host=st.text(), origin=st.text(), authorization=st.text(), path=st.text())
def test_arbitrary_headers_and_paths_are_refused_without_an_exception(
    host: str, origin: str, authorization: str, path: str
) -> None:
    gate = Gate(TOKEN, frozenset({origin}))
    assert status(gate, ("Host", host), ("Origin", origin), BEARER, path=path) == 403
    others = (("Origin", origin), ("Authorization", authorization))
    assert status(gate, HOST, *others, path=path) == 401
    assert status(gate, HOST, ("Origin", origin), path=path) == 401


OUR_HOSTS = st.builds(
    str.__add__,
    st.sampled_from(["localhost", "127.0.0.1", "[::1]", "LOCALHOST"]),
    st.one_of(st.just(""), st.integers(0, 65535).map(lambda port: f":{port}")),
)
TEXTS = st.text(st.characters(exclude_categories=["Cc"]), max_size=40)
TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
HOSTS = st.lists(st.one_of(OUR_HOSTS, TEXTS), max_size=2)
ORIGINS = st.lists(st.one_of(st.sampled_from([PAGE, "null", f"{PAGE}.evil.example"]), TEXTS))


@given(
    token=st.none() | TOKENS,
    given_token=st.none() | TOKENS | TEXTS,
    hosts=HOSTS,
    origins=ORIGINS.filter(lambda origins: len(origins) <= 2),
    allowed=st.frozensets(st.sampled_from([PAGE, "null"])),
    same=st.booleans(),
)
def test_allowed_requests_have_a_local_host_listed_origins_and_the_token(
    token: str | None,
    given_token: str | None,
    hosts: list[str],
    origins: list[str],
    allowed: frozenset[str],
    same: bool,
) -> None:
    if same:
        given_token = token
    pairs = [("Host", host) for host in hosts] + [("Origin", origin) for origin in origins]
    if given_token is not None:
        pairs.append(("Authorization", f"Bearer {given_token}"))
    found = Gate(token, allowed).check("/", Headers(*pairs))
    ours = len(hosts) == 1 and _is_ours(hosts[0])
    may = token is None or (given_token is not None and given_token.strip() == token)
    if not ours or not set(origins) <= allowed:
        assert found is not None
        assert found.status == 403
    elif not may:
        assert found is not None
        assert found.status == 401
    else:
        assert found is None


def _is_ours(host: str) -> bool:
    """The rule once more, in other words."""
    for name in ("localhost", "127.0.0.1", "[::1]"):
        if host[: len(name)].lower() == name and host.isascii():
            port = host[len(name) :]
            return not port or (port[0] == ":" and port[1:].isdigit() and len(port) <= 6)
    return False
