"""The steps of a recorded session: what its agent and its user did, in order, each with its recorded result.

Pure, and a function of the log alone, so a run can be compared with its recording at any later time. A step that is not
run again says why: it needs a model or a server that is missing, or it was not carried out, because the user denied or
stopped it.

`Folders` replaces the recorded workspace folder in every text of an action that a sandbox acts upon, also in file
contents and commands, so that a rerun in a copy does not reach the original. Paths that a program builds itself are not
found; the sandbox blocks those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.actions.output import INTERRUPTED_EXIT
from core.controller.not_executed import NOT_EXECUTED_BEHIND, NOT_EXECUTED_ERROR, NOT_EXECUTED_STOPPED
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentFinishAction,
    AgentRejectAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileEditAction,
    IPythonRunCellAction,
    MCPAction,
    MessageAction,
    NullObservation,
    Observation,
    RecallObservation,
    UnknownAction,
    UserRejectObservation,
)
from core.events.base import FileEditSource

V0_WORKSPACE = "/workspace"
"""The folder in which OpenHands V0 works in its sandbox."""
_STOPPED = frozenset({NOT_EXECUTED_BEHIND, NOT_EXECUTED_STOPPED, NOT_EXECUTED_ERROR})
_INTERRUPTED = "AGENT_ERROR$INTERRUPTED"
_TALK = (MessageAction, AgentFinishAction, AgentRejectAction, CondensationAction, CondensationRequestAction)
_PLUGINS: dict[type[Action], str] = {
    IPythonRunCellAction: "jupyter",
    BrowseURLAction: "browser",
    BrowseInteractiveAction: "browser",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One action of the agent or the user."""

    envelope: Envelope
    result: Envelope | None = None
    """Its recorded observation; None if it has none."""

    @property
    def action(self) -> Action:
        assert isinstance(self.envelope.event, Action)
        return self.envelope.event

    @property
    def observation(self) -> Observation | None:
        """The event of `result`."""
        if self.result is None:
            return None
        assert isinstance(self.result.event, Observation)
        return self.result.event

    @property
    def is_users(self) -> bool:
        return self.envelope.source is EventSource.USER

    @property
    def acts(self) -> bool:
        """Whether it has a result to compare with."""
        return self.action.acts

    @property
    def skip_reason(self) -> str:
        """Why it is not run again, as the end of a sentence; empty if it is."""
        match self.action:
            case AgentDelegateAction():
                return "a delegate works with a model"
            case MCPAction(name=name):
                return f"no server has the tool {name}"
            case CondensationAction() | CondensationRequestAction():
                return "no model reads the history"
            case UnknownAction():
                return "this version does not know it"
            case FileEditAction(impl_source=FileEditSource.LLM_BASED_EDIT, command="", content=content) if content:
                return "such an edit works with a model"
        return self._not_executed_reason()

    def _not_executed_reason(self) -> str:
        status = self.action.confirmation
        waits = status is ActionConfirmationStatus.AWAITING_CONFIRMATION and self.result is None
        match self.observation:
            case UserRejectObservation():
                return "the user did not want it"
            case ErrorObservation(error_id=id) if id in _STOPPED:
                return "it was not carried out"
            case ErrorObservation(error_id=id) if id == _INTERRUPTED:
                return "the user stopped it"
            case CmdOutputObservation(metadata=metadata) if (
                metadata.exit_code == INTERRUPTED_EXIT and "interrupted by the user" in metadata.suffix
            ):
                return "the user stopped it"
        return "it was not carried out" if waits or status is ActionConfirmationStatus.REJECTED else ""


def missing_plugin(action: Action, plugins: Collection[str]) -> str:
    """Why a sandbox with these plugins cannot carry out an action; empty if it can."""
    needed = _PLUGINS.get(type(action), "")
    return f"the sandbox has no {needed}" if needed and needed not in plugins else ""


def is_agent_step(envelope: Envelope) -> bool:
    """Whether this is a step of the agent. RerunAgent gives one event for each."""
    event = envelope.event
    if envelope.source is not EventSource.AGENT or not isinstance(event, Action):
        return False
    return event.acts or isinstance(event, (*_TALK, UnknownAction))


def is_users(envelope: Envelope) -> bool:
    """Whether the user wrote or ran this. A queued message was not sent yet."""
    match envelope.event:
        case MessageAction(queued=queued):
            return envelope.source is EventSource.USER and not queued
        case CmdRunAction():
            return envelope.source is EventSource.USER
    return False


def read_steps(log: Iterable[Envelope]) -> list[Step]:
    found: list[Step] = []
    places: dict[int, int] = {}
    for envelope in log:
        if is_agent_step(envelope) or is_users(envelope):
            places[envelope.id] = len(found)
            found.append(Step(_whole(envelope)))
        elif (index := answered_step(envelope, places)) is not None and found[index].result is None:
            found[index] = Step(found[index].envelope, envelope)
    return found


def answered_step(envelope: Envelope, places: dict[int, int]) -> int | None:
    """The index in `places` of the action that this observation answers; None if it answers none."""
    event = envelope.event
    if not isinstance(event, Observation) or isinstance(event, (NullObservation, RecallObservation)):
        return None
    return places.get(envelope.cause) if envelope.cause is not None else None


def _whole(envelope: Envelope) -> Envelope:
    """An early V0 edit, with its parameters from the model's call."""
    action = envelope.event
    if not isinstance(action, FileEditAction) or action.command or action.content:
        return envelope
    fields = FileEditAction.model_fields.keys() - {"thought", "tool_call_metadata", "llm_metrics"}
    update = {name: value for name, value in _arguments(action).items() if name in fields}
    try:
        whole = FileEditAction.model_validate({**action.model_dump(exclude=set(update)), **update})
    except ValueError:  # not an edit; the sandbox reports it
        return envelope
    return Envelope(
        conversation_id=envelope.conversation_id,
        id=envelope.id,
        timestamp=envelope.timestamp,
        source=envelope.source,
        cause=envelope.cause,
        event=whole,
        carried=envelope.carried,
    )


def _arguments(action: Action) -> dict[str, Any]:
    """The arguments of the model's call, as far as they are in the log."""
    metadata = action.tool_call_metadata
    if metadata is None:
        return {}
    try:
        response: Any = metadata.model_response
        calls = response["choices"][0]["message"]["tool_calls"]
        text = next(call["function"]["arguments"] for call in calls if call["id"] == metadata.tool_call_id)
        arguments = json.loads(text)
    except (KeyError, IndexError, TypeError, ValueError, StopIteration, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def workspace_folders(log: Sequence[Envelope], workspace: str, *, imported: bool) -> tuple[str, ...]:
    """The folders that a recorded session knew as its workspace: outside of its sandbox and inside."""
    inside = next((e.event.working_dir for e in log if isinstance(e.event, RecallObservation)), "")
    found = (workspace, inside, V0_WORKSPACE if imported else "")
    return tuple(dict.fromkeys(folder for folder in found if folder))


_MOVED_FIELDS = ("path", "command", "code", "cwd", "file_text", "old_str", "new_str", "content")
"""The fields of actions that name files. Messages and thoughts stay unchanged."""
_SHORTEST = 2
"""Shorter folder names are not replaced: `/` begins every path."""


class Folders:
    """Replaces recorded folders by the new one. `home` is the home folder of the user, which a shell writes as `~`."""

    def __init__(self, recorded: Sequence[str], new: str, home: str = "") -> None:
        self.new = new.rstrip("/") or "/"
        names = {folder.rstrip("/") for folder in recorded}
        names = {name for name in names if len(name) >= _SHORTEST and name != self.new}
        self.recorded = tuple(sorted(names, key=len, reverse=True))
        short = [
            start + name.removeprefix(home)
            for name in self.recorded
            if len(home) >= _SHORTEST and name.startswith(home + "/")
            for start in ("~", "$HOME", "${HOME}")
        ]
        known = "|".join(map(re.escape, (*self.recorded, *short)))
        # not within a longer name: neither /srv/workspace nor /workspace2 nor /workspace.bak is /workspace
        self._pattern = re.compile(rf"(?<![\w.~-])(?:{known})(?![\w-]|\.\w)") if known else None

    def move(self, text: str) -> str:
        """The text with the new folder in the place of each recorded one."""
        return self._pattern.sub(lambda _: self.new, text) if self._pattern else text

    def move_action(self, action: Action) -> Action:
        update = {
            name: text
            for name in _MOVED_FIELDS
            if isinstance(value := getattr(action, name, None), str) and (text := self.move(value)) != value
        }
        return action.model_copy(update=update) if update else action
