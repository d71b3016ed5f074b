"""Commands for the trust in folders and imported conversations."""

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
    """Ask once about the files of a folder, before a conversation begins there. Raises ConfigurationError."""
    manager = app.manager
    if manager is None or not manager.trust.asks:
        return
    state = await manager.trust.state_of(folder)
    if not state.needs_answer:
        return
    from tui.trust.screen import TrustScreen

    if await app.push_screen_wait(TrustScreen(state, asks=True)):
        await manager.trust.approve(folder, state)
    else:
        await manager.trust.refuse(state)


def show_trust(app: Context) -> None:
    """Show the files of the folder that affect agents, and let the user trust them or revoke trust."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    app.attempt(_manage_trust(app, app.manager))


async def _manage_trust(app: Context, manager: ConversationManager) -> None:
    from tui.trust.screen import TrustScreen

    folder, along = (
        project_folder(app),
        app.tabs.conversation.session.memory.along if app.tabs.conversation else (),
    )
    state = await manager.trust.state_of(folder, along)
    if not (state.waiting or state.trusted or state.survey.problems):
        app.flash(_("This folder contains no files that need your trust."))
        return
    screen = TrustScreen(state, asks=False)
    answer = await app.push_screen_wait(screen)
    try:
        if answer:
            await manager.trust.approve(folder, state)
            app.flash(_("Trusted from your next message on, until these files change."))
        elif answer is False:
            await manager.trust.refuse(state)
        elif screen.is_revoked:
            await manager.trust.revoke(folder)
            app.flash(_("Trust revoked. The agent still knows what it has already read."))
    finally:
        for tab in app.tabs.conversations:
            await tab.session.memory.refresh()


def project_folder(app: Context) -> str:
    """The folder of the current conversation."""
    if (tab := app.tabs.conversation) is not None:
        return tab.session.memory.folder
    return app.tabs.current.folder if app.tabs.current is not None else app.options.workspace


async def consents(app: Context, tab: ConversationTab) -> bool:
    """Whether a conversation may continue; the user is asked once about an imported one."""
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
