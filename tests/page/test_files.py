"""The files of the page and the headers of their responses, from a real daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hubd.page import static_files
from tests.mcp.raw_http import Answer, RawClient, bearer, exchange, head, no_cors
from tests.page.support import port_of
from tests.support import Daemon

STATIC = Path(static_files.__file__).parent / "static"
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
METHODS = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("files") / "home") as running:
        yield running


def get(
    daemon: Daemon, path: str, *headers: tuple[str, str], method: str = "GET", host: str = ""
) -> Answer:
    port = port_of(daemon)
    own = ("Host", host or f"127.0.0.1:{port}")
    return exchange(port, head(method, path, [own, *headers]), method)


def is_protected(answer: Answer) -> bool:
    """Whether no other site can frame the page, and the page can load nothing foreign."""
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    connect = policy.pop("connect-src").split()
    assert connect[0] == "'self'"
    assert all(source.startswith(("ws://127.0.0.1:", "ws://localhost:")) for source in connect[1:])
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    expected = {
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
    }
    assert expected.items() <= answer.headers.items()
    assert "camera=()" in answer.headers["permissions-policy"]
    assert "set-cookie" not in answer.headers
    return no_cors(answer)


def test_the_root_is_the_index_and_needs_no_token(daemon: Daemon) -> None:
    answer = get(daemon, "/")
    assert answer.status == 200
    assert answer.body == (STATIC / "index.html").read_bytes()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert is_protected(answer)
    own = f"ws://127.0.0.1:{port_of(daemon)}"
    assert f"connect-src 'self' {own};" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_package_is_served_with_its_type(daemon: Daemon, name: str) -> None:
    answer = get(daemon, f"/page/{name}")
    assert answer.status == 200
    assert answer.body == (STATIC / name).read_bytes()
    suffix = name.rpartition(".")[2]
    assert answer.headers["content-type"] == static_files.CONTENT_TYPES[suffix]
    assert is_protected(answer)


def test_browsers_get_the_types_that_they_need() -> None:
    types = static_files.CONTENT_TYPES
    assert types["js"].startswith("text/javascript")
    assert types["css"].startswith("text/css")
    assert types["svg"] == "image/svg+xml"


def test_head_is_get_without_the_body(daemon: Daemon) -> None:
    full, bare = get(daemon, "/"), get(daemon, "/", method="HEAD")
    assert (bare.status, bare.body) == (200, b"")
    without_date = [{**answer.headers, "date": ""} for answer in (full, bare)]
    assert without_date[0] == without_date[1]


def test_an_unchanged_file_is_not_sent_again(daemon: Daemon) -> None:
    etag = get(daemon, "/").headers["etag"]
    for condition in (etag, f"W/{etag}", f'"other", {etag}'):
        answer = get(daemon, "/", ("If-None-Match", condition))
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == etag
        assert is_protected(answer)
    assert get(daemon, "/", ("If-None-Match", '"other"')).status == 200


@pytest.mark.parametrize("method", METHODS)
def test_files_can_only_be_read(daemon: Daemon, method: str) -> None:
    for path in ("/", "/page/index.html", "/page/nothing", "/ws"):
        answer = get(daemon, path, method=method)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD"
        assert is_protected(answer)


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/nothing.js",
        "/page/../site.py",
        "/page/..%2fsite.py",
        "/page/%2e%2e/site.py",
        "/page/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/page/..%5csite.py",
        "/page//etc/passwd",
        "/page/./index.html",
        "/page/index.html/",
        "/page/index.html%00.js",
        "/page/%69ndex%2ehtml%20",
        "/page/__init__.py",
    ],
)
def test_other_paths_below_the_files_do_not_exist(daemon: Daemon, path: str) -> None:
    answer = get(daemon, path)
    assert answer.status == 404
    assert is_protected(answer)


@pytest.mark.parametrize("path", ["/index.html", "/page", "//page/index.html", "/ws/", "/wsx"])
def test_other_paths_of_the_port_need_the_token_as_before(daemon: Daemon, path: str) -> None:
    assert get(daemon, path).status == 401
    answer = get(daemon, path, bearer(daemon.token))
    assert (answer.status, answer.body) == (404, b"MCP is at /mcp\n")


def test_foreign_hosts_and_origins_get_nothing(daemon: Daemon) -> None:
    for path in ("/", "/page/index.html", "/page/nothing", "/ws"):
        answers = [
            get(daemon, path, host="evil.example"),
            get(daemon, path, host=f"127.0.0.1.nip.io:{port_of(daemon)}"),
            get(daemon, path, ("Host", "localhost")),
            get(daemon, path, ("Origin", "http://evil.example")),
            get(daemon, path, ("Origin", "null")),
            get(daemon, path, ("Origin", "http://127.0.0.1:1")),
        ]
        # h11 itself refuses two hosts.
        assert [answer.status for answer in answers] == [403, 403, 400, 403, 403, 403]
        assert all(is_protected(answer) for answer in answers if answer.status == 403)


def test_the_websocket_needs_a_websocket_request(daemon: Daemon) -> None:
    answer = get(daemon, "/ws")
    assert (answer.status, answer.headers["upgrade"]) == (426, "websocket")
    assert is_protected(answer)


def test_the_page_does_not_import_the_mcp_sdk(daemon: Daemon) -> None:
    assert get(daemon, "/").status == 200
    maps = Path(f"/proc/{daemon.record['pid']}/maps")
    assert daemon.imported == ()
    if maps.exists():
        # A library that the SDK needs and nothing else of the daemon does.
        assert "rpds" not in maps.read_text()
        RawClient(port_of(daemon), daemon.token).call("echo.once", {"message": "hi"})
        assert "rpds" in maps.read_text()
