"""The command that reviews the changes of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _, counted
from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


def show_changes(app: Context) -> None:
    """Show what the agent has changed in the files."""
    if app.tabs.conversation is not None:
        app.attempt(_review(app, app.tabs.conversation))


async def _review(app: Context, tab: ConversationTab) -> None:
    from core.review.review import comment
    from tui.review.screen import ChangesScreen

    result = await app.push_screen_wait(ChangesScreen(tab.session.undo.review))
    if not result.remarks:
        return
    remarks, contexts = zip(*(comment(*remark) for remark in result.remarks), strict=True)
    if result.send:
        await tab.session.send("\n".join(remarks), context="\n\n".join(text for text in contexts if text))
        app.flash(counted(len(remarks), "{n} remark is sent.", "{n} remarks are sent."))
    else:
        app.workspace.prompt.put("\n".join([app.workspace.prompt.text, *remarks]).strip())
        app.flash(_("Your remarks are in the prompt."))


ROWS = (
    Command("conv.changes", (), "Changes", "Review the agent's file changes; accept or revert them.",
            Group.CONVERSATIONS, leader="d", slash="changes", acts=True, run=show_changes),
)  # fmt: skip
