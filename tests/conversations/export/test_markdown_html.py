"""Text as HTML: Markdown is shown, and nothing of the text becomes an element or an address."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.conversations.export.html.markdown_html import MAX_LENGTH, markdown_html
from tests.conversations.export.page_reader import Page

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</div></article></body><script src=//evil></script>",
    "<img src=x onerror=alert(1)>",
    '<svg onload="alert(1)"><a xlink:href="javascript:alert(1)">x</a></svg>',
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example)",
    "![x](https://evil.example/pixel.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    '[x](https://evil.example/"onclick="alert(1))',
    "<javascript:alert(1)> <https://example.org/?a=1&b=\"'>",
    "```<script>\n</code></pre><script>\n```",
    "`</code><script>`",
    "# <b onclick=x>\n\n> <style>*{display:none}</style>",
    "| <script> | a |\n|---|---|\n| </table> | `|` |",
    "<!-- comment --> <![CDATA[ x ]]> <?php x ?> <!DOCTYPE html>",
    "a &lt;script&gt; &amp;lt; &#60;script&#62;",
    "1000000000. x\n\n7) y",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_becomes_no_element_and_no_address(text: str) -> None:
    page = Page(markdown_html(text))
    assert page.problems == []
    assert not {"script", "svg", "iframe", "img", "style"} & set(page.elements)
    assert [link for link in page.external if "javascript" in link] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** *b* ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <s>c</s> <code>d</code></p>"),
        ("# a", "<h3>a</h3>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("3. a", '<ol start="3"><li>a</li></ol>'),
        ("a  \nb\nc", "<p>a<br>b\nc</p>"),
        ("```sh\nx\n```", '<span class="language">sh</span><pre><code>x\n</code></pre>'),
        (
            "|a|b|c|\n|-|-:|:-:|\n|1|2|3|",
            "<table><thead><tr>"
            '<th>a</th><th class="right">b</th><th class="center">c</th>'
            "</tr></thead><tbody><tr>"
            '<td>1</td><td class="right">2</td><td class="center">3</td>'
            "</tr></tbody></table>",
        ),
        ("[x]: https://example.org", "<p>[x]: https://example.org</p>"),
        ("a\u202eb \x1b[31m", "<p>a‹U+202E›b ‹U+001B›[31m</p>"),
        ("&#x202E;&#27;", "<p>‹U+202E›\ufffd</p>"),
        ("a\r\nb", "<p>a\nb</p>"),
    ],
)
def test_markdown_is_shown(text: str, expected: str) -> None:
    assert markdown_html(text) == expected


def test_a_link_shows_its_host() -> None:
    html = markdown_html("[https://bank.example](https://evil.example/x)")
    assert Page(html).external == ["https://evil.example/x"]
    assert html.endswith('https://bank.example</a><span class="host"> (evil.example)</span></p>')


@given(
    st.lists(
        st.sampled_from(
            [
                *"[](){}<>!*_`~#>|:-+\\&;\"'= \n\t",
                "a",
                "1.",
                "  ",
                "```",
                "---",
                "http://x",
                "\u202e",
            ]
        ),
        max_size=60,
    ).map("".join)
)
def test_any_markdown_becomes_balanced_and_allowed_elements(text: str) -> None:
    page = Page(markdown_html(text))
    assert page.problems == []
    # No word of the text is lost.
    assert page.text.count("a") >= text.count("a")


@pytest.mark.parametrize(
    "text",
    [
        "> " * 500 + "end",
        "- " * 500 + "end",
        "\n".join("  " * level + "- end" for level in range(200)),
        "[" * 40_000 + "end",
        "![" * 20_000 + "end",
        "*a " * 10_000 + "end",
        "x" * MAX_LENGTH + " end",
    ],
)
def test_text_that_is_hard_to_parse_is_whole(text: str) -> None:
    page = Page(markdown_html(text))
    assert page.problems == []
    assert page.text.count("end") == text.count("end")
    assert re.search("end\\s*$", page.text)
