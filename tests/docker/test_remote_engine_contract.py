"""The contract of every runtime over the link to an engine elsewhere: the parts that do not look at the workspace from
outside, where it is another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.conftest import NO_CHANGE_TIMEOUT_S, Place
from tests.contract.test_commands import TestTime
from tests.contract.test_life import TestAnswers
from tests.fleets import Contained
from tests.sshd import Elsewhere

__all__ = ["TestAnswers", "TestTime"]

pytestmark = [pytest.mark.docker, pytest.mark.ssh]


@pytest.fixture
async def place(elsewhere: Elsewhere, tmp_path: Path) -> AsyncIterator[Place]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    options = ("--no-change-timeout", str(NO_CHANGE_TIMEOUT_S))
    runtime = Contained(workspace, engine=elsewhere.url, options=options)
    await runtime.start()
    yield Place(runtime, workspace)
    await runtime.aclose()
