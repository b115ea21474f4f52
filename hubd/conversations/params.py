"""Parameters that several plugins have: the attachments of a prompt, the form of an export."""

from typing import Annotated, Final, Literal, TypedDict

from pydantic import Field

from hubd.activation import AnyHandle

MAX_ATTACHMENTS: Final = 100
Format = Literal["markdown", "jsonl", "html"]


class ExportOptions(TypedDict, total=False):
    """The form of an exported document."""

    format: Annotated[
        Format,
        Field(
            default="markdown",
            description="Markdown, one JSON object for each message, or an HTML page with all "
            "branches of the conversation.",
        ),
    ]
    redact: Annotated[
        bool,
        Field(
            default=True,
            description="Replace secrets, such as API keys and private keys, by `[REDACTED:kind]`.",
        ),
    ]


class AttachOption(TypedDict, total=False):
    """The option of methods that send a prompt."""

    attach: Annotated[
        list[AnyHandle] | None,
        Field(
            max_length=MAX_ATTACHMENTS,
            description="Handles whose data the model sees before the prompt, in this order: "
            "outputs, files, pages, messages and others. They become part of the conversation.",
        ),
    ]
