"""The commands of a replay: play, go to an event, search, mark, leave. Commands that act are refused in a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tui.dialogs.dialog import LineScreen
from tui.i18n import _
from tui.replay.replay_start import open_replay, replay_to, take_over
from tui.shortcuts.command import Command, Group, Scope, keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import fork_from, show_conversation

if TYPE_CHECKING:
    from tui.replay.replay_tab import ReplayTab
    from tui.workspace.context import Context

    T = TypeVar("T", bound=ReplayTab)


MOST_HITS = 1000
WHY_NOT = _("This is a replay, which cannot be changed. Press b to open the conversation.")
NO_WORKSPACE = _("Only a replay is open. Start `handloom` for everything else.")
NEEDS_WORKSPACE = frozenset(
    {"conv.new", "conv.manager", "conv.reopen", "conv.statistics", "conv.again", "app.settings"}
)
"""Commands that need more than a replay."""


def current_replay(app: Context) -> ReplayTab | None:
    """The current tab if it is a replay."""
    from tui.replay.replay_tab import ReplayTab

    return app.tabs.current if isinstance(app.tabs.current, ReplayTab) else None


def refuses(app: Context, command: Command) -> str:
    """Why a command is refused here; empty if it is not."""
    if app.options.replay is not None and command.id in NEEDS_WORKSPACE:
        return NO_WORKSPACE
    if not command.acts or app.tabs.current is None or not app.tabs.current.is_replay:
        return ""
    return ((tab := current_replay(app)) and tab.read_only_reason) or WHY_NOT


def open_current(app: Context) -> None:
    if app.tabs.current is not None and not app.tabs.current.is_replay:
        app.attempt(open_replay(app, app.tabs.current.id))
    elif app.tabs.current is not None:
        app.flash(_("This is already a replay."))


# -- going -------------------------------------------------------------------------------------------------------------


def _go_to(app: Context, target: Callable[[ReplayTab], int | None], none: str = "", *, plays: bool = False) -> None:
    """Go to the event that `target` returns, and pause there unless `plays`; without an event, show the text `none`."""
    tab = current_replay(app)
    if tab is None:
        return
    event = target(tab)
    if event is None:
        app.flash(none)
        return
    tab.playing = tab.playing and plays
    replay_to(app, tab, event)


def play(app: Context) -> None:
    if (tab := current_replay(app)) is None:
        return
    tab.playing = not tab.playing
    replay_to(app, tab, -1 if tab.playing and tab.player.position.is_end else None)


def next_turn(app: Context) -> None:
    _go_to(
        app,
        lambda tab: next((turn for turn in tab.player.timeline.turns if turn > tab.target_event), tab.player.count - 1),
    )


def previous_turn(app: Context) -> None:
    _go_to(app, lambda tab: next((turn for turn in reversed(tab.player.timeline.turns) if turn < tab.target_event), 0))


def seek(app: Context, fraction: float) -> None:
    """Go to a fraction of the conversation."""
    _go_to(app, lambda tab: tab.player.at_fraction(fraction), plays=True)


def ask_event(app: Context) -> None:
    tab = current_replay(app)
    if tab is None:
        return
    count = tab.player.count

    def chosen(text: str | None) -> None:
        wanted = (text or "").strip()
        if (moment := seconds_of(wanted)) is not None:
            _go_to(app, lambda tab: tab.player.at_offset(moment))
        elif (number := wanted.lstrip("#")[:18]).isascii() and number.isdigit() and 1 <= int(number) <= count:
            _go_to(app, lambda tab: int(number) - 1)
        elif wanted:
            app.flash(_("Enter an event from 1 to {last}, or a time such as 12:45.").format(last=count))

    hint = _("1 to {last}, or a time since the beginning: 12:45").format(last=count)
    app.push_screen(LineScreen(_("Go to event"), hint), chosen)


# -- pace --------------------------------------------------------------------------------------------------------------


def _change_speed(app: Context, step: int) -> None:
    if (tab := current_replay(app)) is not None:
        tab.change_speed(step)
        replay_to(app, tab)


def skip_waiting(app: Context) -> None:
    if (tab := current_replay(app)) is not None:
        tab.player.skips_waiting = not tab.player.skips_waiting
        replay_to(app, tab)


# -- marks and search --------------------------------------------------------------------------------------------------


def mark(app: Context) -> None:
    if (tab := current_replay(app)) is not None:
        app.attempt(_toggle_bookmark(app, tab))


async def _toggle_bookmark(app: Context, tab: ReplayTab) -> None:
    is_marked = await tab.toggle_bookmark()
    text = _("Event {n} is marked; ' goes to the next mark.") if is_marked else _("The mark was removed.")
    app.flash(text.format(n=max(0, tab.player.position.event) + 1))


def next_mark(app: Context) -> None:
    _go_to(
        app,
        lambda tab: tab.next_of(tab.bookmarks),
        keyed(_("No event is marked. {replay.mark} marks the current one.")),
    )


def search(app: Context) -> None:
    tab = current_replay(app)
    if tab is None:
        return

    def chosen(text: str | None) -> None:
        if text is not None:
            app.attempt(_search_replay(app, tab, text.strip()))

    hint = _('Words, word*, or "an exact phrase"')
    app.push_screen(LineScreen(_("Search this conversation"), hint, tab.query), chosen)


async def _search_replay(app: Context, tab: ReplayTab, query: str) -> None:
    tab.query = sanitize_line(query, 30)
    tab.hits = await tab.player.timeline.search(query, MOST_HITS) if query else ()
    app.wake(tab)
    if query:
        text = _("“{words}” is not in this conversation.").format(words=tab.query)
        _go_to(app, lambda tab: tab.next_of(tab.hits), text)


def next_hit(app: Context) -> None:
    _go_to(app, lambda tab: tab.next_of(tab.hits), _("Press / to search first."))


def previous_hit(app: Context) -> None:
    _go_to(app, lambda tab: tab.previous_of(tab.hits), _("Press / to search first."))


# -- leaving -----------------------------------------------------------------------------------------------------------


def to_conversation(app: Context) -> None:
    if (tab := current_replay(app)) is not None:
        app.attempt(_to_live(app, tab))


async def _to_live(app: Context, tab: ReplayTab) -> None:
    from tui.replay.replay_tab import FollowTab

    if app.manager is None:
        app.flash(NO_WORKSPACE)
        return
    if tab.forks is not None:
        await tab.forks(tab.player.count - 1)
        return
    if isinstance(tab, FollowTab):
        await take_over(app, tab)
        return
    await show_conversation(app, tab.id)
    await app.tabs.drop(tab)


def fork_here(app: Context) -> None:
    tab = current_replay(app)
    if tab is None:
        return
    if app.manager is None:
        app.flash(NO_WORKSPACE)
    elif tab.player.position.event < 0:
        app.flash(_("Go to an event first; the fork starts there."))
    else:
        event = tab.player.position.event
        app.attempt(fork_from(app, tab.id, event) if tab.forks is None else tab.forks(event))


def seconds_of(text: str) -> int | None:
    """Seconds of a time such as 0:07, 12:45 or 1:02:03; None for other texts."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total


ROWS = (
    Command("replay.play", ("space",), "Play or pause", "Play at the original pace, or pause.", Group.REPLAY,
            Scope.REPLAY, hint="play", run=play),
    Command("replay.next", ("right",), "Next event", "Go to the next event.", Group.REPLAY, Scope.REPLAY, hint="event",
            run=lambda app: _go_to(app, lambda tab: tab.target_event + 1)),
    Command("replay.prev", ("left",), "Previous event", "Go to the previous event.", Group.REPLAY, Scope.REPLAY,
            run=lambda app: _go_to(app, lambda tab: tab.target_event - 1)),
    Command("replay.next_turn", ("shift+right",), "Next turn", "Go to the user's next message.", Group.REPLAY,
            Scope.REPLAY, hint="turn", run=next_turn),
    Command("replay.prev_turn", ("shift+left",), "Previous turn", "Go to the user's previous message.", Group.REPLAY,
            Scope.REPLAY, run=previous_turn),
    Command("replay.first", ("home",), "Beginning", "Go to the first event.", Group.REPLAY, Scope.REPLAY,
            run=lambda app: _go_to(app, lambda tab: 0)),
    Command("replay.last", ("end",), "End", "Go to the last event.", Group.REPLAY, Scope.REPLAY,
            run=lambda app: _go_to(app, lambda tab: tab.last_event())),
    Command("replay.part", tuple("123456789"), "To a tenth", "1 goes to 10 %, 9 to 90 % of the conversation.",
            Group.REPLAY, Scope.REPLAY, native=True),
    Command("replay.faster", ("plus", "equals_sign"), "Faster", "Twice as fast, up to 64 times.", Group.REPLAY,
            Scope.REPLAY, hint="faster", run=lambda app: _change_speed(app, 1)),
    Command("replay.slower", ("minus",), "Slower", "Half as fast, down to a quarter.", Group.REPLAY, Scope.REPLAY,
            run=lambda app: _change_speed(app, -1)),
    Command("replay.skip", ("s",), "Skip waiting", "Shorten long waits.", Group.REPLAY, Scope.REPLAY,
            hint="skip waiting", run=skip_waiting),
    Command("replay.search", ("slash",), "Search", "Find words anywhere in this conversation.", Group.REPLAY,
            Scope.REPLAY, hint="search", run=search),
    Command("replay.next_hit", ("n",), "Next match", "Go to the next event that contains the words.", Group.REPLAY,
            Scope.REPLAY, run=next_hit),
    Command("replay.prev_hit", ("N",), "Previous match",
            "Go to the previous event that contains the words.", Group.REPLAY,
            Scope.REPLAY, run=previous_hit),
    Command("replay.mark", ("m",), "Mark", "Mark this event, or remove its mark.", Group.REPLAY, Scope.REPLAY,
            hint="mark", run=mark),
    Command("replay.next_mark", ("apostrophe",), "Next mark", "Go to the next event that you marked.", Group.REPLAY,
            Scope.REPLAY, run=next_mark),
    Command("replay.goto", ("g",), "Go to event",
            "Go to an event by its number.", Group.REPLAY, Scope.REPLAY, run=ask_event),
    Command("replay.live", ("b",), "Back to the conversation", "Leave the replay and open the conversation.",
            Group.REPLAY, Scope.REPLAY, run=to_conversation),
    Command("replay.fork", ("f",), "Fork from here", "Continue from this event in a new conversation.", Group.REPLAY,
            Scope.REPLAY, hint="fork", run=fork_here),
    Command("replay.open", (), "Replay", "Replay this conversation from its beginning in a new tab.",
            Group.CONVERSATIONS, leader="P", slash="replay", run=open_current),
)  # fmt: skip
