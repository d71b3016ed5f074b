"""An open store for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.store.event_store import EventStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home") as opened:
        yield opened
