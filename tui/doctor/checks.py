"""The checks of `handloom doctor` that need no file of their own, and the table of all checks.

To add a check, write a function that returns a `Finding` and add its row to the table. Each check runs in a thread and
is reported as unfinished after TIME_S. No check starts a server, calls a model or reads the value of a key.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import ssl
import stat
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import NamedTuple

from core.env_allowlist import inherited
from core.errors import ConfigurationError, HandloomError
from core.home import CONFIG
from core.llm.factory import create_llm, offers
from core.llm.model_host_client import ModelHost
from core.llm.providers import key_variables_of
from core.mcp.agreements import Agreements
from core.mcp.server_definitions import ServerSpec, of_project, of_user
from core.secrets.backends import wrong_mode
from core.secrets.vault import INDEX, VALUES, Vault
from core.settings.key_migration import keys_in
from runtime.client import ActionExecutionClient
from runtime.isolation import bubblewrap
from runtime.remote.remote_address import RemoteAddress, key_from, parsed, trust
from tui.commands import keyed
from tui.doctor import engine_check, storage_check, terminal_check
from tui.doctor.finding import Finding, Mark, Patient, first_line_of
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line


def model(patient: Patient) -> Finding:
    """The model of the settings, and whether its key is set; else what could be chosen."""
    name = patient.settings.model
    others = [offer.name for offer in offers(patient.environ, patient.settings.models)]
    if not name:
        if len(others) > 1:
            found = _("not configured; available: {names}").format(names=", ".join(others))
            return Finding(Mark.OK, found)
        return Finding(
            Mark.NOTE,
            _("no model and no API key is configured; only demo can be used"),
            _("Set an API key such as ANTHROPIC_API_KEY, and choose a model with --model or HANDLOOM_MODEL."),
        )
    try:
        create_llm(
            name,
            workspace=str(patient.workspace),
            host=ModelHost(),
            settings=patient.settings.llm,
            models=patient.settings.models,
            environ=patient.environ,
        )
    except HandloomError as error:
        return Finding(Mark.MISSING, str(error), _("Available: {names}").format(names=", ".join(others)))
    variable = next((variable for variable in key_variables_of(name) if patient.environ.get(variable)), "")
    if not variable:
        return Finding(Mark.OK, name)
    return Finding(Mark.OK, _("{name}, API key from {variable}").format(name=name, variable=variable))


_NUMBER = re.compile(r"\d+(\.\d+)+[a-z]?")


def version(patient: Patient) -> Finding:
    """Which Handloom, on what."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Finding(Mark.OK, f"{version_of('handloom')}, Python {platform.python_version()}, {system}")


def git(patient: Patient) -> Finding:
    """For repositories, and for what changed in a workspace."""
    return _program("git", "--version", patient, _("Install git to clone repositories."))


def ripgrep(patient: Patient) -> Finding:
    """What agents search with."""
    return _program("rg", "--version", patient, _("Install ripgrep for faster file search."))


def tmux(patient: Patient) -> Finding:
    """For terminals that outlast a connection."""
    return _program("tmux", "-V", patient, _("Install tmux to keep Handloom running when a connection breaks."))


def _program(name: str, option: str, patient: Patient, advice: str) -> Finding:
    path = shutil.which(name, path=patient.environ.get("PATH"))
    if path is None:
        return Finding(Mark.NOTE, _("not installed"), advice)
    said = first_line_of(path, option)
    if not said:
        return Finding(Mark.NOTE, _("{path} does not report its version").format(path=path), advice)
    number = _NUMBER.search(said)
    return Finding(Mark.OK, f"{number[0] if number else said}, {path}")


def browser(patient: Patient) -> Finding:
    """Which Chromium would be driven, outside of containers, which have their own."""
    if "browser" not in patient.settings.sandbox.plugins:
        return Finding(Mark.OK, _("not needed: the plugin `browser` is not in sandbox.plugins"))
    path = _chromium(patient)
    if path is None:
        return Finding(
            Mark.NOTE,
            _("Chromium was not found"),
            _("Install the chromium package, or run: python -m playwright install chromium"),
        )
    said = first_line_of(path, "--version", environ={"PATH": os.defpath, "HOME": "/nonexistent"})
    number = _NUMBER.search(said)
    if number is None:
        return Finding(
            Mark.NOTE,
            _("{path} does not report its version").format(path=path),
            _("Reinstall the chromium package; the agent cannot browse without it."),
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


def remote(patient: Patient) -> Finding:
    """Asks the server whether it is there, with the key, as every start does; it is not claimed."""
    settings = patient.settings.remote
    if patient.settings.runtime != "remote":
        return Finding(Mark.OK, _("not used with the current settings"))
    try:
        address = parsed(settings.url)
        key = key_from(patient.environ, settings.key_env, settings.key_file)
        tls = trust(settings.ca_file) if address.is_secure else None
    except ConfigurationError as error:
        return Finding(Mark.MISSING, str(error))
    if asyncio.run(_is_alive(address, key, tls)):  # of this thread, which has no loop
        return Finding(Mark.OK, address.url)
    return Finding(
        Mark.MISSING,
        _("{url} does not respond or rejects the key").format(url=address.url),
        _("Check that the server is running, that its certificate is trusted and that the key is correct."),
    )


async def _is_alive(address: RemoteAddress, key: str, tls: ssl.SSLContext | None) -> bool:
    async with ActionExecutionClient(key, url=address.url, tls=tls) as client:
        return await client.alive()


def walls(patient: Patient) -> Finding:
    """Tries bubblewrap with one short run, which is the only way to know what the system allows.

    Nothing in the folder is protected in it, since the mount points would have to be made.
    """
    if patient.settings.runtime != "local" or patient.settings.sandbox.isolation == "none":
        return Finding(Mark.OK, _("not used with the current settings"))
    workspace = patient.workspace
    why = bubblewrap.unavailable_reason(
        bubblewrap.Bubblewrap(
            workspace=workspace,
            private=workspace,
            home=Path.home().resolve(),
            user=bubblewrap.sandbox_user(workspace),
        )
    )
    if not why:
        path = shutil.which("bwrap") or ""
        return Finding(Mark.OK, f"{first_line_of(path, '--version')}, {path}")
    mark = Mark.MISSING if patient.settings.sandbox.isolation == "bubblewrap" else Mark.NOTE
    return Finding(
        mark,
        _("no sandbox for {folder}: {why}").format(folder=workspace, why=why),
        _(
            "Until then, commands run directly on this machine with your permissions, and "
            "the workspace asks before each one."
        ),
    )


def secrets(patient: Patient) -> Finding:
    """Looks at modes and names. No value is read but where the settings hold one."""
    home = patient.home
    for file in (home / VALUES, home / INDEX):
        if wrong := wrong_mode(file):
            return Finding(Mark.NOTE, wrong)
    if home.exists() and stat.S_IMODE(home.stat().st_mode) & 0o077:
        found = _("other users can read {folder}").format(folder=home)
        return Finding(Mark.NOTE, found, _("Run: chmod 700 on this folder."))
    try:
        keys = keys_in(home)
        count = len(Vault(home).all())
    except ConfigurationError as error:
        return Finding(Mark.NOTE, str(error))
    if keys:
        found = _("{file} contains API keys: {settings}").format(file=home / CONFIG, settings=", ".join(keys))
        return Finding(Mark.NOTE, found, _("Run handloom secrets adopt to move them to the secret store."))
    return Finding(Mark.OK, _("{count} stored; list them with handloom secrets list").format(count=count))


NAMES_CELLS = 200


def servers(patient: Patient) -> Finding:
    """The user's own servers, and those that the workspace names."""
    settings = patient.settings.mcp
    found, problems = of_project(str(patient.workspace)) if settings.project_servers != "never" else ([], [])
    specs = [*of_user(settings), *found]
    if problems:
        return Finding(
            Mark.NOTE, sanitize_line("; ".join(problems), NAMES_CELLS), _("Correct the file. The other servers work.")
        )
    if not specs:
        return Finding(Mark.OK, _("none configured"))
    agreements = Agreements(patient.home)
    try:
        waiting = [spec for spec in specs if not agreements.agreed(spec)]
    except ConfigurationError as error:
        return Finding(Mark.NOTE, sanitize_line(str(error), NAMES_CELLS), _("Then approve the servers again."))
    path = inherited(patient.environ).get("PATH")
    if missing := [spec for spec in specs if spec.command and not _is_there(spec, path)]:
        told = _("program not found for {names}").format(names=_names(missing))
        return Finding(Mark.NOTE, told, _("Install the program, or correct the command in the settings."))
    ready = [spec for spec in specs if spec not in waiting]
    told = _("ready to start: {names}").format(names=_names(ready)) if ready else ""
    if not waiting:
        return Finding(Mark.OK, told)
    asks = _("waiting for your approval: {names}").format(names=_names(waiting))
    return Finding(
        Mark.NOTE,
        "; ".join(filter(None, (told, asks))),
        keyed(_("Review them with {conv.mcp} and press y to approve.")),
    )


def _names(specs: list[ServerSpec]) -> str:
    return sanitize_line(", ".join(spec.name for spec in specs), NAMES_CELLS)


def _is_there(spec: ServerSpec, path: str | None) -> bool:
    """Whether the program of a server would be found, as it is when it is started."""
    program = spec.command[0]
    return shutil.which(program, path=path) is not None or ("/" in program and (Path(spec.folder) / program).is_file())


class Check(NamedTuple):
    """A row of the table."""

    name: str
    """In JSON."""
    title: str
    """For people."""
    look: Callable[[Patient], Finding]
    """Blocks."""


CHECKS = (
    Check("version", "Handloom", version),
    Check("settings", _("settings"), storage_check.settings),
    Check("database", _("database"), storage_check.database),
    Check("disk", _("disk"), storage_check.disk),
    Check("model", _("model"), model),
    Check("terminal", _("terminal"), terminal_check.terminal),
    Check("clipboard", _("clipboard"), terminal_check.clipboard),
    Check("walls", _("isolation"), walls),
    Check("engine", _("engine"), engine_check.engine),
    Check("image", _("image"), engine_check.sandbox_image),
    Check("containers", _("containers"), engine_check.containers),
    Check("remote", _("remote server"), remote),
    Check("browser", _("browser"), browser),
    Check("mcp", _("MCP servers"), servers),
    Check("git", "git", git),
    Check("ripgrep", "ripgrep", ripgrep),
    Check("tmux", "tmux", tmux),
    Check("secrets", _("secrets"), secrets),
)
