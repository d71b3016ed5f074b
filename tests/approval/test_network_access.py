"""Hosts that the sandbox refused: offered once, opened as far as the user says, and told to the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.approval.network_access import MAX_OFFERS, TOLD
from core.conversations.conversation_manager import ConversationManager
from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    EventSource,
    MessageAction,
    Observation,
    PermissionAction,
    Refusal,
)
from core.security.permissions import Scope
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script

SHOP, MILL = "shop.example", "mill.example:8080"


def refusing(*hosts: str) -> Observation:
    refusals = [Refusal(text=f"no {host}", host=host) for host in hosts]
    return CmdOutputObservation(command="x", content="failed", refusals=refusals)


class Refusing(ScriptedRuntime):
    """Refuses the hosts that a command names, unless they are open."""

    def __init__(self) -> None:
        super().__init__(self._refuse)
        self.opened: list[tuple[str, ...]] = []

    def _refuse(self, action: Action) -> Observation:
        assert isinstance(action, CmdRunAction)
        return refusing(*(host for host in action.command.split() if host not in (self.opened or [()])[-1]))

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        self.opened.append(tuple(hosts))


@asynccontextmanager
async def talking(
    tmp_path: Path, *commands: str, answers: int = 3
) -> AsyncIterator[tuple[AgentSession, Refusing, ConversationManager]]:
    """A conversation whose agent runs each command and finishes, in turns."""
    runtime = Refusing()
    turns: list[dict[str, Any]] = []
    for command in commands:
        turns += [{"tool_calls": [bash(command)]}, FINISH]
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "sandbox": {"checkpoints": False}})
    (tmp_path / "workspace").mkdir(exist_ok=True)
    async with ConversationManager(
        tmp_path / "home", settings, make_runtime=lambda folder: runtime, environ={}
    ) as manager:
        model = write_script(tmp_path, [*turns, *[FINISH] * answers])
        yield await manager.create(workspace=str(tmp_path / "workspace"), model=model), runtime, manager


async def settled(session: AgentSession) -> None:
    async with asyncio.timeout(60):
        await session.settled()
        await session.stream.settle()


async def sent(session: AgentSession) -> list[str]:
    log = await session.stream.read()
    return [e.event.content for e in log if isinstance(e.event, MessageAction) and e.source is EventSource.USER]


def offered(session: AgentSession) -> list[str]:
    return [offer.host for offer in session.network.offers]


async def test_refused_host_is_offered_and_opened_for_the_conversation(tmp_path: Path) -> None:
    async with talking(tmp_path, f"{SHOP} {MILL} {SHOP}", f"{SHOP} {MILL}") as (session, runtime, manager):
        await session.send("go")
        await settled(session)
        assert offered(session) == [SHOP, MILL]
        await session.network.allow(SHOP, Scope.CONVERSATION)
        assert (offered(session), await sent(session)) == ([MILL], ["go"])
        await session.network.allow(MILL, Scope.CONVERSATION)
        assert (await sent(session))[1:] == [TOLD.format(hosts=f"{SHOP}, {MILL}")], "the agent is told once"
        await settled(session)
        assert (runtime.opened[-1], offered(session)) == ((SHOP, MILL), [])
        log = await session.stream.read()
        patterns = [e.event.pattern for e in log if isinstance(e.event, PermissionAction)]
        assert patterns == [f"connect({SHOP})", f"connect({MILL})"]
        await manager.close(session.id)
        again = await manager.open(session.id)
        assert runtime.opened[-1] == (SHOP, MILL), "it holds after a restart"
        (first, *_) = again.guard.conversation_permissions
        await again.approval.revoke(first)
        await again.stream.settle()
        assert runtime.opened[-1:] == [(MILL,)]


async def test_host_allowed_once_is_closed_when_the_agent_is_done(tmp_path: Path) -> None:
    async with talking(tmp_path, SHOP, SHOP, SHOP) as (session, runtime, _):
        await session.send("go")
        await settled(session)
        await session.network.allow(SHOP, Scope.ONCE)
        await settled(session)
        assert (runtime.opened, offered(session)) == ([(SHOP,), ()], [])
        await session.send("again")
        await settled(session)
        assert offered(session) == [SHOP], "it is asked about again"


async def test_host_of_the_project_is_open_in_other_conversations(tmp_path: Path) -> None:
    async with talking(tmp_path, SHOP) as (session, runtime, manager):
        await session.send("go")
        await settled(session)
        await session.network.allow(SHOP, Scope.PROJECT)
        await settled(session)
        runtime.opened.clear()
        await manager.create(workspace=session.info.workspace, model=session.info.model)
        assert runtime.opened == [(SHOP,)]
        (tmp_path / "other").mkdir()
        await manager.create(workspace=str(tmp_path / "other"), model=session.info.model)
        assert runtime.opened == [(SHOP,)], "another project has it not"


async def test_dismissed_host_stays_closed_and_quiet_for_this_turn(tmp_path: Path) -> None:
    async with talking(tmp_path, SHOP, SHOP) as (session, runtime, _):
        await session.send("go")
        await settled(session)
        await session.network.dismiss(SHOP)
        assert (offered(session), runtime.opened, await sent(session)) == ([], [], ["go"])
        session.network._offer(refusing(SHOP), 1)
        assert offered(session) == []
        await session.send("again")
        await settled(session)
        assert offered(session) == [SHOP]


async def test_offers_are_limited_and_rules_about_calls_open_nothing(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    rules = 'allow = ["net(shop.example)", "*", "connect(fair.example)"]\ndeny = ["connect(mill.example)"]'
    (tmp_path / "home/policy.toml").write_text(rules)
    hosts = [f"h{n}.example" for n in range(MAX_OFFERS + 3)]
    async with talking(tmp_path, " ".join(hosts)) as (session, runtime, _):
        assert runtime.opened == [("fair.example",)]
        await session.send("go")
        await settled(session)
        assert offered(session) == hosts[:MAX_OFFERS]
