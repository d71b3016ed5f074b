"""The server of the remote runtime, where that is the one that is chosen: whether it answers, and takes the key."""

from __future__ import annotations

import asyncio
import ssl

from core.errors import ConfigurationError
from runtime.client import ActionExecutionClient
from runtime.remote_address import RemoteAddress, key_from, parsed, trust
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _


def remote(patient: Patient) -> Finding:
    """Asks the server whether it is there, with the key, as every start does; it is not claimed."""
    settings = patient.settings.remote
    if patient.settings.runtime != "remote":
        return Finding(Mark.OK, _("not wanted by the settings"))
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
        _("{url} does not answer, or does not take the key").format(url=address.url),
        _("Look whether the server runs, whether its certificate is believed, and whether the key is its own."),
    )


async def _is_alive(address: RemoteAddress, key: str, tls: ssl.SSLContext | None) -> bool:
    async with ActionExecutionClient(key, url=address.url, tls=tls) as client:
        return await client.alive()
