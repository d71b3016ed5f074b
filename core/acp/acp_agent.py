"""ACPAgent: an external program is the agent, over the Agent Client Protocol.

A step listens until there is something to store. The external agent's text and reports about its tools become messages:
Handloom does not execute them, so they are not actions. Its requests to the client become actions: to read or write a
file in Handloom's sandbox, or a permission. They are approved and answered like all others, and the next step returns
the observation to the external agent.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    ReadTextFileRequest,
    RequestPermissionRequest,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    WriteTextFileRequest,
)

from core.acp.agent_process import AgentOutput, AgentProcess, ClientRequest, PromptEnded
from core.delegation.shared_runtime import SharedRuntime
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
    MCPObservation,
    MessageAction,
    Observation,
    SystemMessageAction,
    TokenDelta,
    ToolCallMetadata,
    UserRejectObservation,
)
from core.protocols import FrameSink, Runtime
from core.sandbox_types import Denials, GitAccess

PREFIX = "acp: "
"""Prefix of the names of actions that are permissions for what the external agent does itself."""
MAX_MESSAGE_CHARS = 200_000
"""The limit of one stored message; a longer one is stored in parts."""
TRANSCRIPT_CHARS = 30_000
BEFORE = "[This conversation began before you were started. Its messages:]"
AND_NOW = "[New message:]"
CONTINUE = "Go on."
NOTHING = "(The external agent sent no text.)"
ALLOWED = "Allowed. The external agent does this itself and reports the result."
INTERNAL_ERROR = -32603
MAX_TITLE = 200
MAX_TEXT = 20_000
"""The limit of the content of one tool call."""
MAX_CALLS = 1000
"""Tool calls of one prompt that are kept."""
DONE = ("completed", "failed")
_FENCE = re.compile(r"`{3,}")

Call = ToolCallStart | ToolCallProgress | ToolCallUpdate


class ToolCalls:
    """The tool calls of one prompt, with all their updates applied."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def report(self, update: Call) -> str:
        """Return the text of a tool call that has ended with this update; "" for any other."""
        call = self.apply(update)
        if call.get("status") not in DONE or call.get("is_reported"):
            return ""
        call["is_reported"] = True
        title = one_line(call.get("title") or update.tool_call_id, MAX_TITLE)
        body = content_text(call.get("content") or [])
        head = f"\n\nThe external agent used a tool ({call.get('kind') or 'other'}, {call['status']}): {title}"
        return f"{head}\n{fenced(body)}\n\n" if body else f"{head}\n\n"

    def apply(self, update: Call) -> dict[str, Any]:
        """Apply an update, and return the call."""
        while len(self._calls) >= MAX_CALLS and update.tool_call_id not in self._calls:
            del self._calls[next(iter(self._calls))]
        call = self._calls.setdefault(update.tool_call_id, {})
        for name in ("title", "kind", "status", "content", "raw_input"):
            if (value := getattr(update, name, None)) is not None:
                call[name] = value
        return call


def permission_question(request: RequestPermissionRequest, calls: ToolCalls) -> tuple[str, dict[str, Any]]:
    """Return the title of a permission, and everything that the user has to see before approving it."""
    call = calls.apply(request.tool_call)
    arguments: dict[str, Any] = {"kind": str(call.get("kind") or "other")}
    if (given := call.get("raw_input")) is not None:
        arguments["input"] = json.loads(json.dumps(given, default=str))
    if body := content_text(call.get("content") or [], limit=None):
        arguments["content"] = body
    return one_line(call.get("title") or request.tool_call.tool_call_id, MAX_TITLE), arguments


def plan_text(plan: AgentPlanUpdate) -> str:
    """Return a plan as a Markdown list."""
    marks = {"completed": "x", "in_progress": "~"}
    lines = [f"- [{marks.get(entry.status, ' ')}] {one_line(entry.content, MAX_TITLE)}" for entry in plan.entries[:100]]
    return "\n\nPlan:\n" + "\n".join(lines) + "\n\n" if lines else ""


def content_text(content: list[Any], limit: int | None = MAX_TEXT) -> str:
    """Return the content of a tool call as text, with edits as diffs. The middle is left out beyond `limit`."""
    parts: list[str] = []
    for item in content:
        match item:
            case ContentToolCallContent(content=TextContentBlock(text=text)):
                parts.append(text)
            case FileEditToolCallContent(path=path, old_text=old, new_text=new):
                before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
                parts.append("".join(difflib.unified_diff(before, after, path, path)))
    text = "\n".join(parts).strip("\n")
    if limit is None or len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters are left out …]\n{text[-limit // 2 :]}"


def one_line(text: str, limit: int) -> str:
    """Return a text without line breaks, truncated to `limit`."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def fenced(text: str) -> str:
    """Return a block of code that nothing in the text can end."""
    fence = "`" * (max((len(run) for run in _FENCE.findall(text)), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"


class ACPAgent:
    """An agent that is an external program."""

    name = "ACPAgent"

    def __init__(self, process: AgentProcess, folder: str, sandbox_folder: str) -> None:
        """`folder` is the workspace on this machine, `sandbox_folder` its path in the sandbox."""
        self._agent_process = process
        self._folder = folder
        self._sandbox_folder = sandbox_folder
        self._request: ClientRequest | None = None
        """The request that waits for the observation of its action."""
        self._prompted_until = -1
        """The id of the newest event when the external agent was last prompted."""
        self._calls = ToolCalls()

    def system_message(self) -> SystemMessageAction:
        """Return the first event of a conversation, which names the agent."""
        text = f"An external agent answers here, over the Agent Client Protocol: {self._agent_process.command}"
        return SystemMessageAction(content=text, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Listen until there is something to store, and return it as one event without a price.

        Raises ModelError, ConfigurationError. Cancelling cancels the prompt of the external agent.
        """
        try:
            await self._agent_process.wait_stopped()
            await self._answer(history)
            if not self._agent_process.is_prompting:
                await self._prompt(history)
            event = await self._listen(history[-1].id if history else 0, on_frame)
        except asyncio.CancelledError:
            self._request = None
            self._agent_process.interrupt()
            raise
        spent = metrics.model_copy(update={"accumulated_cost": None})
        return [event.model_copy(update={"llm_metrics": spent})]

    # -- to the external agent -----------------------------------------------------------------------------------------

    async def _answer(self, history: Sequence[Envelope]) -> None:
        """Answer its request. If the user denied it with a message, the prompt is cancelled instead."""
        request, self._request = self._request, None
        if request is None:
            return
        observation = _observation(history, request.id)
        refused = observation is None or isinstance(observation, UserRejectObservation | ErrorObservation)
        if refused and self._new_messages(history):
            await self._agent_process.cancel()
        elif not request.answer.done():
            result = answer_to(request, observation)
            if isinstance(result, RequestError):
                request.answer.set_exception(result)
            else:
                request.answer.set_result(result)

    async def _prompt(self, history: Sequence[Envelope]) -> None:
        """Send the user's messages since the last prompt."""
        new = self._new_messages(history)
        parts = [part for message in new for part in (message.content, message.context) if part]
        if not self._agent_process.has_session and (before := _transcript(history, new)):
            parts.insert(0, before)
        pictures = [url for message in new for url in message.image_urls or [] if url.startswith("data:")]
        self._calls = ToolCalls()
        await self._agent_process.prompt("\n\n".join(parts) or CONTINUE, pictures)
        self._prompted_until = history[-1].id if history else -1

    def _new_messages(self, history: Sequence[Envelope]) -> list[MessageAction]:
        """Return the user's messages that it does not have; after a restart, those since its last message."""
        found: list[MessageAction] = []
        for envelope in reversed(history):
            event = envelope.event
            if envelope.id <= self._prompted_until:
                break
            if envelope.source is EventSource.AGENT and self._prompted_until < 0 and isinstance(event, MessageAction):
                break
            if isinstance(event, MessageAction) and envelope.source is EventSource.USER and not event.queued:
                found.append(event)
        return found[::-1]

    # -- from the external agent ---------------------------------------------------------------------------------------

    async def _listen(self, cause: int, on_frame: FrameSink) -> Event:
        """Collect its output until an event has to be stored."""
        texts: list[str] = []
        while True:
            output = await self._agent_process.next_output()
            match output:
                case ClientRequest():
                    self._request = output
                    return self._action(output, "".join(texts))
                case PromptEnded(error=error) if error is not None:
                    raise error
                case PromptEnded(stop_reason=reason):
                    text = "".join(texts) or NOTHING
                    why = "" if reason == "end_turn" else f"\n\n(It stopped: {reason}.)"
                    return MessageAction(content=f"{text}{why}", wait_for_response=True)
                case AgentThoughtChunk(content=TextContentBlock(text=text)):
                    on_frame(TokenDelta(cause, text, "reasoning"))
                case _:
                    text = self._text_of(output)
                    if text:
                        texts.append(text)
                        on_frame(TokenDelta(cause, text))
            is_tool = isinstance(output, ToolCallStart | ToolCallProgress)
            if texts and (is_tool or sum(map(len, texts)) > MAX_MESSAGE_CHARS):
                return MessageAction(content="".join(texts))

    def _text_of(self, output: AgentOutput) -> str:
        """Return an update as text; a tool call is reported once, when it has ended."""
        match output:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                return text
            case ToolCallStart() | ToolCallProgress():
                return self._calls.report(output)
            case AgentPlanUpdate():
                return plan_text(output)
        return ""

    def _action(self, request: ClientRequest, thought: str) -> Action:
        """Return the action for a request."""
        metadata = ToolCallMetadata(function_name=request.method, tool_call_id=request.id)
        match request.params:
            case ReadTextFileRequest(path=path, line=line, limit=limit):
                start = max((line or 1) - 1, 0)
                end = -1 if limit is None else start + limit
                return FileReadAction(
                    path=self._sandbox_path(path), start=start, end=end, thought=thought, tool_call_metadata=metadata
                )
            case WriteTextFileRequest(path=path, content=content):
                path = self._sandbox_path(path)
                return FileWriteAction(path=path, content=content, thought=thought, tool_call_metadata=metadata)
        title, arguments = permission_question(request.params, self._calls)
        return MCPAction(name=f"{PREFIX}{title}", arguments=arguments, thought=thought, tool_call_metadata=metadata)

    def _sandbox_path(self, path: str) -> str:
        """Return a path as the sandbox has it."""
        path = os.path.normpath(path)
        if path == self._folder or path.startswith(f"{self._folder.rstrip('/')}/"):
            return self._sandbox_folder.rstrip("/") + path[len(self._folder.rstrip("/")) :]
        return path


def _transcript(history: Sequence[Envelope], new: Sequence[MessageAction]) -> str:
    """Return the end of the messages before these, for a program that has no session yet."""
    lines: list[str] = []
    chars_left = TRANSCRIPT_CHARS
    for envelope in reversed(history):
        event = envelope.event
        if not isinstance(event, MessageAction) or event.queued or any(event is message for message in new):
            continue
        who = "User" if envelope.source is EventSource.USER else "Agent"
        lines.append(f"{who}: {event.content[:chars_left].strip()}")
        chars_left -= len(lines[-1])
        if chars_left <= 0:
            break
    return "\n\n".join([BEFORE, *reversed(lines), AND_NOW]) if lines else ""


def _observation(history: Sequence[Envelope], id: str) -> Observation | None:
    """Return the observation of the action for a request, or None."""
    observations: dict[int, Observation] = {}
    for envelope in reversed(history):
        event, metadata = envelope.event, envelope.event.tool_call_metadata
        if isinstance(event, Observation) and envelope.cause is not None:
            observations[envelope.cause] = event
        elif isinstance(event, Action) and metadata is not None and metadata.tool_call_id == id:
            return observations.get(envelope.id)
    return None


def answer_to(request: ClientRequest, observation: Observation | None) -> Any:
    """Return the answer to a request by its observation; a RequestError if it was not carried out."""
    if isinstance(request.params, RequestPermissionRequest):
        kinds = ("allow_once", "allow_always")
        if observation is None or isinstance(observation, UserRejectObservation | ErrorObservation):
            kinds = ("reject_once", "reject_always")
        ids = [option.option_id for kind in kinds for option in request.params.options if option.kind == kind]
        return {"outcome": {"outcome": "selected", "optionId": ids[0]} if ids else {"outcome": "cancelled"}}
    if observation is None or isinstance(observation, UserRejectObservation | ErrorObservation):
        return RequestError(
            INTERNAL_ERROR, observation.content if observation is not None else "It was not carried out."
        )
    if isinstance(request.params, ReadTextFileRequest):
        return {"content": observation.content if isinstance(observation, FileReadObservation) else ""}
    return {}


class ACPRuntime(SharedRuntime):
    """Wraps a runtime that it owns, and ends the external agent's program together with it."""

    def __init__(self, runtime: Runtime, process: AgentProcess) -> None:
        super().__init__(runtime)
        self._agent_process = process

    @property
    def is_elsewhere(self) -> bool:  # type: ignore[override]
        return self._runtime.is_elsewhere

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.allow(host=host, folder=folder)

    def allow_git(self, access: GitAccess) -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.allow_git(access)

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.deny(denied)

    def keep(self, folder: Path) -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.keep(folder)

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Answer a permission without executing anything; execute any other action in the sandbox."""
        if isinstance(action, MCPAction) and action.name.startswith(PREFIX):
            return MCPObservation(content=ALLOWED, name=action.name, arguments=action.arguments)
        return await self._runtime.execute(action, action_id, on_frame)

    async def left_behind(self) -> list[str]:
        """Delegate to the wrapped runtime."""
        return await self._runtime.left_behind()

    async def came_back(self) -> list[str]:
        """Delegate to the wrapped runtime."""
        return await self._runtime.came_back()

    async def rest(self) -> None:
        """End the external agent's program; the next message starts it again."""
        await self._agent_process.aclose()
        await self._runtime.rest()

    async def aclose(self) -> None:
        """Close the program and the runtime."""
        await self._agent_process.aclose()
        await self._runtime.aclose()
