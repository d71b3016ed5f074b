"""OpenHands' published package: its client is answered as by V0's own server, and it reads what we export."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.events import Observation
from core.import_export.exporter import export
from core.import_export.v0_format import ACTIONS, OBSERVATIONS
from tests.events.test_codec import every_event
from tests.import_export.conversations import AGENT, ENVIRONMENT, ORDINARY, home_with
from tests.peers import openhands_side
from tests.peers.installing import OPENHANDS, installed

CALLS = 48
"""The client makes at least as many; fewer are a run that broke off."""


@pytest.mark.peers
@pytest.mark.browser
@pytest.mark.timeout(openhands_side.RUN_TIMEOUT_S + 60)
def test_each_client_call_is_answered_like_v0(tmp_path: Path) -> None:
    python = installed(OPENHANDS)
    assert python is not None
    outcome = openhands_side.run(python, tmp_path)
    assert outcome.status == 0, outcome.log
    assert [row for row in outcome.rows if not row.fits] == []
    assert len(outcome.rows) >= CALLS


@pytest.mark.peers
@pytest.mark.browser
@pytest.mark.tmux
@pytest.mark.timeout(openhands_side.RUN_TIMEOUT_S + openhands_side.READY_WITHIN_S)
def test_own_server_of_v0_can_be_compared(tmp_path: Path) -> None:
    python = installed(OPENHANDS)
    assert python is not None
    outcome = openhands_side.run_own(python, tmp_path)
    assert outcome.status == 0, outcome.log
    assert sum(row.fits for row in outcome.rows) > CALLS // 2, outcome.rows
    lines = list(openhands_side.table(outcome, outcome))
    assert lines[-1].startswith("V0's own server: ")


EXPORTS = Path(__file__).with_name("openhands_exports.py")
EVERY = tuple((event, ENVIRONMENT if isinstance(event, Observation) else AGENT, None) for event in every_event())
CONVERSATIONS: Mapping[str, Any] = {"ordinary": ORDINARY, "every-kind": EVERY}


@pytest.mark.peers
async def test_v0_reads_exported_events(tmp_path: Path) -> None:
    """Every kind of event, including those that only Handloom has, in both formats."""
    python = installed(OPENHANDS)
    assert python is not None
    files = []
    for name, events in CONVERSATIONS.items():
        async with home_with(tmp_path / name, events) as home:
            for format, suffix in (("trajectory", "json"), ("openhands-events", "zip")):
                files.append(tmp_path / f"{name}.{suffix}")
                await export(home, "c", format, files[-1])
    outcome = tmp_path / "outcome"
    subprocess.run([python, "-P", EXPORTS, outcome, *files], check=True, capture_output=True, timeout=120)
    found = {look["name"]: look for look in json.loads(outcome.read_text())}
    assert [refused for look in found.values() for refused in look["refused"]] == []
    assert found["ordinary.json"]["events"] == found["ordinary.zip"]["events"] == len(ORDINARY)
    assert found["every-kind.zip"]["events"] == len(EVERY)
    assert found["every-kind.json"]["events"] == len(ACTIONS) + len(OBSERVATIONS)
    assert found["ordinary.json"]["replayed"] > 0
