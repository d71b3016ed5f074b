"""An agent's search in other conversations, and the facts that users store."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, UsageError
from core.events import Envelope, MCPObservation, RecallObservation
from core.memory.past_conversations import MAX_CONVERSATIONS, MAX_HITS, NOTHING, RECORD, PastConversations
from core.memory.saved_facts import MAX_CHARS, MAX_FACTS, SHOWN_CHARS, Fact, SavedFacts, facts_text
from core.settings.config import Settings
from tests.doubles import FINISH, bash, call, write_script
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}, "sandbox": {"checkpoints": False, "plugins": ()}})


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[ConversationManager]:
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        yield manager


async def finished(manager: ConversationManager, folder: Path, task: str, *commands: str, answer: str = "Done.") -> str:
    """The id of a conversation in which so much was run."""
    folder.mkdir(exist_ok=True)
    turns = [{"tool_calls": [bash(command)]} for command in commands]
    turns += [{"tool_calls": [call("finish", message=answer)]}]
    session = await manager.create(workspace=str(folder), model=write_script(folder.parent, turns, f"{task[:5]}.yaml"))
    await session.send(task)
    await session.settled()
    await manager.close(session.id)
    return session.id


async def asked(manager: ConversationManager, folder: Path, query: str) -> str:
    """The answer to an agent in a folder."""
    turns = [{"tool_calls": [call("recall_conversations", query=query)]}, FINISH]
    session = await manager.create(workspace=str(folder), model=write_script(folder.parent, turns, "asks.yaml"))
    await session.send("What was it?")
    await session.settled()
    events: list[Envelope] = await session.stream.read()
    (found,) = [e.event.content for e in events if isinstance(e.event, MCPObservation)]
    await manager.close(session.id)
    return found


async def test_earlier_work_is_found_and_cited(manager: ConversationManager, tmp_path: Path) -> None:
    id = await finished(manager, tmp_path / "w", "Find the quokka", "echo quokka-lives-here", answer="It lives here.")
    found = await asked(manager, tmp_path / "w", "quokka")
    assert found.startswith(RECORD)
    assert f"conversation {id}" in found
    assert "event 6 (observation:run)" in found or "event 7 (observation:run)" in found
    for part in ("task: Find the quokka", "It lives here.", "finished"):
        assert part in found


async def test_chinese_query_finds_results(manager: ConversationManager, tmp_path: Path) -> None:
    id = await finished(manager, tmp_path / "w", "修复登录错误", "echo ok")
    assert id in await asked(manager, tmp_path / "w", "登录")


async def test_other_projects_are_not_searched(manager: ConversationManager, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    id = await finished(manager, tmp_path / "w", "Find the quokka", "echo quokka")
    assert await asked(manager, tmp_path / "other", "quokka") == NOTHING
    assert id in await PastConversations(manager.store, "me").recall("quokka")  # where the settings allow all


async def test_deleted_conversation_is_not_recalled(manager: ConversationManager, tmp_path: Path) -> None:
    id = await finished(manager, tmp_path / "w", "Find the quokka", "echo quokka")
    await manager.delete(id)
    assert await asked(manager, tmp_path / "w", "quokka") == NOTHING


async def test_result_is_limited(manager: ConversationManager, tmp_path: Path) -> None:
    for number in range(MAX_CONVERSATIONS + 2):
        text = f"{number} quokka " + "quokka words " * 400
        await finished(manager, tmp_path / "w", text, *["seq 1 1000; echo quokka"] * 2, answer=text)
    found = await asked(manager, tmp_path / "w", "quokka")
    assert found.count("# conversation ") == MAX_CONVERSATIONS
    assert found.count("\nevent ") == MAX_CONVERSATIONS * MAX_HITS
    assert len(found) < 15_000


async def test_nothing_is_offered_if_disabled(tmp_path: Path) -> None:
    off = FREE.model_copy(update={"memory": FREE.memory.model_copy(update={"recall": "off"})})
    async with ConversationManager(tmp_path / "home", off, make_runtime=WarmRuntime, environ={}) as manager:
        (tmp_path / "w").mkdir()
        turns = [{"tool_calls": [call("recall_conversations", query="x")]}, FINISH]
        session = await manager.create(workspace=str(tmp_path / "w"), model=write_script(tmp_path, turns))
        await session.send("go")
        await session.settled()
        assert not [e for e in await session.stream.read() if isinstance(e.event, MCPObservation)]


# -- pins --------------------------------------------------------------------------------------------------------------


def test_fact_is_stored_for_one_folder_or_all(tmp_path: Path) -> None:
    pins = SavedFacts(tmp_path)
    pins.add("Tests run with make test.", "/one")
    pins.add("I like\n short  answers.")
    assert [fact.text for fact in pins.of("/one")] == ["Tests run with make test.", "I like short answers."]
    assert [fact.text for fact in pins.of("/two")] == ["I like short answers."]
    assert stat.S_IMODE((tmp_path / "memory.json").stat().st_mode) == 0o600
    pins.add("I like short answers.")
    assert len(pins.all()) == 2
    assert pins.forget(1).text == "Tests run with make test."
    assert [fact.text for fact in pins.all()] == ["I like short answers."]


def test_invalid_fact_is_refused(tmp_path: Path) -> None:
    pins = SavedFacts(tmp_path)
    for text in ("", " \n", "x" * (MAX_CHARS + 1)):
        with pytest.raises(UsageError):
            pins.add(text)
    for number in (0, 1, -1):
        with pytest.raises(UsageError):
            pins.forget(number)
    for number in range(MAX_FACTS):
        pins.add(str(number))
    with pytest.raises(UsageError, match="Remove one first"):
        pins.add("one more")


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"facts": 1}', '{"facts": [{}]}', '{"facts": [{"text": 1}]}', "[" * 9999]
)
def test_broken_file_is_reported_and_not_overwritten(tmp_path: Path, broken: str) -> None:
    (tmp_path / "memory.json").write_text(broken)
    with pytest.raises(ConfigurationError, match=r"memory\.json"):
        SavedFacts(tmp_path).add("x")
    assert (tmp_path / "memory.json").read_text() == broken


def test_newest_facts_are_shown_up_to_a_limit() -> None:
    text = facts_text([Fact(f"{n} " + "x" * 900) for n in range(50)])
    assert len(text) <= SHOWN_CHARS + 200
    assert "- 49 x" in text
    assert "- 1 x" not in text
    assert facts_text([]) == ""


async def test_facts_are_recalled_at_the_start(manager: ConversationManager, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    SavedFacts(tmp_path / "home").add("Use tabs.", str(folder))
    SavedFacts(tmp_path / "home").add("Elsewhere.", "/elsewhere")
    session = await manager.create(workspace=str(folder), model=write_script(tmp_path, [FINISH]))
    await session.send("go")
    await session.settled()
    (found,) = [e.event for e in await session.stream.read() if isinstance(e.event, RecallObservation)]
    assert "Use tabs." in found.conversation_instructions
    assert "Elsewhere." not in found.conversation_instructions
