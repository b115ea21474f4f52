"""Parameters that several methods of claudecode share: their types and their groups."""

from typing import Annotated, Any, Final, Literal, TypedDict

from pydantic import Field

from hubd.activation import params
from hubd.conversations.params import AttachOption

Name = params.Name
NewName = params.NewName
SessionId = params.IdPrefix
Prompt = Annotated[str, Field(min_length=1, max_length=4 * 1024 * 1024)]
Limit = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0)]
IfBusy = Literal["queue", "refuse"]
Grouping = Literal["session", "branch", "model", "day"]

# The parameters of `SessionAddress` and of `StreamAddress`: a call gives exactly one of them.
SESSION: Final = ("name", "session_id")
STREAM: Final = ("stream_id", "session_id", "name")


class SessionAddress(TypedDict, total=False):
    """A session, by its name or by its id."""

    name: Annotated[Name | None, Field(description="The session's name.")]
    session_id: Annotated[
        SessionId | None,
        Field(description="The session's id, or the first 8 or more digits of it."),
    ]


class NodeAddress(SessionAddress, total=False):
    """A node in the tree of a session."""

    node_id: Annotated[
        params.NodeId | None,
        Field(
            description="The last node of the conversation: its id, or the last 4 or more digits; "
            "the session's head by default."
        ),
    ]


class StreamAddress(TypedDict, total=False):
    """A stream, by its id or as the newest one of a session.

    Args:
        stream_id: The stream's id, or the first 8 or more digits of it.
        session_id: The id of a session, for its newest stream; or the first 8 or more digits
            of it.
        name: The name of a session, for its newest stream.
    """

    stream_id: SessionId | None
    session_id: SessionId | None
    name: Name | None


class AgentOptions(TypedDict, total=False):
    """The options of a session: they apply to the program that answers in it."""

    working_dir: Annotated[
        str | None,
        Field(
            description="The agent's directory; the caller's by default. In an existing session, "
            "another directory than the session's is a conflict."
        ),
    ]
    model: Annotated[
        str | None,
        Field(
            description="The model; `offline` for the offline agent. By default the agent's own. "
            "In an existing session, a model that would change the agent is a conflict."
        ),
    ]
    system_prompt: Annotated[
        str | None, Field(description="Text that follows the agent's own system prompt.")
    ]
    mcp_config: Annotated[
        dict[str, Any] | None,
        Field(
            description="More MCP servers, as `claude` takes them. Values of headers and env are "
            "secrets: no method returns them."
        ),
    ]
    allowed_tools: Annotated[
        list[str] | None,
        Field(description="Tools that need no approval."),
    ]
    disallowed_tools: Annotated[
        list[str] | None,
        Field(description="Tools that the agent can't use."),
    ]
    permission_mode: Annotated[str | None, Field(description="The agent's permission mode.")]
    approver: Annotated[
        Literal["human", "parent", "parent_then_human"] | None,
        Field(
            description="Who is asked about tool calls: `human`, `parent` (the agent that started "
            "the session), or first the parent and after escalate_secs people too. By default "
            "`parent_then_human` if an agent started the session, else `human`."
        ),
    ]
    escalate_secs: Annotated[
        int | None,
        Field(
            ge=0,
            description="Seconds after which people are asked too; 300 by default.",
        ),
    ]
    deadline_secs: Annotated[
        int | None,
        Field(
            ge=1,
            description="Seconds after which an unanswered approval is denied; by default the "
            "setting deadline_secs of loopback, a day.",
        ),
    ]
    grants: Annotated[
        list[str] | None,
        Field(
            description="Methods of this hub that the agent may call as MCP tools, such as "
            "`arbor`, `claudecode.chat_async` or `loopback.*`; none by default."
        ),
    ]
    max_cost: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="The session's budget in US dollars, by the agent's own prices. A chat "
            "that reaches it stops, and further chats are refused.",
        ),
    ]
    max_turns: Annotated[
        int | None,
        Field(
            ge=1,
            le=1_000_000,
            description="The session's budget of rounds of the agent. A chat that reaches it "
            "stops, and further chats are refused.",
        ),
    ]


class ChatOptions(AgentOptions, AttachOption, total=False):
    """The options of a chat. Those of `AgentOptions` replace the session's from this chat on."""

    loopback_enabled: Annotated[
        bool | None,
        Field(
            description="Send the agent's approvals to an approver; true for a new session by "
            "default. If false, the agent's own rules decide."
        ),
    ]
    ephemeral: Annotated[
        bool,
        Field(
            default=False,
            description="Leave the session's head where it is; the turn stays in the tree.",
        ),
    ]
    if_busy: Annotated[
        IfBusy,
        Field(
            default="queue",
            description="In a busy session, `queue` waits and `refuse` is a conflict.",
        ),
    ]
