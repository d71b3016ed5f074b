"""Every program whose effects are known: its row in a table, and the function for what a row cannot say.

Each module has a TABLE in the language of `core.security.shell.program_table`, and HANDLERS, the functions that its
rows name. To support a program, add a row; to support an option, write it in the row. A program or an option that is
in no row is not understood, so dangerous ones need no list.
"""

from __future__ import annotations

from core.security.shell.program_table import Handler, Row, sections
from core.security.shell.programs import dev_tools, file_programs, git_programs, network_programs, text_programs

_MODULES = (text_programs, file_programs, network_programs, git_programs, dev_tools)

PROGRAMS: dict[str, Row] = {}
"""Every program by its name."""
SUBCOMMANDS: dict[str, dict[str, Row]] = {}
"""The tables of subcommands, by the name that the operand `@name` has."""
HANDLERS: dict[str, Handler] = {}
"""Every function by its name in the rows."""

for _module in _MODULES:
    _programs, _subcommands = sections(_module.TABLE)
    PROGRAMS.update(_programs)
    SUBCOMMANDS.update(_subcommands)
    HANDLERS.update(_module.HANDLERS)
