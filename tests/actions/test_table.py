"""The action table: which handler gets an action, and the search through other conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from core.actions.table import ActionTable, Place
from core.errors import StoreError
from core.events import (
    RECALL_TOOL,
    Action,
    AgentDelegateAction,
    AgentDelegateObservation,
    CmdRunAction,
    ErrorObservation,
    MCPAction,
    MCPObservation,
    Observation,
)
from core.memory.past_conversations import RECALL_FAILED, PastConversations
from core.store.event_store import EventStore
from tests.doubles import ScriptedRuntime, ignore

LOOK = MCPAction(name=RECALL_TOOL, arguments={"query": "the build"})
DELEGATE, OTHER, COMMAND = AgentDelegateAction(agent="A"), MCPAction(name="other"), CmdRunAction(command=RECALL_TOOL)


class Scripted(PastConversations):
    """Answers with the query, or fails."""

    fails = False

    async def recall(self, query: str) -> str:
        if self.fails:
            raise StoreError("The store is damaged.")
        return f"about {query!r}"


class Servers:
    """A toolbox that answers with the name of the tool."""

    async def call(self, action: MCPAction) -> Observation:
        return MCPObservation(name=action.name, content=f"server {action.name}")


async def delegate(action: AgentDelegateAction, action_id: int) -> Observation:
    return AgentDelegateObservation(content=f"{action.agent} {action_id}", outputs={})


@pytest.fixture
def past(tmp_path: Path) -> Scripted:
    return Scripted(EventStore(tmp_path), "c")


@pytest.mark.parametrize(
    ("action", "place", "content"),
    [
        (DELEGATE, Place.CONVERSATION, "A 7"),
        (LOOK, Place.HANDLOOM, "about 'the build'"),
        (OTHER, Place.SERVER, "server other"),
        (COMMAND, Place.SANDBOX, "ok"),
    ],
    ids=str,
)
async def test_each_action_has_one_handler(past: PastConversations, action: Action, place: Place, content: str) -> None:
    runtime = ScriptedRuntime()
    row = ActionTable(runtime, delegate, cast("Any", Servers()), past).row_of(action)
    assert row.place is place
    assert (await row.handler(action, 7, ignore)).content == content
    assert runtime.executed == ([action] if place is Place.SANDBOX else [])


async def test_unhandled_actions_go_to_the_sandbox() -> None:
    table = ActionTable(ScriptedRuntime(), delegate)
    assert [table.row_of(action).place for action in (LOOK, OTHER, COMMAND)] == [Place.SANDBOX] * 3


async def test_recall_of_conversations_is_answered_even_if_it_fails(past: Scripted) -> None:
    found = await past.answer(LOOK)
    assert found == MCPObservation(name=RECALL_TOOL, arguments=dict(LOOK.arguments), content="about 'the build'")
    assert (await past.answer(MCPAction(name=RECALL_TOOL))).content == "about ''"
    past.fails = True
    failed = ErrorObservation(content="The store is damaged.", error_id=RECALL_FAILED)
    assert await past.answer(LOOK) == failed
