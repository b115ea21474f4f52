"""mustache: templates by name, rendered with data or handles, and offered as prompts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.activation import InvalidParams, NotFound, Prompt
from hubd.mustache.parser import Variable
from hubd.mustache.template import MAX_OUTPUT, MAX_TEMPLATE
from hubd.plexus.hub import Hub
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.mustache import library, store
from hubd.plugins.mustache.plugin import Mustache
from hubd.plugins.mustache.prompts import SECTION, data_of
from hubd.wire.values import listed_values
from tests.support import Daemon, call_error, call_events, events_of, hub_with

HANDLE = "mustache@1.0.0::register_template:"


@pytest.fixture
def mustache() -> Mustache:
    return Mustache()


@pytest.fixture
async def hub(tmp_path: Path, mustache: Mustache) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, EchoPlugin(), mustache) as hub:
        yield hub


@pytest.fixture
def notified(hub: Hub) -> Iterator[list[str]]:
    """Return a list that collects the change notifications of the hub."""
    changes: list[str] = []
    with hub.listening(changes.append):
        yield changes


async def register(hub: Hub, name: str, template: str, **more: Any) -> dict[str, Any]:
    [event] = await call_events(
        hub, "mustache.register_template", name=name, template=template, **more
    )
    return event


async def render(hub: Hub, **params: Any) -> str:
    [event] = await call_events(hub, "mustache.render", **params)
    assert event.keys() == {"type", "text"}
    text: str = event["text"]
    return text


async def get(hub: Hub, name: str) -> dict[str, Any]:
    [event] = await call_events(hub, "mustache.get_template", name=name)
    return event


async def names(hub: Hub) -> list[str]:
    pages = await call_events(hub, "mustache.list_templates")
    return [entry["name"] for page in pages for entry in page["templates"]]


async def test_a_given_template_is_rendered_with_data(hub: Hub) -> None:
    template = "{{#people}}{{name}} & {{/people}}me"
    data = {"people": [{"name": "Ann"}, {"name": "<Bob>"}]}
    assert await render(hub, template=template, data=data) == "Ann & &lt;Bob&gt; & me"
    assert await render(hub, template=template, data=data, escape="none") == "Ann & <Bob> & me"
    assert await render(hub, template="{{a}}.") == "."


async def test_a_registered_template_is_rendered_by_name(hub: Hub) -> None:
    await register(hub, "greeting", "Hello {{name}}!")
    assert await render(hub, name="greeting", data={"name": "Ann"}) == "Hello Ann!"


async def test_data_overrides_the_data_behind_a_handle(
    hub: Hub,
) -> None:
    handle = "echo@1.0.0::once:hello%3A you"
    template = "{{message}} {{count}} {{who}}"
    assert await render(hub, template=template, handle=handle) == "hello: you 1 "
    data = {"count": 2, "who": "me"}
    assert await render(hub, template=template, handle=handle, data=data) == "hello: you 2 me"
    await register(hub, "said", "<{{message}}>")
    assert await render(hub, name="said", handle=handle) == "<hello: you>"
    assert await render(hub, template="{{template}}", handle=f"{HANDLE}said", escape="none") == (
        "<{{message}}>"
    )


@pytest.mark.parametrize(
    ("handle", "code"),
    [
        ("nonsense", "handle_invalid"),
        ("echo@1.0.0::nothing:x", "handle_not_supported"),
        ("echo@2.0.0::once:x", "version_unsupported"),
        ("nobody@1.0.0::once:x", "activation_not_found"),
        (f"{HANDLE}nobody", "handle_target_missing"),
    ],
)
async def test_an_unresolvable_handle_is_rejected(hub: Hub, handle: str, code: str) -> None:
    error = await call_error(hub, "mustache.render", template="x", handle=handle)
    assert error["code"] == code


@pytest.mark.parametrize("params", [{}, {"template": "x", "name": "y"}])
async def test_a_template_or_a_name_is_required(hub: Hub, params: dict[str, str]) -> None:
    error = await call_error(hub, "mustache.render", **params)
    assert error["code"] == "invalid_params"
    assert error["message"].startswith("give exactly one of template, name")


async def test_partials_are_registered_templates(hub: Hub) -> None:
    await register(hub, "row", "- {{.}}\n{{>end}}")
    await register(hub, "end", "{{^last}};{{/last}}\n")
    template = "{{title}}\n{{#rows}}\n  {{>row}}\n{{/rows}}\n{{>nobody}}"
    data = {"title": "All", "rows": [1, 2]}
    assert await render(hub, template=template, data=data) == "All\n  - 1\n  ;\n  - 2\n  ;\n"
    await register(hub, "page", template)
    assert await render(hub, name="page", data={**data, "last": 1}) == "All\n  - 1\n  \n  - 2\n  \n"


async def test_a_recursive_partial_ends_with_its_data(hub: Hub) -> None:
    await register(hub, "tree", "{{name}}({{#below}}{{>tree}}{{/below}})")
    data = {"name": "a", "below": [{"name": "b", "below": []}, {"name": "c", "below": []}]}
    assert await render(hub, name="tree", data=data) == "a(b()c())"
    await register(hub, "loop", "{{>loop}}")
    error = await call_error(hub, "mustache.render", name="loop")
    assert error["message"] == "partial 'loop': partials are nested more than 100 deep"


async def test_template_errors_name_the_line(hub: Hub) -> None:
    for method, name in (("render", {}), ("register_template", {"name": "bad"})):
        error = await call_error(hub, f"mustache.{method}", template="a\n{{#b}}", **name)
        assert (error["code"], error["message"]) == (
            "invalid_params",
            "line 2: section 'b' is not closed",
        )
        assert error["guidance"]["suggestion"] == "Close it with {{/b}}"
    assert await names(hub) == []


async def test_rendering_is_bounded(hub: Hub) -> None:
    nested = "{{#a}}{{#a}}{{#a}}{{/a}}{{/a}}{{/a}}"
    error = await call_error(hub, "mustache.render", template=nested, data={"a": [1] * 1000})
    assert (error["code"], error["message"]) == (
        "invalid_params",
        "rendering would take more than 100,000 steps",
    )
    long = {"a": [1] * 20, "b": "x" * (MAX_OUTPUT // 10)}
    error = await call_error(hub, "mustache.render", template="{{#a}}{{b}}{{/a}}", data=long)
    assert error["message"] == "the text would be longer than 1,048,576 bytes"


async def test_the_number_and_length_of_partials_are_limited(hub: Hub) -> None:
    many = "".join(f"{{{{>p{n}}}}}" for n in range(library.MAX_PARTIALS + 1))
    error = await call_error(hub, "mustache.render", template=many)
    assert error["message"] == "the template has more than 100 partials"
    long = "x" * MAX_TEMPLATE
    for n in range(4):
        await register(hub, f"long{n}", f"{{{{>long{n + 1}}}}}{long[30:]}")
    assert len(await render(hub, name="long1")) < MAX_OUTPUT
    await register(hub, "long4", f"{{{{>long0}}}}{long[30:]}")
    error = await call_error(hub, "mustache.render", name="long1")
    assert error["message"] == "the partials have more than 1,048,576 characters"


async def test_register_template_returns_the_variables_and_a_handle(hub: Hub) -> None:
    event = await register(hub, "mail", "{{to.name}} {{#lines}}{{text}}{{/lines}}{{me}}")
    assert event == {
        "type": "template_registered",
        "name": "mail",
        "variables": ["to.name", "lines", "text", "me"],
        "replaced": False,
        "handle_type": None,
        "style": None,
        "handle": f"{HANDLE}mail",
    }


async def test_get_template_returns_all_fields(hub: Hub) -> None:
    text = "{{to}}{{#lines}}{{text}}{{/lines}}{{>sign}}\r\n"
    await register(hub, "mail", text, description="A letter")
    template = await get(hub, "mail")
    created_at, changed = template.pop("created_at"), template.pop("updated_at")
    assert isinstance(created_at, int)
    assert created_at == changed
    assert template == {
        "type": "template",
        "name": "mail",
        "template": text,
        "description": "A letter",
        "variables": ["to", "lines", "text"],
        "required": ["to"],
        "sections": ["lines"],
        "partials": ["sign"],
        "handle": f"{HANDLE}mail",
    }


async def test_a_handle_resolves_to_the_current_template(hub: Hub) -> None:
    handle = (await register(hub, "mail", "one", description="A letter"))["handle"]
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert (resolved["kind"], resolved["summary"]) == ("document", "mail A letter")
    assert resolved["data"] == await get(hub, "mail")
    await register(hub, "mail", "two", replace=True)
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert resolved["data"]["template"] == "two"
    await call_events(hub, "mustache.delete_template", name="mail")
    error = await call_error(hub, "plexus.resolve_handle", handle=handle)
    assert error["code"] == "handle_target_missing"


async def test_registering_the_same_template_twice_changes_nothing(
    hub: Hub, notified: list[str]
) -> None:
    await register(hub, "mail", "one", description="A letter")
    before = await get(hub, "mail")
    assert notified == ["prompts"]
    for replace in (False, True):
        event = await register(hub, "mail", "one", description="A letter", replace=replace)
        assert event["replaced"] is False
    assert await get(hub, "mail") == before
    assert notified == ["prompts"]


@pytest.mark.parametrize(
    ("template", "description"), [("two", "A letter"), ("one", ""), ("two", "")]
)
async def test_a_taken_name_is_a_conflict_without_replace(
    hub: Hub, notified: list[str], template: str, description: str
) -> None:
    await register(hub, "mail", "one", description="A letter")
    before = await get(hub, "mail")
    given = {"name": "mail", "template": template, "description": description}
    error = await call_error(hub, "mustache.register_template", **given)
    assert (error["code"], error["message"]) == (
        "conflict",
        "there is another template named 'mail'",
    )
    assert "replace" in error["guidance"]["suggestion"]
    assert await get(hub, "mail") == before
    event = await register(hub, "mail", template, description=description, replace=True)
    assert event["replaced"] is True
    after = await get(hub, "mail")
    assert (after["template"], after["description"]) == (template, description)
    assert after["created_at"] == before["created_at"]
    assert notified == ["prompts", "prompts"]


async def test_replacing_a_missing_template_adds_it(hub: Hub) -> None:
    assert (await register(hub, "mail", "one", replace=True))["replaced"] is False


@pytest.mark.parametrize("name", ["a", "9", "a.b_c-D", "x" * 100, "Mail", "mail"])
async def test_valid_names_are_accepted(hub: Hub, name: str) -> None:
    await register(hub, name, "{{x}}")
    assert await names(hub) == [name]
    assert await render(hub, name=name, data={"x": 1}) == "1"


@pytest.mark.parametrize(
    "name", ["", ".a", "-a", "_a", "a b", "a/b", "a:b", "ä", "a\n", "\na", "x" * 101]
)
async def test_invalid_names_are_rejected(hub: Hub, name: str) -> None:
    error = await call_error(hub, "mustache.register_template", name=name, template="x")
    assert error["code"] == "invalid_params"
    assert "'name'" in error["message"]


async def test_too_long_texts_are_rejected(hub: Hub) -> None:
    await register(hub, "most", "x" * MAX_TEMPLATE, description="y" * 1000)
    for more in ({"template": "x" * (MAX_TEMPLATE + 1)}, {"description": "y" * 1001}):
        given = {"name": "more", "template": "x", **more}
        error = await call_error(hub, "mustache.register_template", **given)
        assert error["code"] == "invalid_params"
    error = await call_error(hub, "mustache.render", template="x" * (MAX_TEMPLATE + 1))
    assert error["code"] == "invalid_params"


async def test_an_unknown_name_is_answered_with_the_nearest_names(hub: Hub) -> None:
    for method in ("get_template", "delete_template", "render"):
        error = await call_error(hub, f"mustache.{method}", name="greting")
        assert (error["code"], error["message"]) == (
            "not_found",
            "there is no template 'greting'",
        )
        assert error["guidance"]["available"] == []
    for name in ("weekly", "greeting", "meeting"):
        await register(hub, name, "x")
    for method in ("get_template", "delete_template", "render"):
        error = await call_error(hub, f"mustache.{method}", name="greting")
        assert error["guidance"]["available"] == ["greeting", "meeting", "weekly"]
        assert error["guidance"]["suggestion"] == "Did you mean greeting?"
        error = await call_error(hub, f"mustache.{method}", name="ü b")
        assert error["guidance"]["suggestion"] == (
            "List the templates with `synapse mustache list-templates`"
        )


async def test_the_search_for_nearest_names_does_not_block_other_calls(hub: Hub) -> None:
    for number in range(300):
        await register(hub, f"{number:a>100}", "x")
    ended: list[str] = []

    async def miss() -> None:
        error = await call_error(hub, "mustache.get_template", name="a" * 100)
        assert error["code"] == "not_found"
        ended.append("nearest")

    async def other() -> None:
        await call_events(hub, "echo.once", message="x")
        ended.append("other")

    await asyncio.gather(miss(), other())
    assert ended == ["other", "nearest"]


async def test_templates_are_listed_by_name(hub: Hub) -> None:
    assert await call_events(hub, "mustache.list_templates") == [
        {"type": "template_list", "templates": []}
    ]
    await register(hub, "b", "{{x}}{{#y}}{{z}}{{/y}}", description="The second")
    await register(hub, "a", "")
    [page] = await call_events(hub, "mustache.list_templates")
    times = [entry.pop("updated_at") for entry in page["templates"]]
    assert all(isinstance(time, int) for time in times)
    assert page["templates"] == [
        {"name": "a", "description": "", "variables": [], "handle_types": []},
        {
            "name": "b",
            "description": "The second",
            "variables": ["x", "y", "z"],
            "handle_types": [],
        },
    ]
    # Shells complete names with this list.
    spec = Mustache.methods["render"]
    assert spec.annotations["completes"] == {"name": "mustache.list_templates"}
    assert listed_values("name", page) == ["a", "b"]


@pytest.mark.parametrize("count", [3, 4, 5])
async def test_many_templates_are_listed_in_pages(
    hub: Hub, mustache: Mustache, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(store, "ROWS_PER_ITEM", 2)
    expected = [f"t{n}" for n in range(count)]
    for name in reversed(expected):
        await register(hub, name, "x")
    pages = await call_events(hub, "mustache.list_templates")
    sizes = [len(page["templates"]) for page in pages]
    assert sizes == [2] * (count // 2) + [1] * (count % 2)
    assert await names(hub) == expected
    assert [prompt.name for prompt in await mustache.offer_prompts()] == expected


async def test_the_name_of_a_deleted_template_is_free(hub: Hub, notified: list[str]) -> None:
    await register(hub, "mail", "one")
    [event] = await call_events(hub, "mustache.delete_template", name="mail")
    assert event == {"type": "template_deleted", "name": "mail"}
    assert await names(hub) == []
    assert notified == ["prompts", "prompts"]
    assert (await call_error(hub, "mustache.delete_template", name="mail"))["code"] == "not_found"
    assert notified == ["prompts", "prompts"]
    assert (await register(hub, "mail", "two"))["replaced"] is False


def offered(prompts: Any) -> dict[str, list[str]]:
    """Return the arguments of every prompt, with `#` for a section and `!` if required."""
    return {
        prompt.name: [
            f"{blank.name}{'#' * (blank.description == SECTION)}{'!' * blank.required}"
            for blank in prompt.arguments
        ]
        for prompt in prompts
    }


async def test_every_template_is_a_prompt_with_an_argument_for_each_variable(
    hub: Hub, mustache: Mustache
) -> None:
    assert await mustache.offer_prompts() == []
    await register(hub, "plain", "nothing", description="No blanks")
    await register(
        hub, "mail", "{{to.name}}{{#lines}}{{text}}{{/lines}}{{^lines}}{{why}}{{/lines}}"
    )
    mail, plain = await mustache.offer_prompts()
    assert plain == Prompt("plain", "No blanks")
    assert offered([mail]) == {"mail": ["to.name!", "lines#", "text", "why"]}


async def test_the_variables_of_partials_are_optional_arguments(
    hub: Hub, mustache: Mustache
) -> None:
    await register(hub, "a", "{{x}}{{>b}}{{>nobody}}")
    await register(hub, "b", "{{y}}{{#x}}{{/x}}{{>c}}")
    await register(hub, "c", "{{#z}}{{>a}}{{/z}}")
    assert offered(await mustache.offer_prompts()) == {
        "a": ["x#!", "y", "z#"],
        "b": ["y!", "x#", "z#"],
        "c": ["z#", "x#", "y"],
    }
    [message] = await mustache.fill_prompt("a", {"x": "1", "y": "2"})
    assert message.text == "12"


async def test_a_filled_prompt_is_one_unescaped_message(hub: Hub, mustache: Mustache) -> None:
    template = "Dear {{to.name}} <{{to.mail}}>{{#all}}, all{{/all}}{{#list}}\n- {{.}}{{/list}}"
    await register(hub, "mail", template)
    given = {"to.name": "Ann & Bob", "to.mail": "a@b", "all": "true", "list": '["x", "<y>"]'}
    [message] = await mustache.fill_prompt("mail", given)
    assert message.role == "user"
    assert message.text == "Dear Ann & Bob <a@b>, all\n- x\n- <y>"
    given = {"to.name": "Ann", "to.mail": "", "all": "false", "list": "just text"}
    [message] = await mustache.fill_prompt("mail", given)
    assert message.text == "Dear Ann <>\n- just text"


async def test_an_unknown_prompt_is_not_found(hub: Hub, mustache: Mustache) -> None:
    with pytest.raises(NotFound, match="there is no template 'nobody'"):
        await mustache.fill_prompt("nobody", {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        (" false ", False),
        ("null", None),
        ('["a", {"b": 1}]', ["a", {"b": 1}]),
        ('{"a": null}', {"a": None}),
        ('"quoted"', "quoted"),
        ("plain", "plain"),
        ("[not, json", "[not, json"),
        # As it was typed, since it is to be shown so.
        ("1.10", "1.10"),
        ("007", "007"),
        ("-3", "-3"),
        ("1e5", "1e5"),
        ("0", 0),
        ("NaN", "NaN"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_section_arguments_are_parsed_as_json_if_valid(text: str, value: Any) -> None:
    section = Variable("x", section=True, required=False)
    read = data_of([section], {"x": text})
    assert read == {"x": value}
    assert type(read["x"]) is type(value)
    plain = Variable("x", section=False, required=True)
    assert data_of([plain], {"x": text}) == {"x": text}


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        ({"a.b": "1", "a.c.d": "2", "e": "3"}, {"a": {"b": "1", "c": {"d": "2"}}, "e": "3"}),
        ({"a.b": "1", "a": '{"b": 2, "c": 3}'}, {"a": {"b": "1", "c": 3}}),
        ({"a": "", "a.b": "1", "c": ""}, {"a": {"b": "1"}}),
        ({"a": "x", "a.b": ""}, {"a": "x"}),
    ],
)
def test_dotted_names_become_fields_and_empty_texts_are_ignored(
    arguments: dict[str, str], data: dict[str, Any]
) -> None:
    assert data_of([Variable("a", section=True, required=False)], arguments) == data


def test_a_name_used_as_text_and_as_object_is_rejected() -> None:
    with pytest.raises(InvalidParams, match=r"'a\.b' is a field, but 'a' is not an object"):
        data_of([], {"a": "x", "a.b": "y"})


@given(
    st.dictionaries(
        st.from_regex(r"[ab](\.[ab]){0,2}", fullmatch=True), st.text(max_size=3) | st.just("[]")
    )
)
def test_any_arguments_become_data_or_an_error(arguments: dict[str, str]) -> None:
    sections = [Variable(name, section=True, required=False) for name in arguments]
    try:
        data = data_of(sections, arguments)
    except InvalidParams:
        assert any("." in name for name in arguments)
    else:
        assert {name.split(".")[0] for name, text in arguments.items() if text} == set(data)


def test_templates_survive_a_killed_daemon(home: Path) -> None:
    with Daemon(home) as daemon:
        for n in range(3):
            given = {"name": f"t{n}", "template": f"{n}: {{{{x}}}}", "description": "d"}
            [event] = events_of(home, "mustache.register_template", **given)
            assert event["variables"] == ["x"]
        [_] = events_of(home, "mustache.delete_template", name="t1")
        before = events_of(home, "mustache.list_templates")
        daemon.kill()
        daemon.start()
        assert events_of(home, "mustache.list_templates") == before
        assert [entry["name"] for entry in before[0]["templates"]] == ["t0", "t2"]
        [rendered] = events_of(home, "mustache.render", name="t2", data={"x": "still here"})
        assert rendered["text"] == "2: still here"
