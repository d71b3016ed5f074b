"""ACPAgent: another program is the agent, over the Agent Client Protocol.

A step listens until there is something to store. The other agent's text, and its reports about its tools, are messages:
Handloom does not execute them, so they are no actions. Its requests to the client are actions: to read or write a file
in Handloom's sandbox, or a permission. They are held, confirmed and answered like all others, and the next step returns
the observation to the other agent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from acp.exceptions import RequestError
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ReadTextFileRequest,
    RequestPermissionRequest,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    WriteTextFileRequest,
)

from core.acp.agent_process import AgentProcess, Ended, Heard, Want
from core.acp.tool_text import Tools, plan_text, question_of
from core.events import (
    Action,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileReadAction,
    FileReadObservation,
    FileWriteAction,
    LLMMetrics,
    MCPAction,
    MessageAction,
    Observation,
    SystemMessageAction,
    TokenDelta,
    ToolCallMetadata,
    UserRejectObservation,
)
from core.protocols import FrameSink

PREFIX = "acp: "
"""Prefix of the names of actions that are permissions for what the other agent does itself."""
SAID_CHARS = 200_000
"""The limit of one stored message; a longer one is stored in parts."""
TRANSCRIPT_CHARS = 30_000
BEFORE = "[This conversation began before you were started. What was said:]"
AND_NOW = "[And now:]"
GO_ON = "Go on."
NOTHING = "(The other agent said nothing.)"
INTERNAL_ERROR = -32603


class ACPAgent:
    """An agent that is another program. `inside` is the workspace folder in the sandbox."""

    name = "ACPAgent"

    def __init__(self, link: AgentProcess, folder: str, inside: str) -> None:
        self._link = link
        self._folder = folder
        self._inside = inside
        self._want: Want | None = None
        """What waits for the observation of the action that stands for it."""
        self._said_until = -1
        """The newest of the user's messages that the other agent has."""
        self._tools = Tools()

    def system_message(self) -> SystemMessageAction:
        """Return the first event of a conversation, which names the agent."""
        text = f"Another agent answers here, over the Agent Client Protocol: {self._link.command}"
        return SystemMessageAction(content=text, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Listen until there is something to store, and return it as one event without a price.

        Raises ModelError, ConfigurationError. Cancelling cancels the prompt of the other agent.
        """
        try:
            await self._link.stopped()
            await self._answer(history)
            if not self._link.is_prompting:
                await self._prompt(history)
            event = await self._listen(history[-1].id if history else 0, on_frame)
        except asyncio.CancelledError:
            self._want = None
            self._link.interrupt()
            raise
        spent = metrics.model_copy(update={"accumulated_cost": None})
        return [event.model_copy(update={"llm_metrics": spent})]

    # -- what it is told -----------------------------------------------------------------------------------------------

    async def _answer(self, history: Sequence[Envelope]) -> None:
        """Give it what it waited for. Where the user said no and something else, its prompt is over."""
        want, self._want = self._want, None
        if want is None:
            return
        observation = _observation(history, want.id)
        refused = observation is None or isinstance(observation, UserRejectObservation | ErrorObservation)
        if refused and self._unsaid(history):
            await self._link.cancel()
        elif not want.answer.done():
            result = answer_to(want, observation)
            if isinstance(result, RequestError):
                want.answer.set_exception(result)
            else:
                want.answer.set_result(result)

    async def _prompt(self, history: Sequence[Envelope]) -> None:
        """Say what the user said since it was last prompted."""
        unsaid = self._unsaid(history)
        parts = [part for message in unsaid for part in (message.content, message.context) if part]
        if not self._link.has_session and (before := _transcript(history, unsaid)):
            parts.insert(0, before)
        pictures = [url for message in unsaid for url in message.image_urls or [] if url.startswith("data:")]
        self._tools = Tools()
        await self._link.prompt("\n\n".join(parts) or GO_ON, pictures)
        self._said_until = history[-1].id if history else -1

    def _unsaid(self, history: Sequence[Envelope]) -> list[MessageAction]:
        """The user's messages that it does not have; after a restart, those since the agent last spoke."""
        found: list[MessageAction] = []
        for envelope in reversed(history):
            event = envelope.event
            if envelope.id <= self._said_until:
                break
            if envelope.source is EventSource.AGENT and self._said_until < 0 and isinstance(event, MessageAction):
                break
            if isinstance(event, MessageAction) and envelope.source is EventSource.USER and not event.queued:
                found.append(event)
        return found[::-1]

    # -- what it says --------------------------------------------------------------------------------------------------

    async def _listen(self, cause: int, on_frame: FrameSink) -> Event:
        """What it says and does, up to the next thing that has to be stored."""
        said: list[str] = []
        while True:
            heard = await self._link.hear()
            match heard:
                case Want():
                    self._want = heard
                    return self._action(heard, "".join(said))
                case Ended(error=error) if error is not None:
                    raise error
                case Ended(stop_reason=reason):
                    text = "".join(said) or NOTHING
                    why = "" if reason == "end_turn" else f"\n\n(It stopped: {reason}.)"
                    return MessageAction(content=f"{text}{why}", wait_for_response=True)
                case AgentThoughtChunk(content=TextContentBlock(text=text)):
                    on_frame(TokenDelta(cause, text, "reasoning"))
                case _:
                    text = self._told(heard)
                    if text:
                        said.append(text)
                        on_frame(TokenDelta(cause, text))
            is_tool = isinstance(heard, ToolCallStart | ToolCallProgress)
            if said and (is_tool or sum(map(len, said)) > SAID_CHARS):
                return MessageAction(content="".join(said))

    def _told(self, heard: Heard) -> str:
        """An update as text; a tool is told once, when it is done."""
        match heard:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                return text
            case ToolCallStart() | ToolCallProgress():
                return self._tools.told(heard)
            case AgentPlanUpdate():
                return plan_text(heard)
        return ""

    def _action(self, want: Want, thought: str) -> Action:
        """The action that stands for what it wants."""
        made = ToolCallMetadata(function_name=want.method, tool_call_id=want.id)
        match want.wanted:
            case ReadTextFileRequest(path=path, line=line, limit=limit):
                start = max((line or 1) - 1, 0)
                end = -1 if limit is None else start + limit
                return FileReadAction(
                    path=self._seen(path), start=start, end=end, thought=thought, tool_call_metadata=made
                )
            case WriteTextFileRequest(path=path, content=content):
                return FileWriteAction(path=self._seen(path), content=content, thought=thought, tool_call_metadata=made)
        title, arguments = question_of(want.wanted, self._tools)
        return MCPAction(name=f"{PREFIX}{title}", arguments=arguments, thought=thought, tool_call_metadata=made)

    def _seen(self, path: str) -> str:
        """A path as the sandbox has it."""
        path = os.path.normpath(path)
        if path == self._folder or path.startswith(f"{self._folder.rstrip('/')}/"):
            return self._inside.rstrip("/") + path[len(self._folder.rstrip("/")) :]
        return path


def _transcript(history: Sequence[Envelope], unsaid: Sequence[MessageAction]) -> str:
    """What was said before these messages, for a program that was started anew; its end where it is long."""
    lines: list[str] = []
    room = TRANSCRIPT_CHARS
    for envelope in reversed(history):
        event = envelope.event
        if not isinstance(event, MessageAction) or event.queued or any(event is message for message in unsaid):
            continue
        who = "User" if envelope.source is EventSource.USER else "Agent"
        lines.append(f"{who}: {event.content[:room].strip()}")
        room -= len(lines[-1])
        if room <= 0:
            break
    return "\n\n".join([BEFORE, *reversed(lines), AND_NOW]) if lines else ""


def _observation(history: Sequence[Envelope], id: str) -> Observation | None:
    """What came of the action that stands for a want; None where nothing did."""
    came: dict[int, Observation] = {}
    for envelope in reversed(history):
        event, metadata = envelope.event, envelope.event.tool_call_metadata
        if isinstance(event, Observation) and envelope.cause is not None:
            came[envelope.cause] = event
        elif isinstance(event, Action) and metadata is not None and metadata.tool_call_id == id:
            return came.get(envelope.id)
    return None


def answer_to(want: Want, observation: Observation | None) -> Any:
    """What the other agent gets for what came of it; a RequestError where it does not get it."""
    if isinstance(want.wanted, RequestPermissionRequest):
        kinds = ("allow_once", "allow_always")
        if observation is None or isinstance(observation, UserRejectObservation | ErrorObservation):
            kinds = ("reject_once", "reject_always")
        ids = [option.option_id for kind in kinds for option in want.wanted.options if option.kind == kind]
        return {"outcome": {"outcome": "selected", "optionId": ids[0]} if ids else {"outcome": "cancelled"}}
    if observation is None or isinstance(observation, UserRejectObservation | ErrorObservation):
        return RequestError(INTERNAL_ERROR, observation.content if observation is not None else "It was not done.")
    if isinstance(want.wanted, ReadTextFileRequest):
        return {"content": observation.content if isinstance(observation, FileReadObservation) else ""}
    return {}
