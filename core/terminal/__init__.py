"""Terminal emulation without a screen: what a terminal shows after the bytes that it got. No IO.

Uses pyte, which is imported with the modules. The action server, whose sandbox has pyte, makes text of output with it,
and the workspace draws terminals with it.
"""

ROWS, COLUMNS = 30, 120
"""The size of the agent's terminal, unless the user has taken it over."""
MAX_COMBINING = 4
"""Combining marks that one cell may have; no script needs more."""
