"""Where the server listens. Invariant: an address that others could reach is listened on with TLS, and by name only.

Without TLS there is a Unix socket of its owner alone, or loopback. The server's own certificate and its key are files;
the key's file is its owner's alone, or the server does not start.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
import ssl
import stat
from pathlib import Path

from aiohttp import web

from runtime.server.request_guard import HEADER_TIMEOUT_S, Guard


def bind(options: argparse.Namespace) -> socket.socket:
    """The bound socket; on a path only its owner can use it. Raises OSError; ValueError for what others could reach."""
    if options.listen_fd is not None:
        os.set_inheritable(options.listen_fd, False)  # not for what the server starts
        return socket.socket(fileno=options.listen_fd)
    if options.uds is None:
        if not ipaddress.ip_address(options.host).is_loopback:
            if not (options.tls_cert and options.tls_key):
                raise ValueError(
                    f"{options.host} is no address of this machine's loopback, and others could call it; "
                    "give --tls-cert and --tls-key"
                )
            if not options.allow_host:
                raise ValueError(f"others call {options.host} by a name; give it with --allow-host")
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        return socket.create_server((options.host, options.port), family=family)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(options.uds))
    options.uds.chmod(0o600)
    return listener


def tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What the server shows and speaks, TLS 1.2 or newer; None without files. Raises OSError, ValueError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-cert and --tls-key go together")
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        raise ValueError(f"others may read {key}; chmod 600 it, and take a new one if they did")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ValueError(f"{certificate} and {key} are no certificate and its key: {error.reason}") from error
    return context


async def accept(
    listener: socket.socket, guard: Guard, runner: web.AppRunner, context: ssl.SSLContext | None
) -> asyncio.Server:
    """Begin to take connections, each under the guard's eyes."""
    assert runner.server is not None
    server = runner.server
    loop = asyncio.get_running_loop()
    if listener.family == socket.AF_UNIX:
        return await loop.create_unix_server(lambda: guard.watch(server), sock=listener)
    patience_s = HEADER_TIMEOUT_S if context is not None else None
    return await loop.create_server(
        lambda: guard.watch(server), sock=listener, ssl=context, ssl_handshake_timeout=patience_s
    )


def address(listener: socket.socket, context: ssl.SSLContext | None) -> str:
    """For the line that says that the server is ready."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{'https' if context is not None else 'http'}://{host}:{name[1]}"
