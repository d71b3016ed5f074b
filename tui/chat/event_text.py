"""The texts that the chat shows for events: titles of actions, results of observations, notes on states.

Pure functions; what they return is clean and bounded.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from core.events import (
    Action,
    AgentCondensationObservation,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentState,
    AgentThinkObservation,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    FileWriteAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MCPAction,
    NullAction,
    NullObservation,
    Observation,
    PlanAction,
    RecallAction,
    RecallObservation,
    SystemMessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    UndoAction,
    UserRejectObservation,
)
from core.plugin_requirements import PluginRequirement, load
from core.store.blobs import picture_urls
from tui.chat import diffs
from tui.chat.blocks import Block, Kind, Mark
from tui.chat.text_pieces import PieceKind
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

TEXT_LIMIT = 512 * 1024
"""Characters of one text that a block keeps; the event has the rest."""
TITLE_LIMIT = 8192
TAIL_LINES = 4
ADDRESS_CELLS = 60
EXCEPTION_CELLS = 200
FAILED_LINES = 12
MAX_OPEN_LINES = 40
"""A failed result up to this long is shown unfolded; of a longer one, the last lines."""
DIFF_LINES = 24
DIFF_SOURCE_LIMIT = 64 * 1024
"""Characters of a file up to which a missing diff is computed here; more would block the screen."""
NOT_EXECUTED_STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
NOT_EXECUTED_BEHIND = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_BEHIND"
INTERRUPTED_EXIT = 130
STILL_RUNNING_EXIT = -1
LANGUAGES = {"makefile": "make", "dockerfile": "docker"}
"""The languages of files whose names have no extension."""
PLAN = _("Plan")
EDIT = _("edit {path}")
EDITS = {"view": _("view {path}"), "create": _("create {path}"), "undo_edit": _("undo_edit {path}")}
"""What the editor does with a file if that is no edit."""
LOADED_NAMES_CELLS = 120
HIDDEN = (
    SystemMessageAction,
    RecallAction,
    RecallObservation,
    UndoAction,
    NullAction,
    NullObservation,
    ChangeAgentStateAction,
    CondensationRequestAction,
    AgentThinkObservation,
    AgentCondensationObservation,
)
REDACTED = _("A value that looks like {kind} was redacted. If it is not a secret, run: handloom secrets allow '{kind}'")
STATE_NOTES = {
    AgentState.STOPPED: _("Interrupted"),
    AgentState.PAUSED: _("Paused"),
    AgentState.ERROR: _("Stopped after an error"),
    AgentState.FINISHED: _("Finished"),
    AgentState.REJECTED: _("The agent declined the task"),
}
TASK_GLYPHS = {"done": "✓", "in_progress": "→", "todo": "○"}


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool block shows when its observation is known."""

    mark: Mark
    text: str = ""
    meta: str = ""
    body: PieceKind = PieceKind.OUTPUT
    shown: int = TAIL_LINES
    folded: bool = True
    language: str = ""
    pictures: tuple[str, ...] = ()
    pictures_fold: bool = False
    """Whether they are folded with the rest: those of a page are shown in the browser pane."""


def clean(text: str, limit: int = TEXT_LIMIT) -> str:
    """Bound a text, leaving out its middle, and sanitise it."""
    if len(text) > limit:
        half = limit // 2
        left_out = _("[… {n} characters omitted …]").format(n=f"{len(text) - 2 * half:,}")
        text = f"{text[:half]}\n{left_out}\n{text[-half:]}"
    return sanitize(text)


def output(text: str) -> str:
    """Clean a program's output, without colours and without blank lines at its end."""
    return clean(without_colours(text)).rstrip()


Card = Callable[[Any], str]
"""A plugin's text for one of its events: an action's title, or an observation's content."""
CARDS: dict[type[Action | Observation], Card] = {}
"""The cards of plugins from other packages, by class."""


def use_cards(plugins: Iterable[PluginRequirement]) -> None:
    """Use the cards of these plugins. Raises PluginError."""
    for plugin in plugins:
        if plugin.cards:
            CARDS.update(load(plugin, plugin.cards))


def call_title(action: Action) -> str:
    return clean(_title(action), TITLE_LIMIT).strip()


def _title(action: Action) -> str:
    if (card := CARDS.get(type(action))) is not None:
        return card(action)
    match action:
        case CmdRunAction():
            return f"{'>' if action.is_input else '$'} {action.command}"
        case IPythonRunCellAction():
            return f"python {action.code}"
        case FileReadAction():
            return _("view {path}").format(path=action.path)
        case FileWriteAction():
            return _("write {path}").format(path=action.path)
        case FileEditAction():
            return EDITS.get(action.command, EDIT).format(path=action.path)
        case BrowseURLAction():
            return _("browse {url}").format(url=action.url)
        case BrowseInteractiveAction():
            return _("browser {actions}").format(actions=action.browser_actions)
        case MCPAction():
            arguments = ", ".join(f"{key}={value!r}" for key, value in action.arguments.items())
            return f"{action.name}({arguments})"
        case AgentDelegateAction(agent=agent, inputs=inputs):
            return _("delegate to {agent}: {task}").format(agent=agent, task=inputs.get("task", inputs))
        case TaskTrackingAction(task_list=[]):
            return action.message
        case TaskTrackingAction():
            return PLAN
        case _:
            return action.message or action.kind


def orphan_title(observation: Observation) -> str:
    """Return a title for a result whose action is on an older page."""
    match observation:
        case CmdOutputObservation():
            title = f"$ {observation.command}"
        case FileReadObservation():
            title = _("view {path}").format(path=observation.path)
        case FileEditObservation():
            title = EDIT.format(path=observation.path)
        case TaskTrackingObservation(task_list=[_, *_]):
            title = PLAN
        case BrowserOutputObservation():
            title = _("browse {url}").format(url=observation.url)
        case _:
            title = kind_of(observation)
    return clean(title, TITLE_LIMIT).strip()


def result_of(observation: Observation) -> Result:
    match observation:
        case CmdOutputObservation():
            return _command_result(observation)
        case FileEditObservation():
            return _edit_result(observation)
        case FileReadObservation():
            text = output(observation.content)
            count = text.count("\n") + 1
            return Result(Mark.OK, text, meta=counted(count, "{n} line", "{n} lines"), shown=0)
        case ErrorObservation() if observation.error_id == NOT_EXECUTED_STOPPED:
            return Result(Mark.INTERRUPTED, meta=_("not executed"))
        case ErrorObservation() if observation.error_id == NOT_EXECUTED_BEHIND:
            return Result(Mark.INTERRUPTED, meta=_("not executed because you denied another action and stopped"))
        case UserRejectObservation():
            return Result(Mark.REJECTED, output(observation.content), meta=_("rejected"), shown=FAILED_LINES)
        case TaskTrackingObservation() if observation.task_list:
            return plan_of(observation, Mark.OK)
        case BrowserOutputObservation():
            return _page_result(observation)
        case AgentDelegateObservation():
            return Result(Mark.OK, output(observation.content), shown=FAILED_LINES)
        case _:
            return replace(_any_result(observation), pictures=tuple(picture_urls(observation)))


def _page_result(page: BrowserOutputObservation) -> Result:
    """Show the address; text and picture are folded, because the browser pane shows them."""
    pictures = tuple(url for url in (page.screenshot or page.set_of_marks,) if url)
    address = sanitize_line(page.url, ADDRESS_CELLS)
    if page.error or page.last_browser_action_error:
        error = output(page.last_browser_action_error or page.content)
        return Result(Mark.FAILED, error, address, shown=FAILED_LINES, pictures=pictures, pictures_fold=True)
    return Result(Mark.OK, output(page.content), address, shown=0, pictures=pictures, pictures_fold=True)


def _any_result(observation: Observation) -> Result:
    card = CARDS.get(type(observation))
    content = observation.output if isinstance(observation, IPythonRunCellObservation) else observation.content
    for refusal in observation.refusals:  # a line of its own in the chat
        content = content.replace(f"\n[{refusal.text}]", "")
    text = output(card(observation) if card else content)
    if isinstance(observation, IPythonRunCellObservation) and observation.exception:
        exception = sanitize_line(without_colours(observation.exception), EXCEPTION_CELLS)
        return Result(Mark.FAILED, text, exception, shown=FAILED_LINES)
    return _failed(text) if observation.success is False else Result(Mark.OK, text)


def _failed(text: str, meta: str = "") -> Result:
    """Show a failure, unfolded unless it is long."""
    is_long = text.count("\n") >= MAX_OPEN_LINES
    return Result(Mark.FAILED, text, meta, shown=FAILED_LINES, folded=is_long)


def _command_result(observation: CmdOutputObservation) -> Result:
    text = output(observation.content)
    code = observation.exit_code
    if code == 0:
        return Result(Mark.OK, text)
    if code == STILL_RUNNING_EXIT:
        return Result(Mark.RUNNING, text, meta=_("still running"), shown=FAILED_LINES)
    if code == INTERRUPTED_EXIT:
        return Result(Mark.INTERRUPTED, text, meta=_("interrupted"), shown=FAILED_LINES)
    return _failed(text, _("exit {code}").format(code=code))


def _edit_result(observation: FileEditObservation) -> Result:
    diff = observation.diff
    old, new = observation.old_content or "", observation.new_content or ""
    if diff is None and old != new and len(old) + len(new) <= DIFF_SOURCE_LIMIT:
        diff = "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), n=3, lineterm=""))
    if not diff:
        text = output(observation.content)
        return _failed(text) if text.startswith("ERROR:") else Result(Mark.OK, text)
    lines = diffs.refined(_without_header(clean(diff).split("\n")))
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    text = "\n".join(lines).rstrip()
    language = language_of(observation.path)
    return Result(Mark.OK, text, f"+{added} −{removed}", PieceKind.DIFF, DIFF_LINES, language=language)


def _without_header(lines: list[str]) -> list[str]:
    """Drop what is before the first hunk: a removed line may look like a header, too."""
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), None)
    if first is None:
        return [line for line in lines if not line.startswith(("--- ", "+++ "))]
    return lines[first:]


def language_of(path: str) -> str:
    """Return the language of a file by its name."""
    name = path.rpartition("/")[2].lower()
    return LANGUAGES.get(name) or name.rpartition(".")[2] * ("." in name)


def path_of(event: Action | Observation) -> str:
    """Return the path that the title of an event ends in, if any."""
    kinds = (FileReadAction, FileWriteAction, FileEditAction, FileReadObservation, FileEditObservation)
    return clean(event.path, TITLE_LIMIT).strip() if isinstance(event, kinds) else ""


def plan_of(event: PlanAction | TaskTrackingAction | TaskTrackingObservation, mark: Mark) -> Result:
    done = sum(task.get("status") == "done" for task in event.task_list)
    text = "\n".join(_task_line(task) for task in event.task_list)
    meta = _("{done} of {all} done").format(done=done, all=len(event.task_list))
    return Result(mark, clean(text), meta, PieceKind.PLAN, shown=0, folded=False)


def _task_line(task: dict[str, Any]) -> str:
    title = " ".join(str(task.get("title", "")).split())
    return f"{TASK_GLYPHS.get(str(task.get('status')), '○')} {title}"


def kind_of(event: Action | Observation) -> str:
    """Return the name of an event's kind, also for events that this version does not know."""
    raw = getattr(event, "raw", None)
    if isinstance(raw, dict):
        return str(raw.get("action") or raw.get("observation") or "event")
    return event.kind


def recalled_block(event: RecallObservation) -> Block | None:
    """Return a block with the names of recalled texts, which unfolds to them; None if there are none."""
    names = [found.name for found in event.microagent_knowledge]
    parts = [f"[{found.name} · {found.trigger}]\n{found.content}" for found in event.microagent_knowledge]
    instructions = [event.repo_instructions, event.additional_agent_instructions, event.conversation_instructions]
    if any(instructions):
        names.insert(0, _("instructions"))
    text = "\n\n".join([*filter(None, instructions), *parts])
    if not text:
        return None
    title = _("loaded: {names}").format(names=sanitize_line(", ".join(names), LOADED_NAMES_CELLS))
    return Block(Kind.TOOL, title, clean(text), body=PieceKind.TEXT, shown=0)
