"""Texts about memory: the result of a compaction, and the instructions, skills and hooks of a folder. Pure; clean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.events import CondensationAction
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.memory.library import Gathered


WHY_CELLS = 200


def condensed(action: CondensationAction) -> str:
    """Return the result of a compaction."""
    count = len(action.forgotten)
    if action.note:
        text = _("No summary: {why}. The model no longer sees {count} older events.")
        return text.format(why=sanitize_line(action.note, WHY_CELLS).rstrip("."), count=count)
    if not count:
        return _("Nothing to compact yet: the conversation is short.")
    return _("Compacted: from your next message on, a summary replaces {count} older events.").format(count=count)


Styled = tuple[str, str]
NAME_CELLS, NOTE_CELLS, PROBLEM_CELLS = 60, 160, 300
WHOSE = {"yours": _("yours"), "the project's": _("the project's")}

MOMENTS = {
    "before_action": _("before each action"),
    "after_action": _("after each action"),
    "conversation_start": _("at the start of a conversation"),
    "conversation_end": _("at the end of a conversation"),
}


def knowledge_text(gathered: Gathered) -> list[Styled]:
    """Return what applies, what is not trusted yet, and what is broken, as texts with their styles."""
    library = gathered.library
    instructions = [(one.path, WHOSE[one.origin], _("sent at the start")) for one in library.instructions]
    agents = []
    for one in library.microagents:
        when = {
            "always": _("sent at the start"),
            "triggered": _("triggered by: {words}").format(words=", ".join(one.triggers)),
            "task": _("called as /{name}").format(name=one.name),
        }[one.use]
        agents.append((one.name, WHOSE[one.origin], when))
    skills = [(one.name, WHOSE[one.origin], one.description) for one in library.skills]
    hooks = [(hook.command, WHOSE["yours"], hook.moment) for hook in gathered.own_hooks]
    hooks += [(hook.command, WHOSE["the project's"], hook.moment) for hook in gathered.project_hooks]
    parts: list[Styled] = []
    parts += _section(_("Instructions"), instructions)
    parts += _section(_("Microagents"), agents)
    parts += _section(_("Skills"), skills)
    parts += _section(_("Hooks"), [(command, whose, MOMENTS[moment]) for command, whose, moment in hooks])
    if waiting := gathered.standing.waiting:
        title = counted(len(waiting), "{n} file needs your trust", "{n} files need your trust")
        parts.append((f"{title}\n", "bold $text-warning"))
        parts += [(f"  ● {sanitize_line(piece.path, NAME_CELLS)}\n", "$text-warning") for piece in waiting[:20]]
        parts.append((f"  {_('/trust shows the files and lets you trust them.')}\n\n", "$text-muted"))
    if gathered.problems:
        parts.append((f"{_('Left out')}\n", "bold $text-error"))
        for problem in gathered.problems:
            where, _colon, what = sanitize_line(problem, PROBLEM_CELLS).partition(": ")
            parts.append((f"  ! {where}\n", "$text-error"))
            parts.append((f"    {what}\n" if what else "", "$text-muted"))
    return parts or [(_("No instructions, skills or microagents apply to this folder."), "")]


def _section(title: str, lines: Iterable[tuple[str, str, str]]) -> list[Styled]:
    """Return a title and a line for each item: name, origin and note."""
    found = list(lines)
    if not found:
        return []
    parts: list[Styled] = [(f"{title}\n", "bold $text-accent")]
    for name, whose, note in found:
        parts.append((f"  {sanitize_line(name, NAME_CELLS)}", "bold"))
        parts.append((f"  {whose}\n", "$text-muted"))
        if note:
            parts.append((f"    {sanitize_line(note, NOTE_CELLS)}\n", "$text-muted"))
    return [*parts, ("\n", "")]
