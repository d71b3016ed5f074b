"""A conversation that another Handloom has: read along as it goes on, and gone on with here once it is free.

Only one process owns a conversation, so of two screens only the owner's can say yes; the other one reads. The folder of
the locks is watched for it (`core.store.locks`, `core.replay.log_follower`); where the system has nothing that tells of
changes, such as macOS, End reads on. A conversation that somebody has is never taken away from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.file_watcher import RUNG, watch
from tui.i18n import _
from tui.replay.replay_start import open_followed, replay_to
from tui.shortcuts.command import keyed
from tui.trust.commands import ask_trust

if TYPE_CHECKING:
    from core.replay.log_follower import Owner
    from tui.replay.follow_tab import FollowTab
    from tui.workspace.context import Context

NEWEST = 2**53
"""Behind every event that there is."""
REST_S = 0.2
"""Between two looks at what came, however much comes."""


async def follow(app: Context, conversation_id: str) -> None:
    """Show what goes on in it, in the tab that does so already or in a new one. Raises HandloomError."""
    known = next((tab for tab in app.tabs.all if tab.is_replay and tab.id == conversation_id), None)
    if known is not None and hasattr(known, "followed"):
        app.tabs.show(known)
        return
    tab = await open_followed(app, conversation_id)
    tab.on_owner = lambda tab, before: _tell_of_owner(app, tab, before)
    locks = tab.followed.timeline.reader.home / "locks"
    tab.watch = watch(locks, lambda: _rung(app, tab), RUNG, rest_s=REST_S)
    replay_to(app, tab, NEWEST)


def _rung(app: Context, tab: FollowTab) -> None:
    """Have the tab look, unless it is about to."""
    tab.rung = True
    if tab in app.tabs.all and (tab.playing or not tab.busy):
        replay_to(app, tab)


def _tell_of_owner(app: Context, tab: FollowTab, before: Owner | None) -> None:
    """Say that it is free, and take that back where somebody was faster."""
    if tab.followed.is_gone:
        text = _("“{title}” was deleted. What was read of it stays here until you close it.")
        app.report(text.format(title=tab.name))
    elif tab.followed.owner is None and before is not None:
        text = _("“{title}” is no longer open in {where}. {replay.live} continues it here; everything stored is there.")
        app.report(keyed(text, title=tab.name, where=tab.where(before)))
    elif tab.said_free:
        app.workspace.notice.clear()
    tab.said_free = tab.followed.owner is None


async def take_over(app: Context, tab: FollowTab) -> None:
    """Go on with a conversation that nobody has open any more; what is in the prompt stays there.

    Raises StoreBusyError where somebody was faster, HandloomError.
    """
    assert app.manager is not None
    if tab.watch is not None and tab.followed.owner is not None:
        app.report(tab.why_not)
        return
    await ask_trust(app, tab.folder)
    living = await app.tabs.open(await app.manager.open(tab.id))
    living.draft = app.workspace.prompt.text if app.tabs.current is tab else tab.draft
    app.tabs.all.remove(living)
    app.tabs.all.insert(app.tabs.all.index(tab), living)
    app.workspace.notice.clear()
    app.tabs.show(living)
    await app.tabs.drop(tab)
