"""Published agents write sessions here, and their readers find in them what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.agents_side import RUN_TIMEOUT_S, changes, compare
from tests.peers.agents_started import AGENTS, Agent
from tests.peers.installing import installed


@pytest.mark.peers
@pytest.mark.timeout(RUN_TIMEOUT_S + 60)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
async def test_session_of_a_published_agent_is_read_as_it_happened(agent: Agent, tmp_path: Path) -> None:
    if installed(agent.peer) is None:
        pytest.skip(f"{agent.peer.title} is not installed; python -m tests.peers {agent.peer.name} --install brings it")
    outcome = await compare(agent, tmp_path)
    assert outcome.different == []


def test_every_file_that_is_not_as_it_was_is_named() -> None:
    before = {"same": b"1", "changed": b"1", "gone": b"1"}
    assert changes(before, {"same": b"1", "changed": b"2", "new": b""}) == "changed, gone, new"


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_title_of_an_agent_names_the_locked_version(agent: Agent) -> None:
    version = agent.peer.title.rpartition(" ")[2]
    lock = agent.peer.lock.read_text()
    assert (f'"version": "{version}"' if agent.peer.is_of_npm else f"=={version} ") in lock
