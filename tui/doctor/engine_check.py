"""The container engine, the sandbox's image on it, and what Handloom left there.

Each check has a connection of its own, so that all of them run at once. An engine is asked for what it says of itself,
and for nothing else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker  # once, before the checks' threads: imported by two at a time, it fails
import requests
from docker.errors import DockerException, ImageNotFound

from core.errors import HandloomError, RuntimeUnavailableError
from runtime import image
from runtime.docker.container_spec import HOME_LABEL
from runtime.docker.engine import connect, engine_gone
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _

ANSWERS_IN_S = 1
"""An engine that is well answers within some milliseconds."""
_NUMBERS = re.compile(r"\d+")


@contextmanager
def _connected(patient: Patient) -> Iterator[docker.DockerClient]:
    """Raises RuntimeUnavailableError, also for what fails inside."""
    client = connect(patient.settings.docker.engine, ANSWERS_IN_S)
    try:
        yield client
    except (DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error
    finally:
        client.close()


def engine(patient: Patient) -> Finding:
    """Which engine answers, and what is known of its age and settings."""
    where = patient.settings.docker.engine or patient.environ.get("DOCKER_HOST") or _("the default socket")
    try:
        with _connected(patient) as client:
            version, info = client.version(), client.info()
    except RuntimeUnavailableError as error:
        why, advice = _cause(str(error))
        return Finding(patient.needed_by("docker"), _("{where}: {why}").format(where=where, why=why), advice)
    runc = next((part["Version"] for part in version.get("Components", ()) if part["Name"] == "runc"), "?")
    facts = [f"{version['Version']} (API {version['ApiVersion']})", str(info.get("Driver", "?")), f"runc {runc}"]
    facts += ["live-restore"] * bool(info.get("LiveRestoreEnabled"))
    facts += ["rootless"] * any("rootless" in option for option in info.get("SecurityOptions") or ())
    found = ", ".join([*facts, where])
    if is_old(runc):
        return Finding(
            Mark.NOTE, found, _("Update runc to 1.2.8, 1.3.3 or later. Older versions have known container escapes.")
        )
    if not info.get("LiveRestoreEnabled"):
        return Finding(Mark.NOTE, found, _("Enable live-restore to keep sandboxes running when the engine restarts."))
    return Finding(Mark.OK, found)


def is_old(runc: str) -> bool:
    """Whether this runc lacks the fixes of November 2025 (CVE-2025-31133, -52565, -52881)."""
    found = tuple(map(int, _NUMBERS.findall(runc)[:3]))
    return bool(found) and (found < (1, 2, 8) or (1, 3, 0) <= found < (1, 3, 3))


def _cause(said: str) -> tuple[str, str]:
    """Why no engine answers, and what to do."""
    if "PermissionError" in said or "Permission denied" in said:
        return _("no permission to use its socket"), _("Add your user to the docker group and log in again.")
    if "timed out" in said or "Timeout" in said:
        return _("it does not respond"), _("Restart the container engine. It accepts connections but does not respond.")
    return (
        _("no container engine is running"),
        _("Start or install Docker (on Debian: make engine), or set DOCKER_HOST to its address."),
    )


def sandbox_image(patient: Patient) -> Finding:
    """Whether a sandbox could be started without building first."""
    wanted, base = patient.settings.docker.image, patient.settings.docker.base or image.DEFAULT_BASE
    try:
        with _connected(patient) as client:
            if wanted:
                return _named(client, wanted, patient)
            tag = asyncio.run(image.find(client, base))  # of this thread, which has no loop
    except HandloomError:
        return Finding(patient.needed_by("docker"), _("unknown, because no container engine is available"))
    if tag is None:
        return Finding(
            patient.needed_by("docker"),
            _("not built yet for this version on {base}").format(base=base),
            _("Build it with: handloom image build"),
        )
    return Finding(Mark.OK, tag)


def _named(client: docker.DockerClient, name: str, patient: Patient) -> Finding:
    """An image of the user's own."""
    try:
        client.images.get(name)
    except ImageNotFound:
        missing = _("{name} was not found").format(name=name)
        return Finding(patient.needed_by("docker"), missing, _("Pull or build it, or correct docker.image."))
    return Finding(Mark.OK, name)


def containers(patient: Patient) -> Finding:
    """What of ours is on the engine."""
    try:
        with _connected(patient) as client:
            listed: list[Any] = client.containers.list(all=True, sparse=True, filters={"label": HOME_LABEL})
    except RuntimeUnavailableError:
        return Finding(patient.needed_by("docker"), _("unknown, because no container engine is available"))
    running = sum(container.attrs.get("State") == "running" for container in listed)
    found = _("Handloom containers: {all}, running: {running}").format(all=len(listed), running=running)
    if len(listed) > running:
        return Finding(Mark.OK, found, _("No action needed. Unused containers are removed at the next start."))
    return Finding(Mark.OK, found)
