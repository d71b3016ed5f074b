"""A task without a screen ends when the agent does, and the command /compact without a screen condenses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import ExitStatus
from core.events import CmdRunAction, CondensationAction, Envelope, EventSource, NullAction
from core.headless import compact_argument, last_condensation, run_task
from core.settings.config import Settings
from tests.doubles import FINISH, bash, write_script
from tests.session.test_session import conversation
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


async def nobody(envelope: Envelope) -> str | None:
    raise AssertionError("nothing is asked here")


async def test_headless_run_ends_with_the_agent_without_polling(tmp_path: Path) -> None:
    """Polling would need a timer, and no timer fires here."""

    async def note(envelope: Envelope) -> None:
        pass

    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH]))
        with stopped_clock():
            status = await run_task(
                session, "go", on_event=note, on_notice=lambda text: None, ask=nobody, interrupted=asyncio.Event()
            )
        assert status is ExitStatus.FINISHED


async def test_answer_counts_for_the_question_that_was_shown(tmp_path: Path) -> None:
    """While the person at the terminal thinks, somebody else denies the first command, and the next one waits."""
    shown, notices = list[str](), list[str]()

    async def note(envelope: Envelope) -> None:
        pass

    async def ask(envelope: Envelope) -> str | None:
        assert isinstance(envelope.event, CmdRunAction)
        shown.append(envelope.event.command)
        if len(shown) > 1:
            return "no"
        await session.approval.reject("not this")
        await session.settled()
        assert session.state.awaiting not in (None, envelope.id)
        return None

    always = Settings.model_validate({"agent": {"confirm": "always"}})
    script = [{"tool_calls": [bash("touch first")]}, {"tool_calls": [bash("touch second")]}, FINISH]
    async with ConversationManager(tmp_path / "home", always, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, script))
        async with asyncio.timeout(30):
            await run_task(session, "go", on_event=note, on_notice=notices.append, ask=ask, interrupted=asyncio.Event())
    assert shown[:2] == ["touch first", "touch second"]
    assert not {"first", "second"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("/compact", ""),
        (" /compact \n", ""),
        ("/compact the names  of files", "the names  of files"),
        ("/compacted", None),
        ("compact", None),
        ("please /compact", None),
        ("", None),
    ],
)
def test_compact_message_may_have_instructions(text: str, keep: str | None) -> None:
    assert compact_argument(text) == keep


async def test_newest_condensation_after_an_event_is_its_result(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        made = [CondensationAction(forgotten_event_ids=[1], summary=s, summary_offset=1) for s in ("first", "second")]
        first, second = [await session.stream.append(event, EventSource.ENVIRONMENT) for event in made]
        await session.stream.append(NullAction(), EventSource.ENVIRONMENT)
        assert await last_condensation(session.stream, first.id - 1) == made[1]
        assert await last_condensation(session.stream, first.id) == made[1]
        assert await last_condensation(session.stream, second.id) is None
