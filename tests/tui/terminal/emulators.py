"""The emulators that this machine has: what holds for one holds for the other."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tui.terminal_io.emulator import Emulator
from tui.terminal_io.pyte_emulator import PyteEmulator

KINDS: list[type[Emulator]] = [PyteEmulator]
if find_spec("pyghostty") is not None:
    from tui.terminal_io.ghostty_emulator import GhosttyEmulator

    KINDS.append(GhosttyEmulator)

both = pytest.mark.parametrize("kind", KINDS)
