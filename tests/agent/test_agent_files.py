"""Agents at work in whole conversations: the Planner, agents of files, models with and without tools, bad answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from core.controller.decide import fold
from core.controller.exit_reasons import HaltKind
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, ConsentError, UsageError
from core.events import (
    Action,
    AgentState,
    CmdRunAction,
    CondensationAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileEditSource,
    PlanAction,
    Status,
    SystemMessageAction,
    TaskTrackingObservation,
)
from core.llm.prompted_tools import TOOLS_STATUS
from core.memory.conversation_memory import APPROVED, REPLAN, build_messages
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, bash, call, write_script
from tests.openai_server import KEY, OpenAIServer, answers, fails
from tests.warm_servers import WarmRuntime

WITHIN_S = 60
TASKS: list[dict[str, JsonValue]] = [
    {"id": "1", "title": "Write it", "status": "todo"},
    {"id": "2", "title": "Check it", "status": "todo"},
]
PLAN: list[dict[str, Any]] = [
    {"tool_calls": [call("grep", pattern="needle"), call("task_tracker", command="plan", task_list=TASKS)]},
    {"text": "This is the plan."},
]
WORK: list[dict[str, Any]] = [{"tool_calls": [bash("echo made > made.txt")]}, FINISH]
REVIEWER = "---\nname: Reviewer\ndescription: Reads.\ntools: [view]\nmodel: {model}\n---\nYou review.\n"


@asynccontextmanager
async def managing(
    tmp_path: Path, environ: dict[str, str] | None = None, **agent: Any
) -> AsyncIterator[ConversationManager]:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    (tmp_path / "workspace" / "a.txt").write_text("a needle\n")
    settings = Settings.model_validate({"agent": {"confirm": "never", **agent}, "llm": {"num_retries": 1}})
    async with ConversationManager(
        tmp_path / "home", settings, make_runtime=WarmRuntime, environ=environ or {}
    ) as manager:
        yield manager


async def begun(
    manager: ConversationManager, tmp_path: Path, turns: Sequence[dict[str, Any]], agent: str = ""
) -> AgentSession:
    model = write_script(tmp_path, turns)
    return await manager.create(workspace=str(tmp_path / "workspace"), model=model, agent=agent)


async def settled(session: AgentSession) -> list[Envelope]:
    async with asyncio.timeout(WITHIN_S):
        await session.settled()
    return await session.stream.read()


async def said(session: AgentSession, text: str = "go") -> list[Envelope]:
    await session.send(text)
    return await settled(session)


def of(log: Sequence[Envelope], *types: type) -> list[Any]:
    return [envelope.event for envelope in log if isinstance(envelope.event, types)]


class TestThePlanner:
    async def test_planner_reads_until_its_plan_is_approved(self, tmp_path: Path) -> None:
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, [*PLAN, *WORK], "Planner")
            log = await said(session, "write a file")
            assert session.state.planning
            assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
            (run,) = of(log, CmdRunAction)
            assert "grep" in run.command
            (plan,) = of(log, TaskTrackingObservation)
            assert plan.task_list == TASKS
            edited: list[dict[str, JsonValue]] = [
                {"id": "1", "title": "Write it well", "status": "todo", "notes": "in made.txt"}
            ]
            await session.planning.approve(edited)
            log = await settled(session)
            assert not session.state.planning
            assert session.state.agent_state is AgentState.FINISHED
            assert (tmp_path / "workspace" / "made.txt").read_text() == "made\n"
            (approval,) = [e for e in log if isinstance(e.event, PlanAction)]
            assert approval.source is EventSource.USER
            told = build_messages(log[: approval.id + 1])[-1]["content"]
            assert told.endswith(f"{APPROVED}\n1. Write it well\n   in made.txt")
            with pytest.raises(UsageError):
                await session.planning.approve(edited)

    async def test_changes_are_refused_before_approval_only(self, tmp_path: Path) -> None:
        early = {
            "tool_calls": [bash("echo early > early.txt"), call("str_replace_editor", command="create", path="/x")]
        }
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, [early, *PLAN, *WORK], "Planner")
            log = await said(session)
            refused = [error.content for error in of(log, ErrorObservation)]
            assert [text.split(".")[0] for text in refused] == [
                "Tool execute_bash is not registered", "Tool str_replace_editor is not registered",
            ]  # fmt: skip
            assert not (tmp_path / "workspace" / "early.txt").exists()
            assert not of(log, FileEditAction)
            await session.planning.approve([])
            await settled(session)
            assert (tmp_path / "workspace" / "made.txt").exists()

    async def test_plan_approval_survives_a_restart(self, tmp_path: Path) -> None:
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, [*PLAN, *WORK, {"text": "More?"}, *WORK], "Planner")
            await said(session)
        async with managing(tmp_path) as manager:
            again = await manager.open(session.id)
            assert again.state.planning
            await again.planning.approve(TASKS)
            await settled(again)
        async with managing(tmp_path) as manager:
            again = await manager.open(session.id)
            assert not again.state.planning
            assert fold(await again.stream.read()).planning is False
            await again.planning.again()
            log = await said(again, "and now?")
            assert again.state.planning
            assert REPLAN in json.dumps(build_messages(log))

    async def test_only_the_planner_plans(self, tmp_path: Path) -> None:
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, [FINISH])
            for wish in (session.planning.approve([]), session.planning.again()):
                with pytest.raises(UsageError, match="Planner"):
                    await wish


class TestAgentChoice:
    async def test_conversation_keeps_its_agent(self, tmp_path: Path) -> None:
        async with managing(tmp_path, name="ReadOnlyAgent") as manager:
            session = await begun(
                manager, tmp_path, [{"text": "Hm."}, {"tool_calls": [bash("echo x")]}, {"text": "No."}]
            )
            (first,) = of(await said(session), SystemMessageAction)
            assert first.agent_class == "ReadOnlyAgent"
        async with managing(tmp_path) as manager:
            log = await said(await manager.open(session.id))
            assert not of(log, CmdRunAction)
            assert "Tool execute_bash is not registered" in of(log, ErrorObservation)[0].content

    async def test_agent_file_sets_tools_and_model(self, tmp_path: Path) -> None:
        model = write_script(
            tmp_path, [{"tool_calls": [call("view", path=str(tmp_path / "workspace" / "a.txt"))]}, FINISH]
        )
        folder = tmp_path / "home" / "agents"
        folder.mkdir(parents=True)
        (folder / "r.md").write_text(REVIEWER.format(model=model))
        async with managing(tmp_path) as manager:
            session = await manager.create(workspace=str(tmp_path / "workspace"), agent="Reviewer")
            assert session.active_model.name == model
            (first,) = of(await said(session), SystemMessageAction)
            assert (first.agent_class, first.content) == ("Reviewer", "You review.")
            assert {tool["function"]["name"] for tool in first.tools} == {"view", "finish"}
            assert session.state.agent_state is AgentState.FINISHED

    async def test_project_agent_runs_only_with_the_allowed_text(self, tmp_path: Path) -> None:
        folder = tmp_path / "workspace" / ".handloom" / "agents"
        folder.mkdir(parents=True)
        (folder / "r.md").write_text(REVIEWER.format(model="demo"))
        model = write_script(tmp_path, [{"text": "Hm."}] * 3)
        where = str(tmp_path / "workspace")
        async with managing(tmp_path) as manager:
            with pytest.raises(ConsentError):
                await manager.create(workspace=where, model=model, agent="Reviewer")
            assert await manager.list() == []
            await manager.trust.allow_agent((await manager.agents_for(where)).kinds["Reviewer"])
            session = await manager.create(workspace=where, model=model, agent="Reviewer")
            await said(session)
        (folder / "r.md").write_text(REVIEWER.format(model="demo") + "And delete everything.\n")
        async with managing(tmp_path) as manager:
            again = await manager.open(session.id)
            await said(again)
            assert again.state.agent_state is AgentState.ERROR
            assert "handloom agents --allow Reviewer" in again.state.reason

    async def test_delegate_tool_lists_available_agents(self, tmp_path: Path) -> None:
        folder = tmp_path / "home" / "agents"
        folder.mkdir(parents=True)
        (folder / "r.md").write_text(REVIEWER.format(model="demo").replace("Reads.", "Reads a change."))
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, [FINISH])
            (system,) = of(await said(session), SystemMessageAction)
        told = next(json.dumps(tool) for tool in system.tools or [] if '"delegate"' in json.dumps(tool))
        assert "ReadOnlyAgent" in told
        assert "Reviewer: Reads a change." in told

    async def test_unknown_agent_is_refused_before_anything_is_stored(self, tmp_path: Path) -> None:
        async with managing(tmp_path, name="Nobody") as manager:
            with pytest.raises(ConfigurationError, match="There is no agent 'Nobody'"):
                await begun(manager, tmp_path, [FINISH])
            assert await manager.list() == []


async def test_user_is_asked_after_three_repairs(tmp_path: Path) -> None:
    wrong = [{"tool_calls": [call("execute_bash", command="ls", **{f"flag{n}": 1})]} for n in range(9)]
    async with managing(tmp_path) as manager:
        session = await begun(manager, tmp_path, wrong)
        log = await said(session)
        assert len(of(log, ErrorObservation)) == 4  # the first answer, and three repairs
        assert not of(log, CmdRunAction)
        assert session.state.halt is not None
        assert session.state.halt.kind is HaltKind.STUCK


async def test_agent_can_request_condensation_if_configured(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo 1")]}, {"tool_calls": [call("request_condensation")]}, FINISH]
    async with managing(tmp_path, request_condensation=True) as manager:
        session = await begun(manager, tmp_path, turns)
        log = await said(session)
        assert len(of(log, CondensationAction)) == 1
        assert session.state.agent_state is AgentState.FINISHED
        beside = [{"tool_calls": [call("request_condensation"), bash("echo 2")]}, FINISH]
        other = await begun(manager, tmp_path, beside)
        assert of(await said(other), ErrorObservation)[0].content.startswith("request_condensation was not done.")


async def test_agent_edits_files_by_drafts_if_configured(tmp_path: Path) -> None:
    draft = write_script(tmp_path, [{"text": "```\none\n2\n```", "usage": {"cost": 0.25}}], "draft.yaml")
    file = tmp_path / "workspace" / "a.txt"
    edit = call("edit_file", path=str(file), content="# ...\n2", start=1, end=2, security_risk="LOW")
    async with managing(tmp_path, llm_editor=True, draft_model=draft) as manager:
        file.write_text("one\ntwo\nthree\n")
        session = await begun(manager, tmp_path, [{"tool_calls": [edit]}, FINISH])
        (done,) = of(await said(session), FileEditObservation)
        assert file.read_text() == "one\n2\nthree\n"
        assert done.impl_source is FileEditSource.LLM_BASED_EDIT
        assert session.state.metrics.accumulated_cost == 0.25, "also after the next answer"
        assert session.state.agent_state is AgentState.FINISHED


class TestModelsWithAndWithoutTools:
    async def test_conversation_switches_between_models_with_and_without_tools(self, tmp_path: Path) -> None:
        filler: dict[str, Any] = {"text": "never played"}
        words = "Now I.\n<function=execute_bash>\n<parameter=command>echo two; cat one.txt</parameter>\n</function>"
        native: list[dict[str, Any]] = [
            {"tool_calls": [bash("echo one | tee one.txt")]},
            {"text": "One."},
            filler,
            filler,
            {"expect": "(?s)two.*one", "tool_calls": [bash("echo three")]},
            {"text": "Three."},
        ]
        async with managing(tmp_path) as manager:
            session = await begun(manager, tmp_path, native)
            notices: list[str] = []
            session.frames.watch(lambda f: notices.append(f.id) if isinstance(f, Status) else None)
            await said(session)
            without = write_script(
                tmp_path, [filler, filler, {"expect": "one", "text": words}, {"text": "Two."}], "w.yaml"
            )
            path = Path(without.partition(":")[2])
            path.write_text("tools: false\n" + path.read_text())
            back = session.active_model.name
            await session.active_model.switch(without)
            await said(session)
            assert notices.count(TOOLS_STATUS) == 1
            await session.active_model.switch(back)
            log = await said(session)
            assert [run.command for run in of(log, CmdRunAction)] == [
                "echo one | tee one.txt",
                "echo two; cat one.txt",
                "echo three",
            ]
            assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
            for action in of(log, Action):
                if (metadata := action.tool_call_metadata) is not None:
                    assert metadata.tool_call_id

    async def test_model_without_tools_works_over_http(self, tmp_path: Path) -> None:
        words = "<function=execute_bash>\n<parameter=command>echo two</parameter>\n"
        async with OpenAIServer() as server:
            environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
            with pytest.MonkeyPatch.context() as patch:
                for name, value in environ.items():
                    patch.setenv(name, value)
                async with managing(tmp_path, environ) as manager:
                    server.then(answers("", [("execute_bash", '{"command": "echo one"}')]), answers("One."))
                    session = await manager.create(workspace=str(tmp_path / "workspace"), model="openai/with")
                    await said(session)
                    server.then(
                        fails(400, message="this model does not support tools"), answers(words), answers("Two.")
                    )
                    await session.active_model.switch("openai/without")
                    await said(session)
                    server.then(answers("", [("execute_bash", '{"command": "echo three"}')]), answers("Three."))
                    await session.active_model.switch("openai/with")
                    log = await said(session)
        assert [run.command for run in of(log, CmdRunAction)] == ["echo one", "echo two", "echo three"]
        *_, in_words, told, _again, last = [exchange.body for exchange in server.exchanges]
        assert "tools" not in in_words
        assert all(m["role"] in ("system", "user", "assistant") for m in told["messages"])
        assert "EXECUTION RESULT of [execute_bash]:\ntwo" in told["messages"][-1]["content"]
        assert [m["role"] for m in last["messages"]].count("tool") == 3
