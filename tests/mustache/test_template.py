"""The Mustache engine: the rules of the language, its errors and its limits."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import InvalidParams
from hubd.mustache.parser import MAX_NESTING
from hubd.mustache.template import MAX_DEPTH, MAX_OUTPUT, MAX_STEPS, Template

NOTHING: dict[str, Any] = {}


def rendered(text: str, data: Any = NOTHING, **partials: str) -> str:
    others = {name: Template.parse(partial) for name, partial in partials.items()}
    return Template.parse(text).render(data, others)


def mistake(text: str) -> str:
    with pytest.raises(InvalidParams) as raised:
        Template.parse(text)
    return raised.value.message


def refusal(text: str, data: Any = NOTHING, **partials: str) -> str:
    with pytest.raises(InvalidParams) as raised:
        rendered(text, data, **partials)
    return raised.value.message


@pytest.mark.parametrize(
    "text", ["", "plain", "a } b }} c", "{ not a tag }", "tab\there\r\n\r\n", "Grüße, 世界\n"]
)
def test_text_without_tags_is_unchanged(text: str) -> None:
    assert rendered(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear {{who}},", "Dear Ann &amp; Bob,"),
        ("Dear {{ who }},", "Dear Ann &amp; Bob,"),
        ("Dear {{\n\twho\n}},", "Dear Ann &amp; Bob,"),
        ("Dear {{{who}}},", "Dear Ann & Bob,"),
        ("Dear {{{ who }}},", "Dear Ann & Bob,"),
        ("Dear {{&who}},", "Dear Ann & Bob,"),
        ("Dear {{& who }},", "Dear Ann & Bob,"),
        ("{{who}}{{who}}", "Ann &amp; BobAnn &amp; Bob"),
        ("{{nobody}}|{{{nobody}}}|{{&nobody}}", "||"),
        ("  {{nobody}}\n", "  \n"),
        ("{{Who}}", ""),
        ("{{größe}}", "XL"),
    ],
)
def test_a_tag_is_replaced_by_the_value_of_its_name(text: str, expected: str) -> None:
    assert rendered(text, {"who": "Ann & Bob", "größe": "XL"}) == expected


def test_html_is_escaped_by_default() -> None:
    data = {"x": "<a href=\"?q&r\" title='t'>"}
    escaped = "&lt;a href=&quot;?q&amp;r&quot; title=&#x27;t&#x27;&gt;"
    assert rendered("{{x}}", data) == escaped
    assert rendered("{{{x}}}", data) == rendered("{{&x}}", data) == data["x"]
    assert Template.parse("{{x}}").render(data, escape=False) == data["x"]


def test_values_are_not_parsed_as_templates() -> None:
    assert rendered("{{x}}", {"x": "{{y}}", "y": "!"}) == "{{y}}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-17, "-17"),
        (1.5, "1.5"),
        (1e100, "1e+100"),
        ("", ""),
        ([], "[]"),
        ({}, "{}"),
        ([1, None, "é"], '[1,null,"é"]'),
        ({"a": {"b": [True]}, "c": 2}, '{"a":{"b":[true]},"c":2}'),
    ],
)
def test_values_are_written_as_json_and_null_is_empty(value: Any, expected: str) -> None:
    assert rendered("{{{x}}}", {"x": value}) == expected
    assert rendered("{{{.}}}", value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{user.name}}", "Ann"),
        ("{{user.home.city}}", "Ulm"),
        ("{{{user.name}}}{{&user.name}}", "AnnAnn"),
        ("[{{user.age}}]", "[]"),
        ("[{{user.home.city.street}}]", "[]"),
        ("[{{nobody.name}}]", "[]"),
        ("[{{nothing.name}}]", "[]"),
        ("[{{list.0}}]", "[]"),
        # A key with a dot is not a path.
        ("[{{a.b}}]", "[]"),
        ("{{#user.home}}{{city}}{{/user.home}}", "Ulm"),
        ("{{^user.away}}in{{/user.away}}", "in"),
        # The nearest `user` counts, even where it has no such field.
        ("{{#other}}[{{user.name}}]{{/other}}", "[]"),
        ("{{#other}}{{user.nick}}{{/other}}", "Bo"),
        # The parts after the first are not looked up any farther out.
        ("{{#user}}[{{home.name}}]{{/user}}", "[]"),
    ],
)
def test_only_the_first_part_of_a_dotted_name_is_searched_in_outer_scopes(
    text: str, expected: str
) -> None:
    data = {
        "user": {"name": "Ann", "home": {"city": "Ulm"}},
        "other": {"user": {"nick": "Bo"}},
        "nothing": None,
        "list": ["x"],
        "a.b": "wrong",
    }
    assert rendered(text, data) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (1, True),
        (-0.5, True),
        ("no", True),
        ("0", True),
        ([0], True),
        ([[]], True),
        ({"a": 1}, True),
        ({}, True),
        (False, False),
        (None, False),
        (0, False),
        (0.0, False),
        ("", False),
        ([], False),
    ],
)
def test_a_section_is_shown_when_its_value_is_true_and_an_inverted_one_when_not(
    value: Any, shown: bool
) -> None:
    text = "{{#x}}yes{{/x}}{{^x}}no{{/x}}"
    assert rendered(text, {"x": value}) == ("yes" if shown else "no")


def test_missing_values_are_false() -> None:
    assert rendered("{{#x}}yes{{/x}}{{^x}}no{{/x}}{{#x.y}}yes{{/x.y}}{{^x.y}}no{{/x.y}}") == "nono"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{#fruit}}{{name}};{{/fruit}}", "fig;plum;"),
        ("{{#fruit}}{{name}} of {{farm}};{{/fruit}}", "fig of Oak;plum of Elm;"),
        ("{{#fruit}}{{#name}}<{{.}}>{{/name}}{{/fruit}}", "<fig><plum>"),
        ("{{#words}}{{.}} {{/words}}", "a &lt; "),
        ("{{#words}}{{{.}}} {{/words}}", "a < "),
        ("{{#words}}{{&.}}{{farm}} {{/words}}", "aElm <Elm "),
        ("{{#grid}}{{#.}}{{.}},{{/.}};{{/grid}}", "1,2,;;3,;"),
        ("{{#grid}}{{^.}}none{{/.}}{{/grid}}", "none"),
        ("{{#mixed}}[{{.}}]{{/mixed}}", "[][true][false][1.5][{&quot;a&quot;:1}]"),
        ("{{#farm}}{{.}} {{farm}}{{/farm}}", "Elm Elm"),
        ("{{#yes}}{{.}}{{/yes}}", "true"),
        ("{{#one}}{{a}}{{#two}}{{a}}{{b}}{{/two}}{{b}}{{/one}}", "112"),
        ("{{#one}}{{#one}}{{a}}{{/one}}{{/one}}", "1"),
        ("{{#one}}{{/one}}{{#fruit}}{{/fruit}}", ""),
        ("{{# one }}{{ a }}{{/ one }}", "1"),
        ("{{#one}}{{^a}}x{{/a}}{{^z}}{{a}}{{/z}}{{/one}}", "1"),
    ],
)
def test_a_section_is_repeated_for_a_list_and_its_value_is_searched_first(
    text: str, expected: str
) -> None:
    data = {
        "farm": "Elm",
        "fruit": [{"name": "fig", "farm": "Oak"}, {"name": "plum"}],
        "words": ["a", "<"],
        "grid": [[1, 2], [], [3]],
        "mixed": [None, True, False, 1.5, {"a": 1}],
        "one": {"a": 1, "b": 2, "two": {"b": ""}},
        "yes": True,
    }
    assert rendered(text, data) == expected


def test_a_null_field_hides_an_outer_field_of_the_same_name() -> None:
    assert rendered("{{#a}}[{{x}}]{{/a}}", {"x": 1, "a": {"x": None}}) == "[]"


def test_the_data_itself_may_be_a_list_or_a_value() -> None:
    assert rendered("{{#.}}{{n}}{{/.}}", [{"n": 1}, {"n": 2}]) == "12"
    assert rendered("<{{.}}>{{name}}", "x") == "<x>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{{! said }}b", "ab"),
        ("a {{!}} b", "a  b"),
        ("a{{! two\nlines }}b", "ab"),
        ("a{{!x}}\n", "a\n"),
        ("a\n{{! alone }}\nb", "a\nb"),
        ("a\n  {{! in }} \t\nb", "a\nb"),
        ("a\r\n{{! alone }}\r\nb", "a\r\nb"),
        ("a\n  {{! last }}", "a\n"),
        ("{{! first }}\nb", "b"),
        ("a\n  {{! two\nlines }}\nb", "a\nb"),
        ("a\n{{! one }}{{! two }}\nb", "a\n\nb"),
        ("a\n x{{! not alone }}\nb", "a\n x\nb"),
        ("{{! {{ # / = }}x", "x"),
    ],
)
def test_a_comment_alone_on_a_line_removes_the_line(text: str, expected: str) -> None:
    assert rendered(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| {{#t}}x{{/t}} |\n", "| x |\n"),
        ("a\n{{#t}}\nb\n{{/t}}\nc", "a\nb\nc"),
        ("a\n  {{#t}}  \n  b\n\t{{/t}}\t\nc", "a\n  b\nc"),
        ("a\r\n{{#t}}\r\nb\r\n{{/t}}\r\nc", "a\r\nb\r\nc"),
        ("{{#t}}\nb\n{{/t}}", "b\n"),
        ("a\n{{#f}}\nb\n{{/f}}\nc", "a\nc"),
        ("a\n{{^f}}\nb\n{{/f}}\nc", "a\nb\nc"),
        ("a\n {{^t}}\nb\n {{/t}}\nc\n", "a\nc\n"),
        ("{{#list}}\n- {{.}}\n{{/list}}\n", "- 1\n- 2\n"),
        ("a\n\n{{#t}}\n\nb\n\n{{/t}}\n\nc", "a\n\n\nb\n\n\nc"),
        # Not alone: text, a value or another tag is on the same line.
        (" {{#t}}b{{/t}}\n", " b\n"),
        ("{{#t}} b\n {{/t}}\n", " b\n"),
        ("{{#t}}\nb{{/t}}\n", "b\n"),
        (" {{#t}} {{/t}} \n", "   \n"),
        ("{{t}}\n  {{t}}\n", "true\n  true\n"),
        # A line that a tag has ended in the middle is not the next tag's alone.
        ("{{! a\nb }} {{#t}}\nx{{/t}}", " \nx"),
        # Only spaces and tabs are nothing; `\r` alone ends no line.
        ("\v{{#t}}\nx{{/t}}", "\v\nx"),
        ("a\r{{#t}}\nx{{/t}}", "a\r\nx"),
    ],
)
def test_a_line_with_only_a_section_tag_is_removed(text: str, expected: str) -> None:
    assert rendered(text, {"t": True, "f": False, "list": [1, 2]}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{=<% %>=}}<%x%> {{x}}", "1 {{x}}"),
        ("{{= | | =}}|x||#t|y|/t|", "1y"),
        ("{{=[ ]=}}[x][! gone ][&x][{x}]", "111"),
        ("{{=<% %>=}}<%={{ }}=%>{{x}}", "1"),
        ("{{=\n<%\n%>\n=}}<%x%>", "1"),
        ("a\n{{=<% %>=}}\nb", "a\nb"),
        ("a\n  {{=<% %>=}}", "a\n"),
        ("a\r\n {{=<% %>=}}\r\nb", "a\r\nb"),
        ("a {{=<% %>=}}\nb", "a \nb"),
        ("{{#t}}{{=<% %>=}}<%x%><%/t%><%x%>", "11"),
        # A partial begins with the usual ones, and changes them only for itself.
        ("{{=<% %>=}}<%>p%><%x%>", "1{{x}}1"),
    ],
)
def test_delimiters_are_used_until_the_next_change(text: str, expected: str) -> None:
    assert rendered(text, {"x": 1, "t": True}, p="{{x}}{{=( )=}}{{x}}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[{{>p}}]", "[<1>]"),
        ("[{{> p }}]", "[<1>]"),
        ("[{{>nobody}}]", "[]"),
        ("a\n  {{>nobody}}\nb", "a\nb"),
        ("{{#list}}{{>p}}{{/list}}", "<2><3>"),
        ("{{#list}}\n{{>p}}\n{{/list}}\n", "<2><3>"),
        ("{{>outer}}", "(<1>)"),
    ],
)
def test_a_partial_is_rendered_with_the_values_of_its_place(text: str, expected: str) -> None:
    data = {"x": 1, "list": [{"x": 2}, {"x": 3}]}
    assert rendered(text, data, p="<{{x}}>", outer="({{>p}})") == expected


@pytest.mark.parametrize(
    ("text", "partial", "expected"),
    [
        ("a\n  {{>p}}\nb", "1\n2\n", "a\n  1\n  2\nb"),
        ("a\n  {{>p}}\nb", "1\n2", "a\n  1\n  2b"),
        ("\t{{>p}}\r\n|", "1\r\n2\r\n", "\t1\r\n\t2\r\n|"),
        ("  {{>p}}", "1\n2", "  1\n  2"),
        ("{{>p}}\n|", "1\n2\n", "1\n2\n|"),
        # Lines of the partial are indented, not those of the values in it.
        ("  {{>p}}\n", "{{lines}}\n{{{lines}}}\n", "  x\ny\n  x\ny\n"),
        ("  {{>p}}\n", "a {{lines}}\nb\n", "  a x\ny\n  b\n"),
        # Empty lines stay empty.
        ("  {{>p}}\n", "1\n\n2\n\r\n\n3\n", "  1\n\n  2\n\r\n\n  3\n"),
        ("  {{>p}}\n", "\n1\n", "\n  1\n"),
        # Lines that only hold a tag are taken away before anything is indented.
        ("  {{>p}}\n", "{{#list}}\n- {{.}}\n{{/list}}\nend\n", "  - 1\n  - 2\n  end\n"),
        ("  {{>p}}\n", "{{! c }}\n1\n  {{! c }}\n2\n", "  1\n  2\n"),
        ("  {{>p}}\n", "{{#list}}{{.}}\n{{/list}}|\n", "  1\n  2\n  |\n"),
        ("  {{>p}}\n", "{{^list}}x{{/list}}\n", "  \n"),
        ("  {{>p}}\n", "{{x}}{{x}}\n{{x}}\n", "  \n  \n"),
        ("  {{>p}}\n", "{{! two\nlines }} 1\n2\n", "   1\n  2\n"),
        # Not alone on its line: nothing is indented.
        ("> {{>p}}\n", "1\n2", "> 1\n2\n"),
        ("  {{>p}} <\n", "1\n2", "  1\n2 <\n"),
        # Partials in partials: indentations add up, but only for those alone on their lines.
        ("  {{>p}}\n", "1\n {{>q}}\n2\n", "  1\n   a\n   b\n  2\n"),
        ("  {{>p}}\n", "{{>q}}\n", "  a\n  b\n"),
        ("  {{>p}}\n", "- {{>q}}2\n", "  - a\nb\n2\n"),
    ],
)
def test_a_partial_alone_on_its_line_is_indented(text: str, partial: str, expected: str) -> None:
    data = {"lines": "x\ny", "list": [1, 2]}
    assert rendered(text, data, p=partial, q="a\nb\n") == expected


def test_a_recursive_partial_ends_with_its_data() -> None:
    tree = {"name": "a", "below": [{"name": "b", "below": [{"name": "c", "below": []}]}]}
    branch = "{{name}}\n{{#below}}\n  {{>p}}\n{{/below}}\n"
    assert rendered("{{>p}}", tree, p=branch) == "a\n  b\n    c\n"


def test_partials_can_be_found_by_a_function() -> None:
    asked: list[str] = []

    def find(name: str) -> Template | None:
        asked.append(name)
        return Template.parse("!") if name == "p" else None

    assert Template.parse("{{>p}}{{>q}}{{#f}}{{>r}}{{/f}}").render({}, find) == "!"
    assert asked == ["p", "q"]
    assert Template.parse("a{{>p}}b").render({}) == "ab"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n{{#items}}\nc", "line 3: section 'items' is not closed"),
        ("{{#a}}\n{{^b}}\n{{/b}}\n", "line 1: section 'a' is not closed"),
        ("a\n{{/b}}", "line 2: section 'b' is closed but not open"),
        ("\n{{#a}}\n{{#b}}\n{{/a}}", "line 4: section 'a' is closed, but 'b' of line 3 is open"),
        ("{{#a}}{{/A}}", "line 1: section 'A' is closed, but 'a' of line 1 is open"),
        ("\n\n  {{name", "line 3: '{{' is not closed"),
        ("{{#name}", "line 1: '{{#' is not closed"),
        ("{{{name}}", "line 1: '{{{' is not closed"),
        ("{{!name", "line 1: '{{!' is not closed"),
        ("{{=<% %>}}", "line 1: '{{=' is not closed"),
        ("{{=<% %>=}}\n<%x}}", "line 2: '<%' is not closed"),
        ("a {{}} b", "line 1: a tag is empty"),
        ("{{ \n }}", "line 1: a tag is empty"),
        ("{{#}}{{/}}", "line 1: a tag is empty"),
        ("{{> }}", "line 1: a tag is empty"),
        ("{{#if x}}{{/if}}", "line 1: 'if x' is not a name"),
        ("{{a b}}", "line 1: 'a b' is not a name"),
        ("{{a..b}}", "line 1: 'a..b' is not a name"),
        ("{{#.a}}{{/.a}}", "line 1: '.a' is not a name"),
        ("{{a.}}", "line 1: 'a.' is not a name"),
        ("\n{{=<%=}}", "line 2: {{=<%=}} does not set two delimiters"),
        ("{{=a b c=}}", "line 1: {{=a b c=}} does not set two delimiters"),
        ("{{==a a===}}", "line 1: {{==a a===}} does not set two delimiters"),
        ("{{=a " + "b" * 21 + "=}}", "does not set two delimiters"),
        ("{{" + "n" * 201 + "}}", "is too long"),
        ("\n{{<layout}}{{/layout}}", "line 2: {{<layout}} is inheritance, which is not supported"),
        ("{{$title}}{{/title}}", "line 1: {{$title}} is inheritance, which is not supported"),
        ("{{>*which}}", "line 1: {{>*which}} is a dynamic name, which is not supported"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    problem = mistake(text)
    assert problem == message if message.startswith("line") else message in problem


def test_every_error_has_a_suggestion() -> None:
    with pytest.raises(InvalidParams) as raised:
        Template.parse("{{=<% %>=}}<%#items%>")
    assert raised.value.suggestion == "Close it with <%/items%>"


def test_messages_quote_only_the_start_of_a_wrong_text() -> None:
    assert len(mistake("{{" + "a b " * 10_000 + "}}")) < 100
    assert len(mistake("{{$" + "a" * 100_000 + "}}")) < 100


def test_nesting_is_limited() -> None:
    deep = "{{#a}}" * MAX_NESTING + "x" + "{{/a}}" * MAX_NESTING
    assert rendered(deep, {"a": True}) == "x"
    limit = f"line 1: sections are nested more than {MAX_NESTING} deep"
    assert mistake("{{#a}}" + deep + "{{/a}}") == limit
    assert mistake("{{#a}}" * 100_000) == limit
    assert mistake("{{^a}}" * 100_000) == limit


def test_too_long_output_is_rejected_before_it_is_built() -> None:
    full = "x" * MAX_OUTPUT
    assert rendered("{{x}}", {"x": full}) == full
    message = "the text would be longer than 1,048,576 bytes"
    assert refusal("{{x}}y", {"x": full}) == message
    assert refusal("y{{{x}}}", {"x": full}) == message
    # The limit counts bytes after escaping.
    assert refusal("{{x}}", {"x": "é" * (MAX_OUTPUT // 2 + 1)}) == message
    assert refusal("{{x}}", {"x": "&" * (MAX_OUTPUT // 5 + 1)}) == message
    assert refusal("{{{x}}}", {"x": [full]}) == message
    assert refusal("{{#a}}{{x}}{{/a}}", {"a": [0] * 100, "x": "x" * 100_000}) == message
    # Neither does a small partial with a wide indentation.
    assert refusal(" " * 100_000 + "{{>p}}\n", p="x\n" * 100_000) == message
    assert refusal("{{>p}}", p=" " * 100_000 + "{{>p}}\n") == message


@pytest.mark.parametrize(
    "text",
    [
        "{{#a}}{{#a}}{{#a}}{{/a}}{{/a}}{{/a}}",
        "{{#a}}{{#a}}{{nobody}}{{/a}}{{/a}}",
        "{{#a}}{{#a}}{{^a}}{{/a}}{{>nobody}}{{/a}}{{/a}}",
        "{{#a}}{{#a}}{{>empty}}{{/a}}{{/a}}",
    ],
)
def test_loops_without_output_are_limited(text: str) -> None:
    message = f"rendering would take more than {MAX_STEPS:,} steps"
    assert refusal(text, {"a": [1] * 1000}, empty="") == message


def test_lookups_in_many_scopes_count_as_steps() -> None:
    deep = "{{#a}}" * 99 + "{{#loop}}{{nobody}}{{/loop}}" + "{{/a}}" * 99
    one = "{{#loop}}{{nobody}}{{/loop}}"
    data = {"a": True, "loop": [1] * 20_000}
    assert rendered(one, data) == ""
    assert "steps" in refusal(deep, data)


def test_an_endless_partial_is_stopped_by_its_depth() -> None:
    message = f"partial 'p': partials are nested more than {MAX_DEPTH} deep"
    assert refusal("{{>p}}", p="{{>p}}") == message
    assert refusal("{{>p}}", p="{{>p}}{{>p}}") == message
    assert refusal("{{>p}}", {"a": [1, 2]}, p="x{{#a}}{{>p}}{{/a}}") == message
    # Deeper than Python's own limits.
    nested = "{{#a}}" * 99 + "{{>p}}" + "{{/a}}" * 99
    assert "more than" in refusal("{{>p}}", {"a": True}, p=nested)


def test_deep_data_does_not_crash_the_engine() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    assert rendered("{{#x}}ok{{/x}}", {"x": deep}) == "ok"
    assert refusal("{{x}}", {"x": deep}).startswith("'x' cannot be written as JSON")
    name = ".".join("a" * 50)
    nested: Any = 1
    for _ in range(50):
        nested = {"a": nested}
    assert rendered(f"{{{{{name}}}}}", nested) == "1"


@pytest.mark.parametrize("value", [1 << 20_000, float("inf"), {1}, object(), {("a",): 1}], ids=type)
def test_values_that_are_not_json_are_rejected_by_name(value: Any) -> None:
    assert refusal("{{a.b}}", {"a": {"b": value}}).startswith("'a.b' cannot be written as JSON")


def test_lambdas_are_rejected() -> None:
    message = "'x' is a function; lambdas are not supported"
    assert refusal("{{#x}}a{{/x}}", {"x": len}) == message
    assert refusal("{{^x}}a{{/x}}", {"x": len}) == message
    assert refusal("{{x}}", {"x": len}).startswith("'x' cannot be written as JSON")


def variables(text: str) -> list[str]:
    """The variables of a template, each with `#` for a section and `!` for a required one."""
    return [
        f"{entry.name}{'#' * entry.section}{'!' * entry.required}"
        for entry in Template.parse(text).variables
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing", []),
        ("{{b}} {{a}} {{b}}", ["b!", "a!"]),
        ("{{{a}}}{{&b}}", ["a!", "b!"]),
        ("{{user.name}}{{user}}", ["user.name!", "user!"]),
        ("{{.}}{{#.}}{{.}}{{/.}}", []),
        ("{{! a }}{{>b}}{{=<% %>=}}<%c%>{{d}}", ["c!"]),
        ("{{#items}}{{name}}{{/items}}{{who}}", ["items#", "name", "who!"]),
        ("{{^items}}{{who}}{{/items}}", ["items#", "who"]),
        ("{{#note}}Note: {{note}}{{/note}}", ["note#"]),
        ("{{note}}{{#note}}!{{/note}}", ["note#!"]),
        ("{{#a}}{{x}}{{/a}}{{x}}{{#x}}{{/x}}", ["a#", "x#!"]),
        ("{{#a.b}}{{c}}{{#d}}{{.}}{{/d}}{{/a.b}}", ["a.b#", "c", "d#"]),
    ],
)
def test_variables_are_listed_in_order_with_their_kind(text: str, expected: list[str]) -> None:
    assert variables(text) == expected


def test_partials_are_listed_once_in_order() -> None:
    template = Template.parse("{{>b}}{{#x}}{{> a.b }}{{/x}}{{>b}}")
    assert template.partials == ("b", "a.b")


# Texts in which tags, whole and broken, are likely.
SIGILS = st.sampled_from(
    ["{{", "}}", "{{{", "}}}", "<%", "%>", *"#^/&>!=$*{}.ab é\t\n\r\x00\u2028"]
)
TAGS = ["{{#a}}", "{{/a}}", "{{^b}}", "{{/b}}", "{{a}}", "{{{b.a}}}", "{{>p}}", "{{>q}}", "{{.}}"]
PIECES = SIGILS | st.sampled_from([*TAGS, "{{!c}}", "{{=<% %>=}}", "\r\n"])
TEXTS = st.text(max_size=40) | st.lists(PIECES, max_size=30).map("".join)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)
NAMES = st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True)


@given(TEXTS, TEXTS, JSON, st.booleans())
def test_any_template_renders_or_is_rejected(
    text: str, partial: str, data: Any, escape: bool
) -> None:
    with suppress(InvalidParams):
        template = Template.parse(text)
        partials = {"q": template}
        with suppress(InvalidParams):
            partials["p"] = Template.parse(partial)
        written = template.render(data, partials, escape=escape)
        assert len(written.encode(errors="surrogatepass")) <= MAX_OUTPUT


@given(st.text().filter(lambda text: "{{" not in text))
def test_any_text_without_tags_renders_as_itself(text: str) -> None:
    assert rendered(text) == text


@given(JSON)
def test_any_value_is_written_as_json_that_can_be_parsed(value: Any) -> None:
    written = rendered("{{{x}}}", {"x": value})
    if value is None:
        assert written == ""
    elif isinstance(value, str):
        assert written == value
    else:
        assert json.dumps(json.loads(written)) == json.dumps(value)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["{{%s}}", "{{{ %s }}}", "{{&%s}}"]))))
def test_the_variables_of_a_template_are_the_names_in_its_tags(
    named: list[tuple[str, str]],
) -> None:
    text = " and ".join(form % name for name, form in named)
    assert variables(text) == [f"{name}!" for name in dict.fromkeys(name for name, _ in named)]
    data: dict[str, Any] = {}
    for name, _ in named:
        place = data
        for part in name.split(".")[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                return  # a name that is also the beginning of another
        place.setdefault(name.split(".")[-1], name)
    written = rendered(text, data)
    assert all(name in written for name, _ in named)


@given(TEXTS.filter(lambda text: "{{" not in text and "}}" not in text), st.lists(st.text()))
def test_a_section_over_a_list_repeats_its_body_for_every_item(body: str, items: list[str]) -> None:
    text = f"<{{{{#x}}}}[{body}]{{{{/x}}}}>"
    assert rendered(text, {"x": items}) == f"<{f'[{body}]' * len(items)}>"
