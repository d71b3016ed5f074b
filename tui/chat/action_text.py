"""What an action is called on the screen, and what its observation shows.

Pure functions from events to a Call or a Result; what they return is clean and bounded. Read by `model` only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from core.events import (
    Action,
    AgentDelegateAction,
    AgentDelegateObservation,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    Observation,
    PlanAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    UserRejectObservation,
)
from core.plugin_requirements import PluginRequirement, load
from core.store.blobs import picture_urls
from tui.chat import diffs
from tui.chat.blocks import Mark
from tui.chat.text_pieces import PieceKind
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

TEXT_LIMIT = 512 * 1024
"""Characters of one text that a block keeps; the event has the rest."""
TITLE_LIMIT = 8192
TAIL_LINES = 4
ADDRESS_CELLS = 60
FAILED_LINES = 12
OPEN_LINES = 40
"""Lines up to which what failed stands open; of more, the last ones are shown."""
DIFF_LINES = 24
DIFF_SOURCE_LIMIT = 64 * 1024
"""Characters of a file up to which a missing diff is worked out here; more would block the screen."""
NOT_EXECUTED_STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
NOT_EXECUTED_BEHIND = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_BEHIND"
INTERRUPTED_EXIT = 130
STILL_RUNNING_EXIT = -1
LANGUAGES = {"makefile": "make", "dockerfile": "docker"}
"""Of files whose names have no ending."""
PLAN = _("Plan")
EDIT = _("edit {path}")
EDITS = {"view": _("view {path}"), "create": _("create {path}"), "undo_edit": _("undo_edit {path}")}
"""What the editor does with a file, where that is no edit."""
TASK_GLYPHS = {"done": "✓", "in_progress": "→", "todo": "○"}


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool block shows once its observation is there."""

    mark: Mark
    text: str = ""
    meta: str = ""
    body: PieceKind = PieceKind.OUTPUT
    shown: int = TAIL_LINES
    folded: bool = True
    language: str = ""
    pictures: tuple[str, ...] = ()
    """References."""
    pictures_fold: bool = False
    """Whether they are folded away with the rest: those of a page stand in the browser pane."""


def clean(text: str, limit: int = TEXT_LIMIT) -> str:
    """Text for a block: bounded, with the middle left out, and sanitised."""
    if len(text) > limit:
        half = limit // 2
        left_out = _("[… {n} characters omitted …]").format(n=f"{len(text) - 2 * half:,}")
        text = f"{text[:half]}\n{left_out}\n{text[-half:]}"
    return sanitize(text)


def output(text: str) -> str:
    """What a program printed, without colours and without blank lines at its end."""
    return clean(without_colours(text)).rstrip()


Card = Callable[[Any], str]
"""How a plugin shows one of its events: an action's title, or an observation's text."""
CARDS: dict[type[Action | Observation], Card] = {}
"""Of plugins of other packages, by class; filled once they are known."""


def use_cards(plugins: Iterable[PluginRequirement]) -> None:
    """Show the events of these plugins as they say. Raises PluginError."""
    for plugin in plugins:
        if plugin.cards:
            CARDS.update(load(plugin, plugin.cards))


def call_title(action: Action) -> str:
    """What is being done, in the words of a shell or an editor."""
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
    """A title for a result whose action is on an older page."""
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
    """What came of an action."""
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
    """Where it led; its text and its picture are folded away, for the browser pane shows it."""
    pictures = tuple(url for url in (page.screenshot or page.set_of_marks,) if url)
    address = sanitize_line(page.url, ADDRESS_CELLS)
    if page.error or page.last_browser_action_error:
        error = output(page.last_browser_action_error or page.content)
        return Result(Mark.FAILED, error, address, shown=FAILED_LINES, pictures=pictures, pictures_fold=True)
    return Result(Mark.OK, output(page.content), address, shown=0, pictures=pictures, pictures_fold=True)


def _any_result(observation: Observation) -> Result:
    card = CARDS.get(type(observation))
    text = output(card(observation) if card else observation.content)
    return _failed(text) if observation.success is False else Result(Mark.OK, text)


def _failed(text: str, meta: str = "") -> Result:
    """What went wrong, open as far as that can be read at a glance."""
    is_long = text.count("\n") >= OPEN_LINES
    return Result(Mark.FAILED, text, meta, shown=FAILED_LINES, folded=is_long)


def _command_result(observation: CmdOutputObservation) -> Result:
    text = output(observation.content)
    match observation.exit_code:
        case 0:
            return Result(Mark.OK, text)
        case code if code == STILL_RUNNING_EXIT:
            return Result(Mark.RUNNING, text, meta=_("still running"), shown=FAILED_LINES)
        case code if code == INTERRUPTED_EXIT:
            return Result(Mark.INTERRUPTED, text, meta=_("interrupted"), shown=FAILED_LINES)
        case code:
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
    """The lines of a diff from its first hunk on: a removed line may look like a header too."""
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), None)
    if first is None:
        return [line for line in lines if not line.startswith(("--- ", "+++ "))]
    return lines[first:]


def language_of(path: str) -> str:
    """What a file is written in, by the ending of its name."""
    name = path.rpartition("/")[2].lower()
    return LANGUAGES.get(name) or name.rpartition(".")[2] * ("." in name)


def path_of(event: Action | Observation) -> str:
    """The file that an event is about, where its title ends in it."""
    kinds = (FileReadAction, FileWriteAction, FileEditAction, FileReadObservation, FileEditObservation)
    return clean(event.path, TITLE_LIMIT).strip() if isinstance(event, kinds) else ""


def plan_of(event: PlanAction | TaskTrackingAction | TaskTrackingObservation, mark: Mark) -> Result:
    """A plan as a check list."""
    done = sum(task.get("status") == "done" for task in event.task_list)
    text = "\n".join(_task_line(task) for task in event.task_list)
    meta = _("{done} of {all} done").format(done=done, all=len(event.task_list))
    return Result(mark, clean(text), meta, PieceKind.PLAN, shown=0, folded=False)


def _task_line(task: dict[str, Any]) -> str:
    title = " ".join(str(task.get("title", "")).split())
    return f"{TASK_GLYPHS.get(str(task.get('status')), '○')} {title}"


def kind_of(event: Action | Observation) -> str:
    """The name of an event's kind, for events that this version does not know too."""
    raw = getattr(event, "raw", None)
    if isinstance(raw, dict):
        return str(raw.get("action") or raw.get("observation") or "event")
    return event.kind
