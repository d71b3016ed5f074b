"""What a line of the table cannot say of a program, by the names that lines have for it."""

from __future__ import annotations

from collections.abc import Callable

from core.security.shell.program_call import Call
from core.security.shell.program_table import Given
from core.security.shell.special import file_programs, git_programs, interpreters, network_programs, search_programs

Handler = Callable[[Call, Given], None]
SPECIAL: dict[str, Handler] = {
    **search_programs.HANDLERS,
    **file_programs.HANDLERS,
    **interpreters.HANDLERS,
    **git_programs.HANDLERS,
    **network_programs.HANDLERS,
}
"""Every function by its name in the table."""
