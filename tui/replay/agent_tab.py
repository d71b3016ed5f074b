"""AgentTab: a session of another agent. It is replayed, and at its end it shows what its agent adds.

Nothing can be written there; a fork goes on from any event in a conversation of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import HandloomError
from core.import_export.agents.names import AGENTS
from tui.file_watcher import EDITED, watch
from tui.i18n import _
from tui.replay.replay_start import open_tab, replay_to
from tui.replay.replay_tab import FollowTab
from tui.shortcuts.command import keyed
from tui.workspace.conversation_status import Mark

if TYPE_CHECKING:
    from tui.replay.transport_bar import TransportState
    from tui.workspace.context import Context

_MODIFIED = 0x2
"""From inotify(7): the file was written, and its agent keeps it open."""
REST_S = 1.0
"""Shortest time between two looks at a session that grows."""
REST = 2
"""It is also this many times as long as the last look, which reads all of it: a long session takes seconds."""


class AgentSession(NamedTuple):
    """What a tab needs of a session."""

    read: Callable[[], Awaitable[object]]
    """Reads the session as it is now into its copy. Raises HandloomError."""
    fork: Callable[[int], Coroutine[Any, Any, None]]
    """Goes on from an event in a conversation of ours."""
    folder: Path | None
    """The folder in which its files grow; None if the agent has deleted it."""
    names: Sequence[str] = ()
    """Those files; all in the folder if there are none."""


class AgentTab(FollowTab):
    """A session of another agent, read-only."""

    is_reading = False
    """Whether the session is being read."""
    has_changed = False
    """Whether its agent has written since the reading began."""
    rests_until = 0.0
    """When it may be read again, by the clock of `monotonic`."""
    wrong = ""
    """Why the last reading failed, as the user was told; empty if it did not."""

    @property
    def work_groups(self) -> list[str]:
        return [*super().work_groups, self.reading_group]

    @property
    def reading_group(self) -> str:
        """The group of the work that reads the session."""
        return self.work_group("session")

    @property
    def title(self) -> str:
        return _("Replay: {title}").format(title=self.name)

    @property
    def mark(self) -> Mark:
        return Mark.REPLAY

    def _current_state(self) -> tuple[Mark, str]:
        return Mark.IDLE, AGENTS[self.info.origin].title if self.info.origin in AGENTS else self.info.origin

    @property
    def about_terminal(self) -> str:
        return ""

    @property
    def read_only_reason(self) -> str:
        text = _("This session belongs to {agent} and is read-only. {replay.fork} continues it here.")
        return keyed(text, agent=self._current_state()[1])

    @property
    def transport_state(self) -> TransportState:
        return replace(super().transport_state, has_more=self.is_reading)

    def _follow_status(self) -> tuple[str, str]:
        if self.followed.is_gone:
            return "✕", _("deleted")
        if self.is_reading:
            return "…", _("reading the session")
        if self.watch is not None and self.at_end:
            return "●", _("at the end; what {agent} adds appears here").format(agent=self._current_state()[1])
        return "", ""


async def open_agent_session(
    app: Context, conversation_id: str, event_id: int | None, home: Path, session: AgentSession
) -> None:
    """Show a session: paused after an event, else played from its beginning. Raises HandloomError."""
    await asyncio.to_thread(import_module, "core.replay.player")
    from core.replay.player import LogFollower

    tab = await open_tab(
        app,
        conversation_id,
        home,
        lambda reader, info, bookmarks, stack: AgentTab(LogFollower(reader, info), bookmarks, app.wake, stack),
    )
    tab.forks = session.fork
    tab.playing = event_id is None
    if session.folder is not None:
        tab.watch = watch(
            session.folder,
            lambda: app.attempt(_grow(app, tab, session), tab.reading_group),
            EDITED | _MODIFIED,
            rest_s=REST_S,
            names=session.names,
        )
    replay_to(app, tab, event_id)
    app.attempt(_grow(app, tab, session), tab.reading_group)


async def _grow(app: Context, tab: AgentTab, session: AgentSession) -> None:
    """Read what is new in the session, or everything after its first events, until it does not change any more."""
    tab.has_changed = True
    if tab.is_reading:
        return
    tab.is_reading = True
    try:
        while tab.has_changed:
            app.wake(tab)
            await asyncio.sleep(max(0.0, tab.rests_until - monotonic()))
            tab.has_changed = False
            begun_at = monotonic()
            try:
                await session.read()
            except HandloomError as error:  # told once: a session may change every second and never be whole
                if str(error) != tab.wrong:
                    tab.wrong = str(error)
                    app.report(tab.wrong)
            else:
                tab.wrong = ""
                tab.needs_refresh = True
                if tab in app.tabs.all and (tab.playing or not tab.busy):
                    replay_to(app, tab)
            tab.rests_until = monotonic() + REST * (monotonic() - begun_at)
    finally:
        tab.is_reading = False
        app.wake(tab)
