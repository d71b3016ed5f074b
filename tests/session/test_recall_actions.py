"""Recalling: a look into other conversations, and what the user wants remembered of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.agent.tools.recall_tool import NAME
from core.errors import StoreError
from core.events import (
    CmdRunAction,
    ErrorObservation,
    MCPAction,
    MCPObservation,
    NullObservation,
    RecallObservation,
    RecallType,
)
from core.memory.past_conversations import Past
from core.memory.saved_facts import FILE, Pins
from core.secrets import PLACEHOLDER, Masker
from core.session.recall import FAILED, Recalling, is_recall, with_pins
from core.store.event_store import EventStore
from tests.doubles import ScriptedRuntime, ignore

LOOK = MCPAction(name=NAME, arguments={"query": "the build"})
FOUND = RecallObservation(recall_type=RecallType.WORKSPACE_CONTEXT, conversation_instructions="Be short.")


class Scripted(Past):
    """Answers with the query, or fails."""

    fails = False

    async def recall(self, query: str) -> str:
        if self.fails:
            raise StoreError("The store is damaged.")
        return f"about {query!r}"


@pytest.fixture
async def past(tmp_path: Path) -> Scripted:
    return Scripted(EventStore(tmp_path), "c")


async def test_a_look_is_answered_by_the_past_and_all_else_by_the_runtime(past: Scripted) -> None:
    runtime = ScriptedRuntime()
    recalling = Recalling(runtime, past)
    answer = await recalling.execute(LOOK, 1, ignore)
    assert answer == MCPObservation(name=NAME, arguments=dict(LOOK.arguments), content="about 'the build'")
    assert (await recalling.execute(MCPAction(name=NAME), 1, ignore)).content == "about ''"
    past.fails = True
    assert await recalling.execute(LOOK, 1, ignore) == ErrorObservation(
        content="The store is damaged.", error_id=FAILED
    )
    others = [MCPAction(name="other"), CmdRunAction(command=NAME)]
    assert [is_recall(one) for one in (LOOK, *others)] == [True, False, False]
    assert [(await recalling.execute(one, 1, ignore)).content for one in others] == ["ok", "ok"]
    assert runtime.executed == others


async def test_what_is_remembered_of_the_folder_stands_below_the_instructions_at_the_beginning(tmp_path: Path) -> None:
    masker = Masker(["tk-Qv7Zr9xLm2Pw"])
    assert await with_pins(FOUND, tmp_path, "/w", masker) == FOUND
    Pins(tmp_path, {}).add("use make with tk-Qv7Zr9xLm2Pw", "/w")
    Pins(tmp_path, {}).add("of another folder", "/other")
    found = await with_pins(FOUND, tmp_path, "/w", masker)
    assert isinstance(found, RecallObservation)
    first, *lines = found.conversation_instructions.split("\n")
    assert (first, lines[-1]) == ("Be short.", f"- use make with {PLACEHOLDER}")
    assert "of another folder" not in found.conversation_instructions
    assert found == FOUND.model_copy(update={"conversation_instructions": found.conversation_instructions})
    bare = await with_pins(FOUND.model_copy(update={"conversation_instructions": ""}), tmp_path, "/w", masker)
    assert isinstance(bare, RecallObservation)
    assert bare.conversation_instructions == "\n".join(lines)


async def test_nothing_is_added_elsewhere_or_where_it_cannot_be_read(tmp_path: Path) -> None:
    Pins(tmp_path, {}).add("use make", "/w")
    later = RecallObservation(recall_type=RecallType.KNOWLEDGE)
    assert await with_pins(later, tmp_path, "/w", Masker()) == later
    assert await with_pins(NullObservation(), tmp_path, "/w", Masker()) == NullObservation()
    (tmp_path / FILE).write_text("broken", "utf-8")
    assert await with_pins(FOUND, tmp_path, "/w", Masker()) == FOUND
