"""The emulators that this machine has: what holds for one holds for the other."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tui.terminal_io.emulator import Emulator, Terminal

KINDS: list[type[Terminal]] = [Emulator]
if find_spec("pyghostty") is not None:
    from tui.terminal_io.emulator.ghostty_emulator import GhosttyEmulator

    KINDS.append(GhosttyEmulator)

both = pytest.mark.parametrize("kind", KINDS)
