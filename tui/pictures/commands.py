"""The commands for pictures: open one in the system's viewer, or save it to a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope

if TYPE_CHECKING:
    from core.store.blobs import Blob
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab

NONE = _("There is no picture here.")


def open_picture(app: Context) -> None:
    """Open the picture in the system's viewer; without one, say where the file is."""
    app.attempt(_open(app))


def save_picture(app: Context, path: str = "") -> None:
    """Save the picture to a new file; ask for the path if none is given."""
    app.attempt(_save(app, path))


async def _open(app: Context) -> None:
    from tui.pictures.picture_files import file_name, open_file, temporary_copy, viewer

    blob = await _picture(app)
    if blob is None:
        app.flash(NONE)
        return
    name = file_name(blob.ref.media_type, blob.ref.digest)
    file = await asyncio.to_thread(temporary_copy, name, blob.data)
    if program := viewer():
        await asyncio.to_thread(open_file, program, file)
        app.flash(_("Opened {file}").format(file=name))
    else:
        app.copy_to_clipboard(str(file), _("No viewer on this machine. The picture is in {file}").format(file=file))


async def _save(app: Context, path: str) -> None:
    from tui.dialogs.dialog import LineScreen
    from tui.pictures.picture_files import file_name, resolved, write_new

    blob = await _picture(app)
    if blob is None:
        app.flash(NONE)
        return
    name = file_name(blob.ref.media_type, blob.ref.digest)
    answer: str | None = path
    if not path:
        suggestion = str(await asyncio.to_thread(resolved, name))
        answer = await app.push_screen_wait(LineScreen(_("Save the picture as"), _("A path"), suggestion))
    if not answer:
        return
    file = await asyncio.to_thread(resolved, answer)
    try:
        await asyncio.to_thread(write_new, file, blob.data)
    except FileExistsError:
        app.report(_("{file} exists already. Choose another name.").format(file=file))
    except OSError as error:
        app.report(_("{file} cannot be written: {why}.").format(file=file, why=error.strerror or error))
    else:
        app.flash(_("Saved {file}").format(file=file))


async def _picture(app: Context) -> Blob | None:
    """The picture of the focused browser, of the block at the cursor, or the newest one of the chat."""
    from core.store.blobs import BlobRef

    tab = app.tabs.current
    ref = next((ref for text in _candidates(app, tab) if (ref := BlobRef.parse(text))), None) if tab else None
    return await tab.log.blob(ref) if tab is not None and ref is not None else None


def _candidates(app: Context, tab: Tab) -> list[str]:
    """References to pictures, the best first."""
    workspace, page = app.workspace, tab.browser.page
    shown = [page.picture] if page is not None else []
    in_chat = [text for block in reversed(tab.chat.blocks) for text in block.pictures]
    if workspace.focused is workspace.browser:
        return shown + in_chat
    cursor = workspace.chat.cursor if workspace.focused is workspace.chat else None
    return [*(cursor.pictures if cursor is not None else ()), *in_chat, *shown]


ROWS = (
    Command("picture.open", (), "Open the picture", "Open the picture of the block, or the page, in this machine's "
            "viewer.", Group.PANES, slash="picture", run=open_picture, also="screenshot plot figure image view"),
    Command("picture.save", (), "Save the picture", "Save the picture of the block, or the page, to a new file.",
            Group.PANES, slash="savepicture", words="PATH", run_with=save_picture,
            also="screenshot plot figure image download"),
    Command("chat.open_picture", ("v",), "Open the picture", "Open the picture of the block under the cursor in this "
            "machine's viewer.", Group.READING, Scope.CHAT, run=open_picture),
    Command("chat.save_picture", ("s",), "Save the picture", "Save the picture of the block under the cursor.",
            Group.READING, Scope.CHAT, run=save_picture),
    Command("browser.open_picture", ("v",), "Open the picture", "Open the screenshot in this machine's viewer.",
            Group.READING, Scope.BROWSER, native=True),
    Command("browser.save_picture", ("s",), "Save the picture", "Save the screenshot to a new file.",
            Group.READING, Scope.BROWSER, native=True),
)  # fmt: skip
