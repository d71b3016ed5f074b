"""The table of programs: each with its options and operands, as far as their effects are fully known.

`table.py` describes the language. To teach a program, add a line; to teach an option, write it there. What is not
here is not understood, so that nothing dangerous has to be listed.
"""

from __future__ import annotations

from core.security.command.table import rows
from core.security.command.tables import files, git, packages, texts

PROGRAMS = {name: row for text in (texts.TABLE, files.TABLE, git.TABLE, packages.TABLE) for name, row in rows(text)}
"""Every program by its name."""
SUBCOMMANDS = {
    name: dict(rows(text)) for name, text in {**files.SUBCOMMANDS, **git.SUBCOMMANDS, **packages.SUBCOMMANDS}.items()
}
"""The tables of subcommands by the names that operands `@name` have."""
