"""Many conversations at once: 64 whose model takes 0.1 s a call, ten thoughts each, compared with a single one.

A thought needs no sandbox, so the runtime is a few lines in this process, and only Handloom is measured. The single
conversation runs first, so that lazy imports are not counted.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

from core.conversations.conversation_manager import ConversationManager
from core.events import Action, AgentState, AgentThinkAction, AgentThinkObservation, Observation
from core.protocols import FrameSink
from core.sandbox_types import Say, silently
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized
from tests.bench.stalls import Beat, idle_beats
from tests.doubles import FINISH, Unconfined, call, write_script

CONVERSATIONS, STEPS, CALL_S = sized(64, 3), sized(10, 2), 0.1
THOUGHT = "The build is red because a test waits for an echo. " * 4
FREE = Settings.model_validate({"agent": {"confirm": "never"}, "conversations": {"max_concurrent": CONVERSATIONS + 1}})


class Thoughts(Unconfined):
    """A runtime for thoughts alone."""

    def __init__(self, working_dir: str) -> None:
        self.working_dir = working_dir

    async def start(self, say: Say = silently) -> None:
        """There is nothing to start."""

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """A thought is finished when it is stored."""
        assert isinstance(action, AgentThinkAction)
        return AgentThinkObservation(content="Your thought has been logged.")

    async def aclose(self) -> None:
        """There is nothing to end."""


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    beat, idle = Beat(), Limit("the same on an idle loop", await idle_beats())
    with folder() as place:
        thoughts = [{"tool_calls": [call("think", thought=f"{number}. {THOUGHT}")]} for number in range(STEPS)]
        model = write_script(place, [{**turn, "first_token_s": CALL_S} for turn in (*thoughts, FINISH)])
        async with ConversationManager(place / "home", FREE, make_runtime=Thoughts, environ={}) as manager:
            await _run(await _open(manager, place, model, 1))  # what is loaded on first use
            alone = Limit("one alone", [await _run(await _open(manager, place, model, 1)) for _ in range(3)])
            before_mb = _memory_mb()
            sessions = await _open(manager, place, model, CONVERSATIONS)
            beat.start()
            together = await _run(sessions)
            beat.stop()
            each_mb = (_memory_mb() - before_mb) / CONVERSATIONS
    what = f"{CONVERSATIONS} conversations at once"
    return [
        Figure(f"{what}, {STEPS} thoughts each", "ms", [together], alone, [Target(2, "ratio")]),
        Figure(f"{what}, resident memory of each", "MB", [each_mb], None, [Target(15)]),
        Figure(f"{what}, loop kept waiting", "ms", beat.late, idle, [Target(100, "max")]),
    ]


async def _open(manager: ConversationManager, place: Path, model: str, count: int) -> list[AgentSession]:
    return [await manager.create(workspace=str(place), model=model) for _ in range(count)]


async def _run(sessions: list[AgentSession]) -> float:
    """Say something in all of them, and wait until all have finished; how long that took, in milliseconds."""
    started_at = perf_counter()
    await asyncio.gather(*(_see_through(session) for session in sessions))
    taken_ms = milliseconds_since(started_at)
    assert all(session.state.agent_state is AgentState.FINISHED for session in sessions)
    return taken_ms


async def _see_through(session: AgentSession) -> None:
    await session.send("go")
    await session.settled()


def _memory_mb() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
