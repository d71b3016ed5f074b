"""Handloom itself, and the programs that it and the agent use."""

from __future__ import annotations

import os
import platform
import re
import shutil
from importlib.metadata import version as version_of
from pathlib import Path

from tui.doctor.finding import Finding, Mark, Patient, first_line_of
from tui.i18n import _

_NUMBER = re.compile(r"\d+(\.\d+)+[a-z]?")


def version(patient: Patient) -> Finding:
    """Which Handloom, on what."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Finding(Mark.OK, f"{version_of('handloom')}, Python {platform.python_version()}, {system}")


def git(patient: Patient) -> Finding:
    """For repositories, and for what changed in a workspace."""
    return _program("git", "--version", patient, _("Install git: repositories cannot be cloned without it."))


def ripgrep(patient: Patient) -> Finding:
    """What agents search with."""
    return _program("rg", "--version", patient, _("Install ripgrep: the agent searches files faster with it."))


def tmux(patient: Patient) -> Finding:
    """For terminals that outlast a connection."""
    return _program("tmux", "-V", patient, _("Install tmux to leave Handloom running when a connection breaks."))


def _program(name: str, option: str, patient: Patient, advice: str) -> Finding:
    path = shutil.which(name, path=patient.environ.get("PATH"))
    if path is None:
        return Finding(Mark.NOTE, _("not installed"), advice)
    said = first_line_of(path, option)
    if not said:
        return Finding(Mark.NOTE, _("{path} does not say its version").format(path=path), advice)
    number = _NUMBER.search(said)
    return Finding(Mark.OK, f"{number[0] if number else said}, {path}")


def browser(patient: Patient) -> Finding:
    """Which Chromium would be driven, outside of containers, which have their own."""
    if "browser" not in patient.settings.sandbox.plugins:
        return Finding(Mark.OK, _("not wanted: the plugin `browser` is not in sandbox.plugins"))
    path = _chromium(patient)
    if path is None:
        return Finding(
            Mark.NOTE,
            _("there is no Chromium"),
            _("Install the package chromium, or run: python -m playwright install chromium"),
        )
    said = first_line_of(path, "--version", environ={"PATH": os.defpath, "HOME": "/nonexistent"})
    number = _NUMBER.search(said)
    if number is None:
        return Finding(
            Mark.NOTE,
            _("{path} does not say its version").format(path=path),
            _("Install the package chromium again; the agent cannot browse."),
        )
    return Finding(Mark.OK, f"{number[0]}, {path}")


def _chromium(patient: Patient) -> str | None:
    """As the browser's plugin finds it, without starting playwright's driver, which would take half a second."""
    from runtime.plugins.browser.chromium import ITSELF, NAMES

    for name in NAMES:
        if found := shutil.which(name, path=patient.environ.get("PATH")):
            itself = ITSELF.get(found, found)
            return itself if Path(itself).exists() else found
    own = Path(patient.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path("~/.cache/ms-playwright").expanduser())
    bundled = sorted(own.glob("chromium*/chrome-*/*chrom*"))
    return next((str(path) for path in reversed(bundled) if os.access(path, os.X_OK) and path.is_file()), None)
