"""What tests of containers share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.sshd import Elsewhere


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    """The engine of the tests, behind an sshd; tests that need it are marked `ssh`."""
    elsewhere, path = Elsewhere(), os.environ["PATH"]
    elsewhere.start()
    os.environ["PATH"] = f"{elsewhere.bin}:{path}"
    yield elsewhere
    os.environ["PATH"] = path
    elsewhere.stop()
