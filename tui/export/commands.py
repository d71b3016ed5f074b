"""Export of a conversation: the user chooses a format and a file, and decides what happens to secrets.

An existing file is replaced only after a question, and secrets are exported only after an answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.dialogs.answer_list import Effect, Row
from tui.dialogs.choice_dialog import AnswersScreen
from tui.dialogs.dialog import Choice, ChoiceScreen, LineScreen, SureScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.import_export.exporter import Format
    from core.import_export.secret_scan import Findings
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader
    from tui.workspace.context import Context

Answer = Literal["redact", "keep"]


class FindingsScreen(AnswersScreen[Answer | None]):
    """Shows the findings. Returns the answer, or None to cancel.

    Texts are sanitised. The selected answer is the one that writes nothing.
    """

    DEFAULT_CSS = """
    FindingsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
            background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        VerticalScroll { height: auto; max-height: 40vh; scrollbar-size-vertical: 1; }
    }
    """

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__(
            (
                Row(Effect.DENY, _("Cancel the export")),
                Row(Effect.ALLOW, _("Export with secrets redacted"), "redact"),
                Row(Effect.ALLOW, _("Export unredacted"), "keep"),
            )
        )
        self._findings = findings

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Possible secrets found")
            box.border_subtitle = _("↑ ↓ choose · Enter answers · PgUp PgDn scroll · Esc cancels")
            yield Static(Content(_("These look like keys, tokens or passwords, or identify your machine:")))
            with VerticalScroll(can_focus=False):
                yield Static(Content("\n".join(self._findings)))
            yield from self.answer_rows()

    def result(self, row: Row) -> Answer | None:
        return "redact" if row.value == "redact" else "keep" if row.value == "keep" else None

    def scroll_text(self, pages: int) -> None:
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)


NAME_CHARS = 40
LINE_CELLS = 160


def export_current(app: Context) -> None:
    if app.tabs.current is not None:
        app.attempt(export_conversation(app, app.tabs.current.id))


async def export_conversation(app: Context, conversation_id: str, reader: EventReader | None = None) -> None:
    """Ask for a format and a file, show the findings, and write the file. Raises HandloomError.

    `reader` has the conversation; the default is the store of the app.
    """
    from core.import_export.exporter import FORMATS, export, in_thread
    from core.import_export.secret_scan import Cleaner, Patterns, scan

    assert app.manager is not None
    store = reader or app.manager.store
    info = await store.conversation(conversation_id)
    choices = [Choice(row.name, row.name, descriptions()[row.name]) for row in FORMATS.values()]
    chosen = await app.push_screen_wait(ChoiceScreen(_("Export as"), choices))
    if chosen is None:
        return
    wanted = FORMATS[chosen]
    path = await _ask_for_file(app, await in_thread(suggested_file, info, wanted))
    if path is None:
        return
    app.flash(_("Searching the conversation for secrets …"))
    patterns = Patterns.of(os.environ)
    findings = await scan(store, conversation_id, patterns, wanted)
    answer = await _ask_about_secrets(app, findings) if findings.secrets else "keep"
    if answer is None:
        app.flash(_("Export cancelled; nothing was written."))
        return
    cleaner = Cleaner(patterns) if answer == "redact" else None
    notes = unsearched_pictures(findings)
    await export(store, conversation_id, wanted.name, path, cleaner=cleaner, note=notes.append)
    app.flash(" ".join([*notes, _("Written: {path}").format(path=path)]))  # the end of the line may be cut off


async def _ask_for_file(app: Context, suggestion: Path) -> Path | None:
    """A new file, or one that may be replaced."""
    from core.import_export.exporter import in_thread

    text = await app.push_screen_wait(LineScreen(_("Export to this file"), _("A path"), str(suggestion)))
    if text is None or not text.strip():
        return None
    path, is_taken = await in_thread(_resolve, suggestion.parent, text.strip())
    if is_taken:
        question = _("{path} already exists and will be replaced.").format(path=sanitize_line(str(path), 100))
        if not await app.push_screen_wait(SureScreen(question, _("replace it"))):
            return None
    return path


async def _ask_about_secrets(app: Context, findings: Findings) -> Answer | None:
    """The answer for a conversation with secrets; None to cancel."""
    lines = [sanitize_line(str(finding), LINE_CELLS) for finding in findings.all]
    if findings.left_out:
        lines.append(_("… and {count} more.").format(count=findings.left_out))
    return await app.push_screen_wait(FindingsScreen([*lines, *unsearched_pictures(findings)]))


def _resolve(folder: Path, text: str) -> tuple[Path, bool]:
    path = folder / Path(text).expanduser()
    return path, os.path.lexists(path)


def unsearched_pictures(findings: Findings) -> list[str]:
    """A sentence about pictures, which are not searched; none without pictures."""
    count = len(findings.pictures)
    return [_("Exported images that were not searched for secrets: {count}.").format(count=count)] if count else []


def descriptions() -> dict[str, str]:
    return {
        "trajectory": _("the flat list of OpenHands V0"),
        "archive": _("everything in one file, to import elsewhere"),
        "html": _("a page that replays in a browser"),
        "markdown": _("a document for people"),
        "openhands-events": _("the event files of OpenHands, zipped"),
        "asciicast": _("the terminal, for asciinema"),
    }


def suggested_file(info: ConversationInfo, wanted: Format) -> Path:
    """A new file beside the workspace if that is writable, else in the home folder."""
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
            slash="export", run=export_current,
            also="share save download html markdown"),
)  # fmt: skip
