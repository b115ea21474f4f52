"""Ask a person about one approval, until there is a reply."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hubd.activation import Cancelled, Host
from hubd.plugins.loopback.answering import Reply
from hubd.plugins.loopback.question import (
    ASK_USER,
    DECLINE,
    OTHER,
    UserQuestion,
    describe,
    editable,
    edited,
    options_for,
    user_questions,
)
from hubd.plugins.loopback.tool_text import details
from hubd.wire.terminal import reveal

NO_ANSWER: Final = "The user did not answer."


class Dialogue:
    """The questions to the caller about one approval.

    Args:
        host: The hub.
        approval: The approval as clients see it.
    """

    def __init__(self, host: Host, approval: Mapping[str, Any]) -> None:
        self._host = host
        self._approval = approval
        self._input: Mapping[str, Any] = approval["input"]

    async def reply(self, problem: str = "") -> Reply:
        """Ask until the caller has decided.

        Args:
            problem: The reason why the last reply could not be recorded.

        Raises:
            Cancelled: The caller declined to answer.
        """
        if self._approval["tool_name"] == ASK_USER:
            questions = user_questions(self._input)
            if questions:
                return await self._answers(questions)
        # A diff reads a file and takes time.
        text = await self._host.in_thread(describe, self._approval)
        if problem:
            text = f"{text}\n{problem}"
        while True:
            [choice] = await self._host.select(
                text, options_for(self._approval["tool_name"]), timeout_seconds=None
            )
            match choice:
                case "details":
                    text = await self._host.in_thread(details, self._approval)
                case "edit" | "message":
                    # Leaving the second question returns to the first one.
                    with suppress(Cancelled):
                        return await (self._edit() if choice == "edit" else self._deny())
                case "session" | "always":
                    return Reply(approve=True, remember=choice)
                case _:
                    return Reply(approve=choice == "allow")

    async def _deny(self) -> Reply:
        message = await self._text("Message for the agent")
        return Reply(approve=False, message=message or None)

    async def _edit(self) -> Reply:
        field, text = await self._host.in_thread(editable, self._input)
        name = f"Edit the {field or 'input, a JSON object'}"
        problem = ""
        while True:
            text = await self._host.prompt(
                f"{problem}{name}", default=text, multiline=True, timeout_seconds=None
            )
            try:
                return Reply(approve=True, updated_input=edited(self._input, field, text))
            except ValueError as error:
                problem = f"This is not valid: {error}\n"

    async def _answers(self, questions: list[UserQuestion]) -> Reply:
        """Ask the questions of an agent to its user."""
        session = self._approval.get("session_name")
        answers: dict[str, str] = {}
        for question in questions:
            header = f"[{question.header}] " if question.header else ""
            text = reveal(f"{header}{question.text}")
            if session and not answers:
                text = f"The agent of session {session} asks:\n{text}"
            if not question.options:
                answers[question.text] = await self._text(text)
                continue
            values = await self._host.select(
                text, question.options, multi=question.multi, timeout_seconds=None
            )
            if DECLINE in values:
                return Reply(approve=False, message=NO_ANSWER)
            parts = [question.answer(values)]
            if OTHER in values:
                parts.append(await self._text("Your answer"))
            answers[question.text] = ", ".join(filter(None, parts))
        return Reply(approve=True, answers=answers)

    async def _text(self, message: str) -> str:
        return await self._host.prompt(message, timeout_seconds=None)
