"""OpenHands' published client is answered by our action server as V0's own server would answer it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import openhands_side
from tests.peers.installing import OPENHANDS, installed

CALLS = 48
"""The client makes at least as many; fewer are a run that broke off."""


@pytest.mark.peers
@pytest.mark.browser
@pytest.mark.timeout(openhands_side.RUN_TIMEOUT_S + 60)
def test_each_call_of_the_client_is_answered_as_v0_answers(tmp_path: Path) -> None:
    python = installed(OPENHANDS)
    assert python is not None
    outcome = openhands_side.run(python, tmp_path)
    assert outcome.status == 0, outcome.log
    assert [row for row in outcome.rows if not row.fits] == []
    assert len(outcome.rows) >= CALLS
