"""The checks of `handloom doctor` that look at sandboxes: isolation, container engine, image, remote server, browser.

Each check of the engine has a connection of its own, so that all of them run at once. The engine is only asked for
information about itself. No other machine is called, unless the settings name it as container engine or remote server.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker  # before the checks' threads: if two import it at a time, it fails
import requests
from docker.errors import DockerException, ImageNotFound

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from runtime import image
from runtime.client import ActionExecutionClient
from runtime.docker.container_spec import HOME_LABEL
from runtime.docker.engine import connect, engine_gone
from runtime.isolation import bubblewrap
from runtime.remote.remote_runtime import RemoteAddress, parse_address, read_key, tls_context
from tui.doctor.checks import Finding, Machine, Mark, first_line_of, missing, note, number_in, ok
from tui.i18n import _

ENGINE_ANSWERS_IN_S = 1
"""A healthy engine answers within some milliseconds."""
_NUMBERS = re.compile(r"\d+")
_CACHES = Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
"""Where Playwright keeps its own browsers."""


def isolation(machine: Machine) -> Finding:
    """Run bubblewrap once, which is the only way to know what the system allows.

    Nothing in the folder is protected in it, because that would create mount points.
    """
    if machine.settings.runtime != "local" or machine.settings.sandbox.isolation == "none":
        return ok(_("not used with the current settings"))
    workspace = machine.workspace
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
        return ok(f"{first_line_of(path, '--version')}, {path}")
    mark = Mark.MISSING if machine.settings.sandbox.isolation == "bubblewrap" else Mark.NOTE
    return Finding(
        mark,
        _("no sandbox for {folder}: {why}").format(folder=workspace, why=why),
        _(
            "Until then, commands run directly on this machine with your permissions, and "
            "the workspace asks before each one."
        ),
    )


@contextmanager
def _connected(machine: Machine) -> Iterator[docker.DockerClient]:
    """Raises RuntimeUnavailableError, also for what fails inside."""
    client = connect(machine.settings.docker.engine, ENGINE_ANSWERS_IN_S)
    try:
        yield client
    except (DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error
    finally:
        client.close()


def engine(machine: Machine) -> Finding:
    """The container engine, its versions and settings."""
    where = machine.settings.docker.engine or machine.environ.get("DOCKER_HOST") or _("the default socket")
    try:
        with _connected(machine) as client:
            version, info = client.version(), client.info()
    except RuntimeUnavailableError as error:
        why, advice = _cause(str(error))
        return Finding(machine.needed_by("docker"), _("{where}: {why}").format(where=where, why=why), advice)
    runc = next((part["Version"] for part in version.get("Components", ()) if part["Name"] == "runc"), "?")
    facts = [f"{version['Version']} (API {version['ApiVersion']})", str(info.get("Driver", "?")), f"runc {runc}"]
    facts += ["live-restore"] * bool(info.get("LiveRestoreEnabled"))
    facts += ["rootless"] * any("rootless" in option for option in info.get("SecurityOptions") or ())
    found = ", ".join([*facts, where])
    if is_old(runc):
        return note(found, _("Update runc to 1.2.8, 1.3.3 or later. Older versions have known container escapes."))
    if not info.get("LiveRestoreEnabled"):
        return note(found, _("Enable live-restore to keep sandboxes running when the engine restarts."))
    return ok(found)


def is_old(runc: str) -> bool:
    """Whether this runc lacks the fixes of November 2025 (CVE-2025-31133, -52565, -52881)."""
    found = tuple(map(int, _NUMBERS.findall(runc)[:3]))
    return bool(found) and (found < (1, 2, 8) or (1, 3, 0) <= found < (1, 3, 3))


def _cause(error: str) -> tuple[str, str]:
    """Return why no engine answers, and what to do."""
    if "PermissionError" in error or "Permission denied" in error:
        return _("no permission to use its socket"), _("Add your user to the docker group and log in again.")
    if "timed out" in error or "Timeout" in error:
        return _("it does not respond"), _("Restart the container engine. It accepts connections but does not respond.")
    return (
        _("no container engine is running"),
        _("Start or install Docker (on Debian: make engine), or set DOCKER_HOST to its address."),
    )


def sandbox_image(machine: Machine) -> Finding:
    """Whether the image for sandboxes exists."""
    wanted, base = machine.settings.docker.image, machine.settings.docker.base or image.DEFAULT_BASE
    try:
        with _connected(machine) as client:
            if wanted:
                return _own_image(client, wanted, machine)
            tag = asyncio.run(image.find(client, machine.settings.docker.base))  # in this thread, which has no loop
    except HandloomError:
        return Finding(machine.needed_by("docker"), _("unknown, because no container engine is available"))
    if tag is None:
        return Finding(
            machine.needed_by("docker"),
            _("not built yet for this version on {base}").format(base=base),
            _("Build it with: handloom image build"),
        )
    return ok(tag)


def _own_image(client: docker.DockerClient, name: str, machine: Machine) -> Finding:
    try:
        client.images.get(name)
    except ImageNotFound:
        text = _("{name} was not found").format(name=name)
        return Finding(machine.needed_by("docker"), text, _("Pull or build it, or correct docker.image."))
    return ok(name)


def containers(machine: Machine) -> Finding:
    try:
        with _connected(machine) as client:
            listed: list[Any] = client.containers.list(all=True, sparse=True, filters={"label": HOME_LABEL})
    except RuntimeUnavailableError:
        return Finding(machine.needed_by("docker"), _("unknown, because no container engine is available"))
    running = sum(container.attrs.get("State") == "running" for container in listed)
    found = _("Handloom containers: {all}, running: {running}").format(all=len(listed), running=running)
    if len(listed) > running:
        return ok(found, _("No action needed. Unused containers are removed at the next start."))
    return ok(found)


def remote(machine: Machine) -> Finding:
    """Whether the server answers with this key; it is not claimed."""
    settings = machine.settings.remote
    if machine.settings.runtime != "remote":
        return ok(_("not used with the current settings"))
    try:
        address = parse_address(settings.url)
        key = read_key(machine.environ, settings.key_env, settings.key_file)
        tls = tls_context(settings.ca_file) if address.is_secure else None
    except ConfigurationError as error:
        return missing(str(error))
    if asyncio.run(_is_alive(address, key, tls)):  # in this thread, which has no loop
        return ok(address.url)
    return missing(
        _("{url} does not respond or rejects the key").format(url=address.url),
        _("Check that the server is running, that its certificate is trusted and that the key is correct."),
    )


async def _is_alive(address: RemoteAddress, key: str, tls: ssl.SSLContext | None) -> bool:
    async with ActionExecutionClient(key, url=address.url, tls=tls) as client:
        return await client.alive()


def browser(machine: Machine) -> Finding:
    """The Chromium that is used outside of containers, which have their own."""
    if "browser" not in machine.settings.sandbox.plugins:
        return ok(_("not needed: the plugin `browser` is not in sandbox.plugins"))
    path = _chromium(machine)
    if path is None:
        return note(
            _("Chromium was not found"),
            _("Install the chromium package, or run: python -m playwright install chromium"),
        )
    number = number_in(first_line_of(path, "--version", environ={"PATH": os.defpath, "HOME": "/nonexistent"}))
    if not number:
        return note(
            _("{path} does not report its version").format(path=path),
            _("Reinstall the chromium package; the agent cannot browse without it."),
        )
    return ok(f"{number}, {path}")


def _chromium(machine: Machine) -> str | None:
    """Find it as the browser plugin does, without starting playwright's driver, which takes half a second."""
    from runtime.plugins.browser.chromium import ITSELF, NAMES

    for name in NAMES:
        if found := shutil.which(name, path=machine.environ.get("PATH")):
            target = ITSELF.get(found, found)
            return target if Path(target).exists() else found
    own = Path(machine.environ.get("PLAYWRIGHT_BROWSERS_PATH") or _CACHES.expanduser() / "ms-playwright")
    bundled = sorted(own.glob("chromium*/chrome-*/*chrom*"))
    return next((str(path) for path in reversed(bundled) if os.access(path, os.X_OK) and path.is_file()), None)
