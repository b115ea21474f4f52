"""The readable text of a page, and hostile markup in bounded time and memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.web import html_tokens, readable
from hubd.plugins.web.charset import decode, detect
from hubd.plugins.web.html_tokens import End, Start, Text, tokens
from hubd.plugins.web.readable import MAX_LINKS, MAX_TEXT, MAX_TITLE, readable_page

URL = "https://example.org/a/b"


def text_of(page: str) -> str:
    return readable_page(page, URL).text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one<p>two", "one\n\ntwo"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<h2>Title</h2>text", "## Title\n\ntext"),
        ("<ul><li>one<li> two</ul>", "- one\n- two"),
        ("<pre>  a\n   b</pre>", "  a\n   b"),
        ("<table><tr><th>a</th><td>b</td></tr><tr><td>c<td>d</table>", "a\tb\nc\td"),
        ("a  \n <i>b</i>\tc", "a b c"),
        ("&lt;b&gt; &amp; &eacute;&#233;&#xe9;&nope;", "<b> & ééé&nope;"),
        ("<script>var a = '<p>x</p>';</script>y", "y"),
        ("<style>p {}</style><!-- <p>x --><![CDATA[x]]><?php x ?>y", "y"),
        ("<nav>menu</nav><p>text</p><footer>foot</footer>", "text"),
        ("<nav>only a menu</nav>", "only a menu"),
        ("<div>around</div><main>the main text of the page</main>", "the main text of the page"),
        ("<main></main><p>text outside of an empty main", "text outside of an empty main"),
        ("<head><meta x>lost<body>kept", "kept"),
        ("1 < 2 and <3> </> <", "1 < 2 and <3> <"),
        ("<svg><text>x</text></svg><noscript>x</noscript><template>x</template>y", "y"),
        ("a\0b\x1b[31mc", "ab[31mc"),
        ("<P CLASS=x>Upper</P>", "Upper"),
        ("<p title='a > b'>quoted", "quoted"),
        ("text <b", "text"),
        ('text <b a="', "text"),
        ("text <!-- no end", "text"),
        ("text <script> no end", "text"),
    ],
)
def test_markup_becomes_text(page: str, text: str) -> None:
    assert text_of(page) == text


def test_links_are_absolute_and_not_repeated() -> None:
    page = readable_page(
        "<a href='x'><img></a><a href=x>first <b>text</b></a><a href=x>again</a><a href='//h/y'>y"
        "<a href='#top'>top</a><a href='javascript:x()'>no</a><a>no</a><a href='mailto:a@b'>mail"
        "<a href='http://[bad'>bad</a><a href=' /z '>z</a>",
        URL,
    )
    assert [(link.url, link.text) for link in page.links] == [
        ("https://example.org/a/x", "first text"),
        ("https://h/y", "y"),
        ("mailto:a@b", "mail"),
        ("https://example.org/z", "z"),
    ]


def test_a_base_changes_the_addresses_of_links() -> None:
    page = readable_page("<head><base href='/c/'></head><a href=x>x</a>", URL)
    assert [link.url for link in page.links] == ["https://example.org/c/x"]


def test_title_text_and_links_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    links = "".join(f"<a href={number}>x</a>" for number in range(MAX_LINKS + 10))
    page = readable_page(f"<title>{'t' * 1000}</title>{links}{'x' * (MAX_TEXT + 10)}", URL)
    assert (len(page.title or ""), len(page.text)) == (MAX_TITLE, MAX_TEXT)
    assert (len(page.links), page.cut) == (MAX_LINKS, True)
    assert not readable_page("<b>x", URL).cut
    monkeypatch.setattr(readable, "MAX_TOKENS", 5)
    page = readable_page("<p>one<p>two<p>three", URL)
    assert (page.text, page.cut) == ("one\n\ntwo", True)


HOSTILE = [
    *("<", "<!--", "<a ", '<a b="', "<a a=b ", "<a =", "<div>", "</div>", "&", "&amp", "&#", "<!"),
    *(
        "<script>",
        "<title>",
        "<a href=x>",
        "<pre>\n ",
        "\n \n",
        "<nav>",
        "</",
        "<?",
        "<a\t/",
        "]]>",
    ),
    *("<svg>", "<a href=", "<textarea>", "<p", "<<a>>", "<a b='>"),
]


def test_the_work_grows_with_the_length_of_hostile_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search for an end succeeds, or is the last one of the page."""
    searches: list[int] = []
    real = html_tokens._after

    def after(page: str, end: str, position: int) -> int:
        result = real(page, end, position)
        searches.append(result - position)
        return result

    monkeypatch.setattr(html_tokens, "_after", after)
    for part in HOSTILE:
        page = part * 2000
        searches.clear()
        count = sum(1 for _ in tokens(page))
        assert count <= 2 * len(page), part
        assert sum(searches) <= len(page), part


@given(st.lists(st.sampled_from([*HOSTILE, "x", ">", "'", '"', "=", " ", "-->"]), max_size=30))
def test_any_markup_is_read_and_no_text_is_invented(parts: list[str]) -> None:
    page = "".join(parts)
    readable_page(page, URL)
    for token in tokens(page):
        if isinstance(token, Text):
            assert token.text in page
        else:
            assert isinstance(token, Start | End)
            assert token.name in page.lower()


@pytest.mark.parametrize(
    ("content", "header", "codec"),
    [
        (b"x", None, "utf-8"),
        (b"x", "UTF8", "utf-8"),
        (b"x", " gb2312 ", "gb18030"),
        (b"\xfe\xff\0x", None, "utf-16-be"),
        (b"<?xml version='1.0' encoding='windows-1251'?>", None, "cp1251"),
        (b'@charset "big5";', None, "big5hkscs"),
        (b"<meta http-equiv=x content='text/html; charset=euc-kr'>", None, "cp949"),
        (b"<meta charset=utf-16>", None, "utf-8"),
        (b"<meta charset=base64>", "rot13", "utf-8"),
        (b" " * 2000 + b"<meta charset=koi8-r>", None, "utf-8"),
    ],
)
def test_the_character_set_is_detected(content: bytes, header: str | None, codec: str) -> None:
    assert detect(content, header) == codec


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "utf-16-le", "gb18030", "cp932"]))
def test_any_bytes_become_a_text_that_can_be_encoded(content: bytes, codec: str) -> None:
    "".join(decode(content, codec)).encode()
