"""The walls of the local runtime: whether they can be had around the current folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from runtime import bubblewrap
from tui.doctor.finding import Finding, Mark, Patient, first_line_of
from tui.i18n import _


def walls(patient: Patient) -> Finding:
    """Tries bubblewrap with one short run, which is the only way to know what the system allows.

    Nothing in the folder is protected in it, since the mount points would have to be made.
    """
    if patient.settings.runtime != "local" or patient.settings.sandbox.isolation == "none":
        return Finding(Mark.OK, _("not wanted by the settings"))
    workspace = patient.workspace
    why = bubblewrap.why_not(
        bubblewrap.Walls(
            workspace=workspace,
            private=workspace,
            home=Path.home().resolve(),
            user=bubblewrap.somebody(workspace),
        )
    )
    if not why:
        path = shutil.which("bwrap") or ""
        return Finding(Mark.OK, f"{first_line_of(path, '--version')}, {path}")
    mark = Mark.MISSING if patient.settings.sandbox.isolation == "bubblewrap" else Mark.NOTE
    return Finding(
        mark,
        _("no isolation in {folder}: {why}").format(folder=workspace, why=why),
        _("Until then the agent's commands run as you, on this machine, and the workspace asks before each."),
    )
