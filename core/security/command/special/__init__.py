"""What a line of the table cannot say of a program, by the names that lines have for it."""

from __future__ import annotations

from collections.abc import Callable

from core.security.command.call import Call
from core.security.command.special import code, files, git, network, searching
from core.security.command.table import Given

Handler = Callable[[Call, Given], None]
SPECIAL: dict[str, Handler] = {
    **searching.HANDLERS,
    **files.HANDLERS,
    **code.HANDLERS,
    **git.HANDLERS,
    **network.HANDLERS,
}
"""Every function by its name in the table."""
