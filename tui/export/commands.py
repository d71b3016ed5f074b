"""Export of a conversation: the user chooses a format and a file, and decides what happens to secrets.

No file is replaced without a question, and no secret leaves without an answer.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen
from tui.dialogs.line_input import LineScreen
from tui.export.screen import Answer, FindingsScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.import_export.formats import Format
    from core.import_export.secret_scan import Findings
    from core.store.conversations import ConversationInfo
    from tui.workspace.context import Context


NAME_CHARS = 40
"""Of a title, in the name of a file."""
LINE_CELLS = 160


def export_current(app: Context) -> None:
    """Export the conversation of the current tab."""
    if app.tabs.current is not None:
        app.attempt(export_conversation(app, app.tabs.current.id))


async def export_conversation(app: Context, conversation_id: str) -> None:
    """Ask for a format and a file, show what was found, and write. Raises HandloomError."""
    from core.import_export.exporter import export
    from core.import_export.formats import FORMATS, find_conversation, in_thread
    from core.import_export.secret_scan import Cleaner, Patterns, look_through

    assert app.manager is not None
    store = app.manager.store
    info = await find_conversation(store, conversation_id)
    choices = [Choice(row.name, row.name, abouts()[row.name]) for row in FORMATS.values()]
    chosen = await app.push_screen_wait(ChoiceScreen(_("Export as"), choices))
    if chosen is None:
        return
    wanted = FORMATS[chosen]
    path = await _ask_for_file(app, await in_thread(suggested, info, wanted))
    if path is None:
        return
    app.flash(_("Looking for secrets in the conversation …"))
    patterns = Patterns.of(os.environ)
    findings = await look_through(store, conversation_id, patterns, wanted)
    answer = await _ask_how_it_leaves(app, findings) if findings.secrets else "keep"
    if answer is None:
        app.flash(_("Export cancelled; nothing was written."))
        return
    cleaner = Cleaner(patterns) if answer == "redact" else None
    notes = unsearched(findings)
    await export(store, conversation_id, wanted.name, path, cleaner=cleaner, note=notes.append)
    app.flash(" ".join([*notes, _("Written: {path}").format(path=path)]))  # of one line, the path may be cut off


async def _ask_for_file(app: Context, suggestion: Path) -> Path | None:
    """A file that is not there, or that may be replaced."""
    from core.import_export.formats import in_thread

    text = await app.push_screen_wait(LineScreen(_("Export to this file"), _("A path"), str(suggestion)))
    if text is None or not text.strip():
        return None
    path, is_taken = await in_thread(_named, suggestion.parent, text.strip())
    if is_taken:
        question = _("{path} is there already. It will be replaced.").format(path=sanitize_line(str(path), 100))
        if not await app.push_screen_wait(SureScreen(question, _("replace it"))):
            return None
    return path


async def _ask_how_it_leaves(app: Context, findings: Findings) -> Answer | None:
    """How a conversation with secrets may leave; None where it may not."""
    lines = [sanitize_line(str(finding), LINE_CELLS) for finding in findings.all]
    if findings.left_out:
        lines.append(_("… and {count} more.").format(count=findings.left_out))
    return await app.push_screen_wait(FindingsScreen([*lines, *unsearched(findings)]))


def _named(folder: Path, text: str) -> tuple[Path, bool]:
    """The file that a text names, and whether something is there."""
    path = folder / Path(text).expanduser()
    return path, os.path.lexists(path)


def unsearched(findings: Findings) -> list[str]:
    """A sentence about what was not searched, if there is anything."""
    count = len(findings.pictures)
    return [_("Pictures that leave and were not searched for secrets: {count}.").format(count=count)] if count else []


def abouts() -> dict[str, str]:
    """What each format is, in words."""
    return {
        "trajectory": _("the flat list of OpenHands V0"),
        "archive": _("everything in one file, to import elsewhere"),
        "html": _("a page that replays in a browser"),
        "markdown": _("a document for people"),
        "openhands-events": _("the event files of OpenHands, zipped"),
        "asciicast": _("the terminal, for asciinema"),
    }


def suggested(info: ConversationInfo, wanted: Format) -> Path:
    """A file that does not exist: beside the workspace if that is writable, else in the home folder."""
    words = re.sub(r"[^\w.-]+", "-", info.title)[:NAME_CHARS].strip("-.")
    name = f"{words}-{info.id[:8]}" if words else info.id[:16]
    beside = Path(info.workspace).parent if info.workspace else Path.home()
    folder = beside if beside.is_dir() and os.access(beside, os.W_OK) and beside != Path("/") else Path.home()
    path, number = folder / f"{name}{wanted.suffix}", 1
    while os.path.lexists(path):
        number += 1
        path = folder / f"{name}-{number}{wanted.suffix}"
    return path


ROWS = (
    Command("conv.export", (), "Export", "Export this conversation to a file.", Group.CONVERSATIONS, leader="e",
            slash="export", run=export_current),
)  # fmt: skip
