"""The MCP servers that would count here: how many, which wait for a yes, and whose program is not there.

Nothing is started and nobody is called.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from core.errors import ConfigurationError
from core.inherited import inherited
from core.mcp.pins import Pins
from core.mcp.servers import ServerSpec, of_project, of_user
from tui.commands import keyed
from tui.display.text import sanitize_line
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _

NAMES_CELLS = 200


def servers(patient: Patient) -> Finding:
    """The user's own servers, and those that the workspace names."""
    settings = patient.settings.mcp
    found, problems = of_project(str(patient.workspace)) if settings.project_servers != "never" else ([], [])
    specs = [*of_user(settings), *found]
    if problems:
        return Finding(
            Mark.NOTE, sanitize_line("; ".join(problems), NAMES_CELLS), _("Correct the file; the rest works.")
        )
    if not specs:
        return Finding(Mark.OK, _("none is configured"))
    pins = Pins(patient.home)
    try:
        waiting = [spec for spec in specs if not pins.agreed(spec)]
    except ConfigurationError as error:
        return Finding(Mark.NOTE, sanitize_line(str(error), NAMES_CELLS), _("Then approve the servers anew."))
    path = inherited(patient.environ).get("PATH")
    if missing := [spec for spec in specs if spec.command and not _is_there(spec, path)]:
        told = _("no program is found for {names}").format(names=_names(missing))
        return Finding(Mark.NOTE, told, _("Install it, or correct its command where it is named."))
    ready = [spec for spec in specs if spec not in waiting]
    told = _("ready to start: {names}").format(names=_names(ready)) if ready else ""
    if not waiting:
        return Finding(Mark.OK, told)
    asks = _("waiting for your consent: {names}").format(names=_names(waiting))
    return Finding(
        Mark.NOTE, "; ".join(filter(None, (told, asks))), keyed(_("Read what they run with {conv.mcp}, and press y."))
    )


def _names(specs: list[ServerSpec]) -> str:
    return sanitize_line(", ".join(spec.name for spec in specs), NAMES_CELLS)


def _is_there(spec: ServerSpec, path: str | None) -> bool:
    """Whether the program of a server would be found, as it is when it is started."""
    program = spec.command[0]
    return shutil.which(program, path=path) is not None or ("/" in program and (Path(spec.folder) / program).is_file())
