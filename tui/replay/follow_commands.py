"""A conversation that another Handloom has: read along as it goes on, and gone on with here once it is free.

Only one process owns a conversation, so of two screens only the owner's can say yes; the other one reads. The folder of
the locks is watched for it (`core.store.locks`, `core.replay.log_follower`); where the system has nothing that tells of
changes, such as macOS, End reads on. A conversation that somebody has is never taken away from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands import keyed
from tui.file_watcher import RUNG, watch
from tui.i18n import _

if TYPE_CHECKING:
    from core.errors import StoreBusyError
    from core.replay.log_follower import Owner
    from tui.replay.follow_tab import FollowTab
    from tui.workspace.frame import Frame

NEWEST = 2**53
"""Behind every event that there is."""
REST_S = 0.2
"""Between two looks at what came, however much comes."""


async def read_along(app: Frame, conversation_id: str, busy: StoreBusyError) -> None:
    """Read it along where the user has asked for it by its name, else begin another one with its model.

    Raises HandloomError.
    """
    if app.options.resume:
        await follow(app, conversation_id)
        app.take_back_early()  # it waits in the prompt for the conversation to be free
        app.report(f"{busy}\n" + _("You see it as it goes on; here it can only be read."))
        return
    assert app.manager is not None
    model = next((c.model for c in await app.manager.list() if c.id == conversation_id), "")
    await app.new_conversation(model=model)
    app.report(f"{busy}\n" + _("This is a new one."))


async def follow(app: Frame, conversation_id: str) -> None:
    """Show what goes on in it, in the tab that does so already or in a new one. Raises HandloomError."""
    known = next((tab for tab in app.open_tabs if tab.is_replay and tab.id == conversation_id), None)
    if known is not None and hasattr(known, "followed"):
        app.show_tab(known)
        return
    tab = await app.open_followed(conversation_id)
    tab.on_owner = lambda tab, before: _tell_of_owner(app, tab, before)
    locks = tab.followed.timeline.reader.home / "locks"
    tab.watch = watch(locks, lambda: _rung(app, tab), RUNG, rest_s=REST_S)
    app.replay_to(tab, NEWEST)


def _rung(app: Frame, tab: FollowTab) -> None:
    """Have the tab look, unless it is about to."""
    tab.rung = True
    if tab in app.open_tabs and (tab.playing or not tab.busy):
        app.replay_to(tab)


def _tell_of_owner(app: Frame, tab: FollowTab, before: Owner | None) -> None:
    """Say that it is free, and take that back where somebody was faster."""
    if tab.followed.is_gone:
        told = _("“{title}” was deleted. What was read of it stays here until you close it.")
        app.report(told.format(title=tab.name))
    elif tab.followed.owner is None and before is not None:
        told = _(
            "“{title}” is open no more in {where}. {replay.live} goes on with it here; all that was stored is there."
        )
        app.report(keyed(told, title=tab.name, where=tab.where(before)))
    elif tab.said_free:
        app.workspace.notice.clear()
    tab.said_free = tab.followed.owner is None


async def take_over(app: Frame, tab: FollowTab) -> None:
    """Go on with a conversation that nobody has open any more; what is in the prompt stays there.

    Raises StoreBusyError where somebody was faster, HandloomError.
    """
    assert app.manager is not None
    if tab.watch is not None and tab.followed.owner is not None:
        app.report(tab.why_not)
        return
    await app.ask_trust(tab.folder)
    living = await app.open_tab(await app.manager.open(tab.id))
    living.draft = app.workspace.prompt.text if app.current is tab else tab.draft
    app.open_tabs.remove(living)
    app.open_tabs.insert(app.open_tabs.index(tab), living)
    app.workspace.notice.clear()
    app.show_tab(living)
    await app.drop_tab(tab)
