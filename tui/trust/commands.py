"""Trust of folders and of imported conversations, and the skills and microagents that apply, on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.dialogs.dialog import SureScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


async def ask_trust(app: Context, folder: str) -> None:
    """Ask once about what a folder brings, before a conversation begins there. Raises ConfigurationError."""
    manager = app.manager
    if manager is None or not manager.trust.asks:
        return
    standing = await manager.trust.look(folder)
    if not standing.is_open:
        return
    from tui.trust.screen import TrustScreen

    if await app.push_screen_wait(TrustScreen(standing, asks=True)):
        await manager.trust.give(folder, standing)
    else:
        await manager.trust.refuse(standing)


def show_trust(app: Context) -> None:
    """Show what the folder brings for agents, and let the user trust it or take that back."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    app.attempt(_manage_trust(app, app.manager))


async def _manage_trust(app: Context, manager: ConversationManager) -> None:
    """What the project's folder brings, with a yes to give or to take back."""
    from tui.trust.screen import TrustScreen

    folder, along = (
        project_folder(app),
        app.tabs.conversation.session.memory.along if app.tabs.conversation else (),
    )
    standing = await manager.trust.look(folder, along)
    if not (standing.waiting or standing.trusted or standing.survey.problems):
        app.flash(_("This folder contains no files that need your trust."))
        return
    screen = TrustScreen(standing, asks=False)
    answer = await app.push_screen_wait(screen)
    try:
        if answer:
            await manager.trust.give(folder, standing)
            app.flash(_("Trusted from your next message on, until these files change."))
        elif answer is False:
            await manager.trust.refuse(standing)
        elif screen.is_revoked:
            await manager.trust.revoke(folder)
            app.flash(_("Trust revoked. The agent still knows what it has already read."))
    finally:
        for tab in app.tabs.conversations:
            await tab.session.memory.refresh()


def project_folder(app: Context) -> str:
    """The folder of the conversation in sight, as its agent has it."""
    if (tab := app.tabs.conversation) is not None:
        return tab.session.memory.folder
    return app.tabs.current.folder if app.tabs.current is not None else app.options.workspace


async def consents(app: Context, tab: ConversationTab) -> bool:
    """Whether a conversation may go on; of an imported one the user is asked, once."""
    if not tab.session.consent.is_needed:
        return True
    question = _(
        "This conversation was imported from “{origin}”. Others wrote it, the agent will read all of it, and it may "
        "contain text that is meant to mislead the agent. Continue it?"
    )
    asked = question.format(origin=sanitize_line(tab.session.consent.origin, 60))
    if not await app.push_screen_wait(SureScreen(asked, _("continue"))):
        return False
    await tab.session.consent.give()
    return True


ROWS = (
    Command("conv.trust", (), "Folder trust", "Review the project's files for agents; trust them or revoke "
            "trust.", Group.CONVERSATIONS, leader="F", slash="trust", run=show_trust),
)  # fmt: skip
