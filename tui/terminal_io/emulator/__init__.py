"""Terminal bytes to cells. No Textual in here, no IO: bytes in, rows of runs out.

`Terminal` says what an emulator does. `Emulator` is pyte's: `controls` takes out of the stream what pyte gets wrong,
and `screen` adds what it lacks. `load_faster` has libghostty's, in `ghostty`, where its package is installed.
"""

from tui.terminal_io.emulator.cell_screen import Run, RunStyle
from tui.terminal_io.emulator.emulator_choice import Terminal, load_faster
from tui.terminal_io.emulator.pyte_emulator import Emulator

__all__ = ["Emulator", "Run", "RunStyle", "Terminal", "load_faster"]
