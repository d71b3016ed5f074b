"""The workspace when everything happens at once: an answer streams, the log takes 1,000 events a second, the terminal
is flooded. The app is the real one; what comes to it is made up, so that nothing but the screen is measured.

    python -m tests.bench.busy
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, cast

from core.events import AgentState, CmdRunAction, TerminalOutput, TokenDelta
from tests.bench.transcript import STREAMS
from tests.tui.doubles import ManagerDouble, SessionDouble
from tui.app import HandloomApp
from tui.cli.options import StartOptions

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager

PERIOD_S = 0.02
EVENTS_A_PERIOD = 20
CHARS_A_PERIOD = 40
"""2,000 characters a second; the fastest models that there are."""
LINES_A_PERIOD = b"".join(b"\x1b[3%dmline %06d of what a command prints\x1b[0m\r\n" % (n % 8, n) for n in range(100))
"""5,000 lines and 200 kB a second."""
FLOOD_DRAWN = b"of what a command prints"


async def _flood(session: SessionDouble) -> None:
    answer, cause = STREAMS["prose"], session.stream.latest_id + 1
    for period in count():
        at = period * CHARS_A_PERIOD % len(answer)
        session.publish(TokenDelta(cause, answer[at : at + CHARS_A_PERIOD]))
        session.publish(TerminalOutput(cause, LINES_A_PERIOD))
        for number in range(EVENTS_A_PERIOD):
            await session.stream.append_by_agent(CmdRunAction(command=f"make {period}.{number}", hidden=True))
        await asyncio.sleep(PERIOD_S)


async def _run() -> None:
    manager = ManagerDouble()
    session = manager.add()

    async def connect() -> ConversationManager:
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(workspace="/work", model="demo", resume=session.info.id))
    flooding: asyncio.Task[None] | None = None

    async def begin() -> None:
        nonlocal flooding
        await session.become(agent_state=AgentState.RUNNING)
        flooding = asyncio.create_task(_flood(session))

    app.call_later(begin)
    await app.run_async()
    if flooding is not None:
        flooding.cancel()


if __name__ == "__main__":
    asyncio.run(_run())
