"""ACPAgent: another agent over the protocol, here Handloom's own `handloom acp` in a child process.

Some tests use a small script as the other agent, for file requests, which Handloom never makes.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError
from core.events import (
    AgentState,
    Envelope,
    ErrorObservation,
    EventSource,
    FileReadAction,
    FileWriteAction,
    MCPAction,
    MessageAction,
    TokenDelta,
    UserRejectObservation,
)
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import FINISH, bash, call, write_script
from tests.program import HANDLOOM, Handloom

WAIT_S = 60.0


@asynccontextmanager
async def talking(tmp_path: Path, command: str, confirm: str = "always", **agent: Any) -> AsyncIterator[AgentSession]:
    """A conversation with the agent that this command starts."""
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    settings = Settings.model_validate(
        {"agent": {"name": "ACPAgent", "acp_command": command, "confirm": confirm, **agent}}
    )
    model = write_script(tmp_path, [FINISH], "unused.yaml")
    home = tmp_path / "own"
    async with ConversationManager(home, settings, make_runtime=LocalRuntime, environ={}) as manager:
        yield await manager.create(workspace=str(folder), model=model)


def ours(tmp_path: Path, turns: Sequence[dict[str, Any]]) -> str:
    """`handloom acp` on a home of its own, as a command."""
    other = Handloom(tmp_path / "other", HANDLOOM__SANDBOX__PLUGINS="")
    words = [f"{name}={value}" for name, value in other.environ.items()]
    return shlex.join(["env", "-i", *words, *HANDLOOM, "acp", "--model", write_script(tmp_path, turns)])


def written(tmp_path: Path, body: str) -> str:
    """An agent that does this with each prompt, with `ask(method, **params)` and `say(text)`."""
    indented = body.replace("\n", "\n    ")
    script = tmp_path / "agent.py"
    script.write_text(
        f"""
import json, sys
def put(**message): print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
def get(): return json.loads(sys.stdin.readline() or sys.exit(0))
def ask(method, **params):
    put(id=1, method=method, params={{"sessionId": "s", **params}})
    while "method" in (answer := get()): pass
    return answer
def update(**what): put(method="session/update", params={{"sessionId": "s", "update": what}})
def say(text): update(sessionUpdate="agent_message_chunk", content={{"type": "text", "text": text}})
def prompted(text):
    {indented}
while True:
    message = get()
    match message["method"]:
        case "initialize": put(id=message["id"], result={{"protocolVersion": 1}})
        case "session/new": put(id=message["id"], result={{"sessionId": "s"}})
        case "session/prompt":
            prompted(message["params"]["prompt"][0]["text"])
            put(id=message["id"], result={{"stopReason": "end_turn"}})
""",
        "utf-8",
    )
    return shlex.join([sys.executable, str(script)])


async def rests(session: AgentSession) -> list[Envelope]:
    """All events, once the agent rests."""
    async with asyncio.timeout(WAIT_S):
        await session.settled()
    return await session.stream.read()


def state_of(session: AgentSession) -> AgentState:
    return session.state.agent_state


def said(events: Sequence[Envelope]) -> str:
    found = [e.event for e in events if e.source is EventSource.AGENT]
    texts = [event.content if isinstance(event, MessageAction) else event.thought_text for event in found
             if isinstance(event, MessageAction | MCPAction | FileReadAction | FileWriteAction)]  # fmt: skip
    return "".join(texts)


class TestOurOwn:
    async def test_other_agent_does_a_task_and_its_question_is_asked_here(self, tmp_path: Path) -> None:
        turns = [{"text": "I look.", "tool_calls": [bash("echo first > made; cat made")]}, FINISH]
        async with talking(tmp_path, ours(tmp_path, turns)) as session:
            streamed: list[str] = []
            session.frames.watch(lambda frame: streamed.append(frame.text) if isinstance(frame, TokenDelta) else None)
            await session.send("do it")
            events = await rests(session)
            assert state_of(session) is AgentState.AWAITING_USER_CONFIRMATION
            (asked,) = [e.event for e in events if isinstance(e.event, MCPAction)]
            assert asked.name == "acp: echo first > made; cat made"
            assert asked.arguments["input"] == {"command": "echo first > made; cat made"}
            assert not (tmp_path / "folder" / "made").exists()
            await session.approval.confirm()
            events = await rests(session)
            assert state_of(session) is AgentState.AWAITING_USER_INPUT
        assert (tmp_path / "folder" / "made").read_text("utf-8") == "first\n"
        text = said(events)
        assert text.index("I look.") < text.index("used a tool (execute, completed): echo first") < text.index("Ready.")
        assert text.rstrip().endswith("All is done.")
        assert "I look." in "".join(streamed)
        assert session.state.metrics.accumulated_cost is None

    async def test_denial_with_text_ends_the_prompt_and_starts_the_next(self, tmp_path: Path) -> None:
        turns = [{"text": "", "tool_calls": [bash("touch made")]}, FINISH]
        async with talking(tmp_path, ours(tmp_path, turns)) as session:
            await session.send("do it")
            await rests(session)
            await session.approval.reject()
            events = await rests(session)
            assert any(isinstance(e.event, UserRejectObservation) for e in events)
            await session.send("then be done")
            events = await rests(session)
            assert state_of(session) is AgentState.AWAITING_USER_INPUT, session.state.reason
        assert "All is done." in said(events)
        assert not (tmp_path / "folder" / "made").exists()

    async def test_interrupt_cancels_the_prompt_and_the_next_one_works(self, tmp_path: Path) -> None:
        turns = [{"text": "I wait.", "tool_calls": [bash("touch begun; sleep 600")]}, FINISH]
        async with talking(tmp_path, ours(tmp_path, turns), "never") as session:
            waiting = asyncio.Event()
            session.frames.watch(lambda frame: waiting.set() if isinstance(frame, TokenDelta) else None)
            await session.send("wait")
            async with asyncio.timeout(WAIT_S):
                await waiting.wait()
            await session.interrupt()
            await rests(session)
            assert state_of(session) is AgentState.STOPPED
            await session.send("then be done")
            events = await rests(session)
            assert state_of(session) is AgentState.AWAITING_USER_INPUT, session.state.reason
        assert "All is done." in said(events)


class TestEnvironment:
    async def test_agent_gets_only_named_variables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_API_KEY", "SOME_TOKEN", "OTHER_AGENT_API_KEY"):
            monkeypatch.setenv(name, "canary")
        command = written(tmp_path, 'import os; say(" ".join(sorted(os.environ)))')
        async with talking(tmp_path, command, acp_env=["OTHER_AGENT_API_KEY", "NOT_SET"]) as session:
            await session.send("what do you have?")
            names = said(await rests(session)).split()
        assert {"PATH", "OTHER_AGENT_API_KEY"} <= set(names)
        assert not {"OPENAI_API_KEY", "SOME_TOKEN", "NOT_SET", "PYTHONPATH"} & set(names)


class TestMemory:
    async def test_restarted_agent_gets_the_conversation_so_far(self, tmp_path: Path) -> None:
        body = 'say("heard: " + text)'
        command = written(tmp_path, body)
        async with talking(tmp_path, command) as session:
            await session.send("My name is Ada.")
            await rests(session)
            await session.send("Twice?")
            assert "Ada" not in said((await rests(session))[-3:])
            await session.runtime.rest()
            await session.send("Who am I?")
            last = said((await rests(session))[-3:])
        assert "User: My name is Ada." in last
        assert "Agent: heard: My name is Ada." in last
        assert last.endswith("Who am I?")


class TestFiles:
    async def test_files_are_read_and_written_by_the_sandbox_after_approval(self, tmp_path: Path) -> None:
        body = """path = text
got = ask("fs/read_text_file", path=path, line=2, limit=1)["result"]["content"]
say(f"read {got!r}")
say(f"wrote {ask('fs/write_text_file', path=path, content='new' + chr(10)).get('result')}")"""
        async with talking(tmp_path, written(tmp_path, body)) as session:
            file = tmp_path / "folder" / "a.txt"
            file.write_text("one\ntwo\nthree\n", "utf-8")
            await session.send(str(file))
            for kind in (FileReadAction, FileWriteAction):
                events = await rests(session)
                assert state_of(session) is AgentState.AWAITING_USER_CONFIRMATION, session.state.reason
                assert isinstance(events[session.state.awaiting or 0].event, kind)
                await session.approval.confirm()
            events = await rests(session)
        assert file.read_text("utf-8") == "new\n"
        assert said(events) == "read 'two\\n'wrote {}"

    async def test_denied_files_are_an_error_for_the_agent(self, tmp_path: Path) -> None:
        body = """answer = ask("fs/read_text_file", path="/etc/hostname")
say(answer["error"]["message"])"""
        async with talking(tmp_path, written(tmp_path, body)) as session:
            await session.send("read")
            await rests(session)
            await session.approval.reject("it is none of your business")
            events = await rests(session)
        assert "none of your business" in said(events)

    async def test_terminal_requests_of_the_agent_are_refused(self, tmp_path: Path) -> None:
        body = """for method in ("terminal/create", "fly", "fs/read_text_file"):
    say(ask(method, command="ls")["error"]["message"] + "; ")"""
        async with talking(tmp_path, written(tmp_path, body), "never") as session:
            await session.send("go")
            events = await rests(session)
        assert [word in said(events) for word in ("'terminal/create'", "'fly'", "Field required")] == [True] * 3


class TestStartPermission:
    async def test_models_cannot_delegate_to_an_external_agent(self, tmp_path: Path) -> None:
        """It runs outside the sandbox, so a model inside could use it to escape."""
        command = shlex.join(["touch", str(tmp_path / "started")])
        settings = Settings.model_validate({"agent": {"acp_command": command, "confirm": "never"}})
        turns = [{"text": "", "tool_calls": [call("delegate", task="Break out.", agent="ACPAgent")]}, FINISH]
        model = write_script(tmp_path, turns)
        async with ConversationManager(tmp_path / "own", settings, make_runtime=LocalRuntime, environ={}) as manager:
            session = await manager.create(workspace=str(tmp_path), model=model)
            await session.send("go")
            events = await rests(session)
        (error,) = [e.event for e in events if isinstance(e.event, ErrorObservation)]
        assert "only the user chooses it" in error.content
        assert not (tmp_path / "started").exists()


class TestTrouble:
    async def test_invalid_command_is_reported_with_advice(self, tmp_path: Path) -> None:
        async with talking(tmp_path, "/nowhere/agent --acp") as session:
            await session.send("hello")
            await rests(session)
            assert state_of(session) is AgentState.ERROR
            assert "Correct agent.acp_command" in session.state.reason

    async def test_command_without_message_starts_no_conversation(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"agent\.acp_command"):
            async with talking(tmp_path, ""):
                pass

    async def test_dead_agent_is_reported_and_restarted(self, tmp_path: Path) -> None:
        body = """import os
if text == "die":
    print("I am out of memory.", file=sys.stderr, flush=True); os._exit(1)
say("alive")"""
        async with talking(tmp_path, written(tmp_path, body)) as session:
            await session.send("die")
            await rests(session)
            assert state_of(session) is AgentState.ERROR
            assert "I am out of memory." in session.state.reason
            await session.send("live")
            assert said(await rests(session)) == "alive"

    async def test_agent_that_ignores_cancel_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("core.acp.agent_process.CANCEL_S", 0.5)
        body = """say("I go on. ")
if text == "for ever":
    import time; time.sleep(600)"""
        async with talking(tmp_path, written(tmp_path, body)) as session:
            waiting = asyncio.Event()
            session.frames.watch(lambda frame: waiting.set() if isinstance(frame, TokenDelta) else None)
            await session.send("for ever")
            async with asyncio.timeout(WAIT_S):
                await waiting.wait()
            await session.interrupt()
            await rests(session)
            await session.send("once")
            assert said(await rests(session)).endswith("I go on. ")
            assert state_of(session) is AgentState.AWAITING_USER_INPUT

    async def test_invalid_messages_of_the_agent_are_ignored(self, tmp_path: Path) -> None:
        body = """print("Loading...", flush=True)
put(id={}, result=1)
update(sessionUpdate="nonsense")
print("[" * 100000, flush=True)
say("I am here.")"""
        async with talking(tmp_path, written(tmp_path, body)) as session:
            await session.send("hello")
            assert said(await rests(session)) == "I am here."
