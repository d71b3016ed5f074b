"""A walk through every screen of the running workspace, made from the command table, so that none is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from core.controller.exit_reasons import Halt, HaltKind
from core.events import AgentState, CmdRunAction
from tests.tui.doubles import SessionDouble
from tui.app import HandloomApp
from tui.commands import COMMANDS
from tui.dialogs.dialog import SureScreen
from tui.models.start_screen import StartScreen, Steps
from tui.terminal_io.sanitizer import sanitize


async def nothing(*_given: object) -> Any:
    """Nothing is chosen on the tour."""


NOT_TOURED = frozenset(
    {"app.quit", "prompt.quit", "prompt.editor", "app.interrupt", "conv.close", "conv.new", "app.back"}
)
"""They end the tour, wait for another program, or leave where it is."""

STEPS = Steps(pick=nothing, ask_key=nothing, add_endpoint=nothing, check_endpoint=nothing, add_key=nothing)
Settle = Callable[[], Awaitable[None]]


async def tour(app: HandloomApp, session: SessionDouble, settle: Settle) -> AsyncIterator[str]:
    """Show one screen after another and stop at each, named. Ends where it began."""
    await settle()
    yield "workspace"
    for place in ("home", "page_down", "page_down", "end"):
        app.workspace.chat.action_go(place)
        await settle()
        yield f"chat, {place}"
    app.leader.arm()
    app.workspace.query_one("WhichKey").display = True
    app.workspace.query_one("WhichKey").reveal()  # type: ignore[attr-defined]
    await settle()
    yield "leader"
    app.leader.disarm()
    for command in COMMANDS:
        if not command.in_palette or command.id in NOT_TOURED:
            continue
        await app.do(command.id)
        await settle()
        yield command.id
        await leave(app, settle)
    words = session.info.title or "make all"
    offers = app.manager.offers() if app.manager is not None else []
    for screen in (StartScreen(words, offers, [], STEPS), SureScreen(sanitize(words), "quit")):
        await app.push_screen(screen)
        await settle()
        yield type(screen).__name__
        await leave(app, settle)
    await session.hold(CmdRunAction(command=words))
    await settle()
    yield "approval"
    reason = session.info.title or "The model did not answer."
    halt = Halt(HaltKind.MODEL)
    await session.become(agent_state=AgentState.ERROR, awaiting=None, halt=halt, reason=reason)
    await settle()
    yield "halt"
    app.report(reason)
    app.flash(reason)
    await settle()
    yield "notice"


async def leave(app: HandloomApp, settle: Settle) -> None:
    """Back to the workspace as it was."""
    while app.screen is not app.workspace:
        app.pop_screen()
        await settle()
    app.copy_mode.leave()
    app.workspace.restore()
    app.workspace.prompt.put("")
