"""Terminal bytes to cells. No Textual in here, no IO: bytes in, rows of runs out.

`Emulator` is the door. pyte does the emulation; `controls` takes out of the stream what pyte gets wrong, and `screen`
adds what it lacks.
"""

from tui.vt.emulator import Emulator
from tui.vt.screen import Run, RunStyle

__all__ = ["Emulator", "Run", "RunStyle"]
