"""Files that the user's programs would execute are reported at rest and at the end, each once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
)
from core.sandbox.leftovers import INTRODUCTION, LEFT_BEHIND, MAX_LINES, MORE, REMEDY, Leftovers
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.runtime.isolation.confined import BUBBLEWRAP, own
from tests.streams import opened_stream

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


class Leaving(ScriptedRuntime):
    """Leaves the files that the test names."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[str] = []
        self.left_at_the_end: list[str] = []

    async def left_behind(self) -> list[str]:
        return self.left

    async def aclose(self) -> None:
        self.left = self.left + self.left_at_the_end
        await super().aclose()


def warnings(events: list[Envelope]) -> list[str]:
    """The reported items without the text around them."""
    told = []
    for envelope in events:
        event = envelope.event
        if isinstance(event, ErrorObservation) and event.error_id == LEFT_BEHIND:
            assert envelope.source is EventSource.ENVIRONMENT
            first, *lines, last = event.content.split("\n")
            assert (first, last) == (INTRODUCTION, REMEDY)
            told.append(" ".join(lines))
    return told


async def rested(session: AgentSession) -> None:
    await session.send("go")
    async with asyncio.timeout(30):
        await session.settled()


async def test_each_leftover_is_reported_once(tmp_path: Path) -> None:
    runtime = Leaving()
    model = write_script(tmp_path, [{"tool_calls": [bash("true")]}, FINISH] * 3)
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=model)
        runtime.left = ["a: x"]
        await rested(session)
        assert warnings(await session.stream.read()) == ["- a: x"]
        runtime.left = ["a: x", "b: y"]
        await rested(session)
        assert warnings(await session.stream.read()) == ["- a: x", "- b: y"]
        runtime.left_at_the_end = ["c: z"]
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        again = await manager.open(session.id)
        assert warnings(await again.stream.read()) == ["- a: x", "- b: y", "- c: z"]
        await rested(again)
        assert len(warnings(await again.stream.read())) == 3


async def test_many_leftovers_are_reported_in_parts(tmp_path: Path) -> None:
    runtime = Leaving()
    model = write_script(tmp_path, [FINISH] * 3)
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=model)
        runtime.left = [f"{number}: x" for number in range(MAX_LINES + 1)]
        await rested(session)
        await rested(session)
        first, *rest = warnings(await session.stream.read())
    assert first.count(": x") == MAX_LINES
    assert f"- {MAX_LINES}: x" in rest


@pytest.mark.bubblewrap
async def test_repository_made_by_the_agent_is_reported_with_settings_and_hooks(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    own(workspace)
    make = "git init -q sub && git -C sub config core.fsmonitor 'touch /tmp/x' && echo x > sub/.git/hooks/pre-commit"
    model = write_script(tmp_path, [{"tool_calls": [bash(make)]}, FINISH, FINISH])
    runtimes = lambda folder: LocalRuntime(folder, isolation=BUBBLEWRAP)  # noqa: E731
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=runtimes, environ={}) as manager:
        session = await manager.create(workspace=str(workspace), model=model)
        await rested(session)
        (told,) = warnings(await session.stream.read())
    assert "- sub/.git/config: git follows the setting core.fsmonitor" in told
    assert "- sub/.git/hooks/pre-commit: git runs it as a hook" in told
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=runtimes, environ={}) as manager:
        again = await manager.open(session.id)
        await rested(again)
        assert len(warnings(await again.stream.read())) == 1
        assert len(await again.runtime.left_behind()) == 2, "the Sandbox screen has them still"


@pytest.mark.bubblewrap
async def test_moved_file_is_reported_and_can_be_restored(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    own(workspace)
    commands = [bash("echo one > .envrc"), FINISH, bash("echo two > .envrc"), FINISH]
    model = write_script(tmp_path, [one if one is FINISH else {"tool_calls": [one]} for one in commands])
    runtimes = lambda folder: LocalRuntime(folder, isolation=BUBBLEWRAP)  # noqa: E731
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=runtimes, environ={}) as manager:
        session = await manager.create(workspace=str(workspace), model=model)
        await rested(session)
        (told,) = warnings(await session.stream.read())
        assert "- .envrc: moved to .envrc.from-sandbox" in told
        assert await session.leftovers.put_back("") == ".envrc"
        await rested(session)
    assert (workspace / ".envrc").read_text() == "one\n"


async def test_files_missing_from_a_remote_workspace_are_reported(tmp_path: Path) -> None:
    class Elsewhere(ScriptedRuntime):
        async def came_back(self) -> list[str]:
            return ["notes: was changed here and in the sandbox"]

    model = write_script(tmp_path, [FINISH, FINISH])
    runtime = Elsewhere()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=model)
        await rested(session)
        await rested(session)
        events = [one.event for one in await session.stream.read()]
    told = [event.content for event in events if isinstance(event, ErrorObservation)]
    assert told == [
        "The work was copied back from where the sandbox ran, except for this:\n"
        "- notes: was changed here and in the sandbox"
    ]


@pytest.mark.parametrize(("count", "more"), [(1, []), (MAX_LINES, []), (MAX_LINES + 2, [MORE.format(n=2)])])
async def test_report_counts_further_leftovers_and_drops_duplicates(
    tmp_path: Path, count: int, more: list[str]
) -> None:
    runtime = Leaving()
    runtime.left = [f"{number}: x" for number in range(count)] * 2
    async with opened_stream(tmp_path) as stream:
        leftovers = Leftovers(runtime, stream, runtime.rest, lambda: False)
        await leftovers.report()
        (told,) = await stream.read()
        assert isinstance(told.event, ErrorObservation)
        lines = [f"- {number}: x" for number in range(min(count, MAX_LINES))]
        assert told.event.content.split("\n") == [INTRODUCTION, *lines, *more, REMEDY]
        runtime.left = []
        await leftovers.report()
        assert len(await stream.read()) == 1


@pytest.mark.parametrize("state", AgentState)
async def test_leftovers_are_checked_whenever_the_agent_rests(tmp_path: Path, state: AgentState) -> None:
    runtime = Leaving()
    runtime.left = ["a: x"]
    works = state.value in ("running", "rate_limited", "loading", "user_confirmed", "user_rejected")
    async with opened_stream(tmp_path) as stream:
        leftovers = Leftovers(runtime, stream, runtime.rest, lambda: False)
        changed = AgentStateChangedObservation(agent_state=state)
        await leftovers.on_state(await stream.append(changed, EventSource.ENVIRONMENT))
        await leftovers.on_state(await stream.append(MessageAction(content="x"), EventSource.USER))
        assert len(warnings(list(await stream.read()))) == (0 if works else 1)
