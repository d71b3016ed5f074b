"""Published agents write sessions here, and their readers find in them what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.import_export.agents.source import AgentSession
from core.import_export.agents.transcript import Transcript, Usage
from tests.peers.agents_model import ANSWER_TOKENS, CACHED_TOKENS, PROMPT_TOKENS
from tests.peers.agents_side import RUN_TIMEOUT_S, changes, compare, compared
from tests.peers.agents_started import (
    AFTER,
    AGENTS,
    BEFORE,
    COMMAND,
    EXIT_CODE,
    FILE,
    FIRST,
    LAST,
    OUTPUT,
    PROMPT,
    Agent,
    Place,
)
from tests.peers.installing import installed

CODEX = next(agent for agent in AGENTS if agent.name == "codex")


@pytest.mark.timeout(RUN_TIMEOUT_S + 60)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
async def test_session_of_a_published_agent_is_read_as_it_happened(agent: Agent, tmp_path: Path) -> None:
    if installed(agent.peer) is None:
        pytest.skip(f"there is no {agent.peer.title}; python -m tests.peers agents --install brings it")
    outcome = await compare(agent, tmp_path)
    assert outcome.different == []


def test_correct_transcript_has_no_differences(tmp_path: Path) -> None:
    assert _differences(tmp_path, _transcript(tmp_path)) == []


def test_wrong_exit_code_and_wrong_diff_are_differences(tmp_path: Path) -> None:
    assert _differences(tmp_path, _transcript(tmp_path, exit_code=0, after="wrong")) == ["command", "edit"]


def test_every_difference_is_named(tmp_path: Path) -> None:
    transcript = Transcript("codex", model="another", folder="/", warnings=["A warning."])
    transcript.user("Another prompt.")
    transcript.says(FIRST)
    transcript.unknown("new", {})
    names = ["prompt", "sentences", "command", "edit", "tokens", "model", "folder", "records"]
    assert _differences(tmp_path, transcript) == names


def _transcript(folder: Path, exit_code: int = EXIT_CODE, after: str = AFTER) -> Transcript:
    """As the reader of Codex should make it, with one answer of the model."""
    transcript = Transcript("codex", model=CODEX.model, folder=str(folder / "work"))
    transcript.user(PROMPT)
    transcript.says(FIRST)
    transcript.call("1", "bash", {"command": COMMAND})
    transcript.result("1", OUTPUT, exit_code=exit_code)
    transcript.call("2", "edit", {"path": FILE, "old_string": BEFORE, "new_string": after})
    transcript.result("2", "")
    transcript.says(LAST)
    transcript.spent(Usage("", PROMPT_TOKENS, ANSWER_TOKENS, CACHED_TOKENS))
    return transcript


def _differences(folder: Path, transcript: Transcript) -> list[str]:
    found = AgentSession(
        agent="codex", id="s", root=folder, path=folder, model=transcript.model, folder=transcript.folder
    )
    place = Place(folder / "home", folder / "work", "")
    return [what for what, problem in compared(CODEX, place, found, transcript, answers=1) if problem]


def test_every_file_that_is_not_as_it_was_is_named() -> None:
    before = {"same": b"1", "changed": b"1", "gone": b"1"}
    assert changes(before, {"same": b"1", "changed": b"2", "new": b""}) == "changed, gone, new"


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_title_of_an_agent_names_the_locked_version(agent: Agent) -> None:
    version = agent.peer.title.rpartition(" ")[2]
    lock = agent.peer.lock.read_text()
    assert (f'"version": "{version}"' if agent.peer.is_of_npm else f"=={version} ") in lock
