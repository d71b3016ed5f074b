"""Terminal bytes to cells. No Textual in here, no IO: bytes in, rows of runs out.

`Terminal` says what an emulator does, `best` which one there is. `Emulator` is pyte's: `controls` takes out of the
stream what pyte gets wrong, and `screen` adds what it lacks. `ghostty` is libghostty's, where its package is installed.
"""

from tui.vt.emulator import Emulator
from tui.vt.screen import Run, RunStyle
from tui.vt.terminal import Terminal, best

__all__ = ["Emulator", "Run", "RunStyle", "Terminal", "best"]
