"""The tools, resources and prompts that the official conformance suite requires.

A plugin for tests only: all of it goes through the one registration point for what no method
describes. Functions that answer a tool are called as their tool, those for prompts as theirs.
"""

import io
import json
import struct
import warnings
import wave
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    InputResponses,
    ListRootsRequest,
    ListRootsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)

from hubd.activation import Activation, McpRegistry
from hubd.mcp.registry import CallTool, Ctx, GetPrompt, Registry

ToolAnswer = CallToolResult | InputRequiredResult
R = TypeVar("R", bound=InputResponse)

# The exact texts that the suite looks for in the list.
SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_TOOLS: Final[list[tuple[Tool, CallTool]]] = []
_PROMPTS: Final[list[tuple[Prompt, GetPrompt]]] = []


class Fixtures(Activation, namespace="conformance", version="1.0.0"):
    """Tools, resources and prompts for the conformance suite of MCP."""

    def extend_mcp(self, registry: McpRegistry) -> None:
        """Publish everything the suite asks for."""
        assert isinstance(registry, Registry)
        for tool, call in _TOOLS:
            registry.add_tool(tool, call)
        for prompt, get in _PROMPTS:
            registry.add_prompt(prompt, get)
        for name, mime_type, read in (
            ("static-text", "text/plain", _read_text),
            ("static-binary", "image/png", _read_binary),
            ("watched-resource", "text/plain", _read_text),
        ):
            registry.add_resource(
                Resource(uri=f"test://{name}", name=name, description=name, mime_type=mime_type),
                read,
            )
        template = ResourceTemplate(
            uri_template="test://template/{id}/data",
            name="template",
            description="Data of any id",
            mime_type="application/json",
        )
        registry.add_template(template, _read_template)
        registry.add_request("logging/setLevel", SetLevelRequestParams, _set_level)
        self._add_triggers(registry)

    def _add_triggers(self, registry: Registry) -> None:
        """Tools that make another tool, or prompt, come and go."""

        async def change_tools(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
            tool = _describe("test_that_comes_and_goes", "There every other time", {})
            if registry.tools.pop(tool.name, None) is None:
                registry.add_tool(tool, test_simple_text)
            registry.changes.tools_changed()
            return _text("the tools changed")

        async def change_prompts(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
            prompt = Prompt(name="test_that_comes_and_goes", description="There every other time")
            if registry.prompts.pop(prompt.name, None) is None:
                registry.add_prompt(prompt, test_simple_prompt)
            registry.changes.prompts_changed()
            return _text("the prompts changed")

        registry.add_tool(_describe("test_trigger_tool_change", "Change tools", {}), change_tools)
        registry.add_tool(
            _describe("test_trigger_prompt_change", "Change prompts", {}), change_prompts
        )


def _describe(name: str, description: str, schema: Mapping[str, Any]) -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object", **schema})


def _tool(description: str, **schema: Any) -> Callable[[CallTool], CallTool]:
    """Publish a function as a tool. `schema` is added to its schema."""

    def publish(call: CallTool) -> CallTool:
        _TOOLS.append((_describe(_name(call), description, schema), call))
        return call

    return publish


def _prompt(description: str, *arguments: str) -> Callable[[GetPrompt], GetPrompt]:
    """Publish a function as a prompt. All of its arguments are required."""

    def publish(get: GetPrompt) -> GetPrompt:
        expected = [PromptArgument(name=name, required=True) for name in arguments]
        prompt = Prompt(name=_name(get), description=description, arguments=expected)
        _PROMPTS.append((prompt, get))
        return get

    return publish


def _name(function: Callable[..., object]) -> str:
    name: str = function.__name__
    return name


# Tools: kinds of content


@_tool("Return a text")
async def test_simple_text(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return _text("This is a simple text response for testing.")


@_tool("Return an image")
async def test_image_content(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return _content(_image())


@_tool("Return a sound")
async def test_audio_content(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return _content(AudioContent(data=_base64(_wav()), mime_type="audio/wav"))


@_tool("Return a resource")
async def test_embedded_resource(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    text = "This is an embedded resource content."
    return _content(_embedded("test://embedded-resource", "text/plain", text))


@_tool("Return several kinds of content")
async def test_multiple_content_types(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    data = json.dumps({"test": "data", "value": 123})
    return _content(
        TextContent(text="Multiple content types test:"),
        _image(),
        _embedded("test://mixed-content-resource", "application/json", data),
    )


@_tool("Fail")
async def test_error_handling(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    text = TextContent(text="This tool intentionally returns an error for testing")
    return CallToolResult(content=[text], is_error=True)


# Tools: schemas


@_tool("A schema with much of JSON Schema 2020-12", **SCHEMA_2020_12)
async def json_schema_2020_12_tool(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return _text(json.dumps(params.arguments))


@_tool(
    "A parameter that clients repeat in a header",
    properties={"region": {"type": "string", "x-mcp-header": "Region"}},
    required=["region"],
)
async def test_header_parameter(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return _text(json.dumps(params.arguments))


# Tools: messages while they run


@_tool("Report progress")
async def test_tool_with_progress(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
    return _text("three reports, for who asked for them")


@_tool("Write three lines to the log")
async def test_tool_with_logging(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(ctx, line)
    return _text("three lines in the log")


@_tool("Write to the log, which only those may see who asked for it")
async def test_logging_tool(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    await _log(ctx, "a line")
    return _text("a line in the log, for who asked for it")


@_tool("Close the stream of the answer, for the client to come back for it")
async def test_reconnection(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    # Only on a server that keeps sent events.
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    return _text("the end")


# Tools: questions to the client, before 2026-07-28


@_tool("Ask the client's model", properties={"prompt": {"type": "string"}}, required=["prompt"])
async def test_sampling(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    question = _sampling(str((params.arguments or {})["prompt"]))
    result = await ctx.session.send_request(
        question,
        CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    return _text(f"LLM response: {_said(result)}")


@_tool("Ask the client's user", properties={"message": {"type": "string"}}, required=["message"])
async def test_elicitation(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await _elicit(ctx, str((params.arguments or {})["message"]), fields)


@_tool("Ask the client's user, with something filled in already")
async def test_elicitation_sep1034_defaults(
    ctx: Ctx, params: CallToolRequestParams
) -> CallToolResult:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(ctx, "Please look through these", fields)


@_tool("Ask the client's user to choose, in all five ways there are")
async def test_elicitation_sep1330_enums(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    plain = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{number}", "title": title}
        for number, title in enumerate(("First", "Second", "Third"), 1)
    ]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicit(ctx, "Please choose", fields)


# Tools: questions to the client, since 2026-07-28


@_tool("Need a client that can ask a model")
async def test_missing_capability(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return _text("this client can")


@_tool("Report progress, then ask the user")
async def test_streaming_elicitation(ctx: Ctx, params: CallToolRequestParams) -> ToolAnswer:
    await ctx.session.report_progress(1, 2)
    return _ask({"confirm": _form("Go on?", ok="boolean")})


@_tool("Ask the user's name")
async def test_input_required_result_elicitation(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    answer = _answer(params.input_responses, "user_name", ElicitResult)
    if answer is None:
        return _ask({"user_name": _form("What is your name?", name="string")})
    return _text(f"Hello, {(answer.content or {}).get('name')}!")


@_tool("Ask a model")
async def test_input_required_result_sampling(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    answer = _answer(params.input_responses, "capital_question", CreateMessageResult)
    if answer is None:
        return _ask({"capital_question": _sampling("What is the capital of France?")})
    return _text(_said(answer))


@_tool("Ask where the client works")
async def test_input_required_result_list_roots(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    answer = _answer(params.input_responses, "client_roots", ListRootsResult)
    if answer is None:
        return _ask({"client_roots": ListRootsRequest()})
    return _text(", ".join(str(root.uri) for root in answer.roots))


@_tool("Ask, and remember having asked")
async def test_input_required_result_request_state(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    answer = _answer(params.input_responses, "confirm", ElicitResult)
    if answer is None or params.request_state != "asked":
        return _ask({"confirm": _form("Please confirm", ok="boolean")}, "asked")
    return _text("state-ok")


@_tool("The same, for a client that changes what it was given to remember")
async def test_input_required_result_tampered_state(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    return await test_input_required_result_request_state(ctx, params)


@_tool("Ask for three things at once")
async def test_input_required_result_multiple_inputs(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    given = params.input_responses
    name = _answer(given, "user_name", ElicitResult)
    greeting = _answer(given, "greeting", CreateMessageResult)
    roots = _answer(given, "client_roots", ListRootsResult)
    if name is None or greeting is None or roots is None or params.request_state != "asked":
        questions: dict[str, InputRequest] = {
            "user_name": _form("What is your name?", name="string"),
            "greeting": _sampling("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        return _ask(questions, "asked")
    return _text(f"{_said(greeting)} {name.content} {len(roots.roots)}")


@_tool("Ask twice, the second time knowing the first answer")
async def test_input_required_result_multi_round(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    earlier: dict[str, Any] = json.loads(params.request_state or "{}")
    for step, question, field in (
        ("step1", "Step 1: What is your name?", "name"),
        ("step2", "Step 2: What is your favorite color?", "color"),
    ):
        if step in earlier:
            continue
        answer = _answer(params.input_responses, step, ElicitResult)
        if answer is None or "asked" not in earlier:
            state = json.dumps({**earlier, "asked": step})
            return _ask({step: _form(question, **{field: "string"})}, state)
        earlier[step] = answer.content
    return _text(json.dumps(earlier))


@_tool("Ask only what the client can answer")
async def test_input_required_result_capabilities(
    ctx: Ctx, params: CallToolRequestParams
) -> ToolAnswer:
    capabilities = ctx.session.client_capabilities
    questions: dict[str, InputRequest] = {}
    if capabilities is not None and capabilities.sampling is not None:
        questions["model"] = _sampling("Say something")
    if capabilities is not None and capabilities.elicitation is not None:
        questions["user"] = _form("Say something", text="string")
    if not questions or params.input_responses:
        return _text("that is all")
    return _ask(questions)


# Prompts


@_prompt("A prompt")
async def test_simple_prompt(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    return _messages(TextContent(text="This is a simple prompt for testing."))


@_prompt("A prompt with blanks", "arg1", "arg2")
async def test_prompt_with_arguments(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    filled = ", ".join(f"{name}='{value}'" for name, value in (params.arguments or {}).items())
    return _messages(TextContent(text=f"Prompt with arguments: {filled}"))


@_prompt("A prompt with a resource", "resourceUri")
async def test_prompt_with_embedded_resource(
    ctx: Ctx, params: GetPromptRequestParams
) -> GetPromptResult:
    uri = (params.arguments or {})["resourceUri"]
    return _messages(
        _embedded(uri, "text/plain", "Embedded resource content for testing."),
        TextContent(text="Please process the embedded resource above."),
    )


@_prompt("A prompt with an image")
async def test_prompt_with_image(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    return _messages(_image(), TextContent(text="Please analyze the image above."))


@_prompt("A prompt that asks first")
async def test_input_required_result_prompt(
    ctx: Ctx, params: GetPromptRequestParams
) -> GetPromptResult | InputRequiredResult:
    answer = _answer(params.input_responses, "user_context", ElicitResult)
    if answer is None:
        question = "What context should the prompt use?"
        return _ask({"user_context": _form(question, context="string")})
    return _messages(TextContent(text=f"In this context: {answer.content}"))


# Resources, and the level of the log


async def _read_text(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
    text = "This is the content of the static text resource."
    return ReadResourceResult(
        contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=text)]
    )


async def _read_binary(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
    return ReadResourceResult(
        contents=[BlobResourceContents(uri=uri, mime_type="image/png", blob=_base64(_png()))]
    )


async def _read_template(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
    number = variables["id"]
    text = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
    return ReadResourceResult(
        contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)]
    )


async def _set_level(ctx: Ctx, params: SetLevelRequestParams) -> EmptyResult:
    return EmptyResult()


# Helpers of the above


def _text(text: str) -> CallToolResult:
    return _content(TextContent(text=text))


def _content(*blocks: ContentBlock) -> CallToolResult:
    return CallToolResult(content=list(blocks))


def _messages(*blocks: ContentBlock) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in blocks])


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _image() -> ImageContent:
    return ImageContent(data=_base64(_png()), mime_type="image/png")


async def _log(ctx: Ctx, line: str) -> None:
    with warnings.catch_warnings():
        # The suite tests a feature that the protocol has deprecated.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        sending = ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
    await sending


async def _elicit(ctx: Ctx, message: str, fields: Mapping[str, Any]) -> CallToolResult:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    result = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return _text(f"Elicitation completed: action={result.action}, content={result.content}")


def _ask(questions: Mapping[str, InputRequest], state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=dict(questions), request_state=state)


def _form(message: str, **types: str) -> ElicitRequest:
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(question: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=question))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def _answer(given: InputResponses | None, name: str, kind: type[R]) -> R | None:
    """The answer to one question, if it is there and of the kind that was asked for."""
    answer = (given or {}).get(name)
    return answer if isinstance(answer, kind) else None


def _said(result: CreateMessageResult) -> str:
    return result.content.text if isinstance(result.content, TextContent) else ""


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _wav() -> bytes:
    """A hundredth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(160))
    return file.getvalue()
