"""The host's path to a container's server: the socket that the server created, whatever replaces it later."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.docker.container_spec import SOCKET
from runtime.docker.sandbox_folder import LockedError, SandboxFolder
from runtime.docker.warm_pool import _lock


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SandboxFolder]:
    folder = SandboxFolder(tmp_path, "it")
    folder.lock()
    folder.prepare((os.getuid(), os.getgid()))
    yield folder
    folder.release()


def listening(path: Path) -> socket.socket:
    """A server on this path, which is longer than a socket's can be."""
    listener = socket.socket(socket.AF_UNIX)
    opened = os.open(path.parent, os.O_PATH)
    listener.bind(f"/proc/self/fd/{opened}/{path.name}")
    os.close(opened)
    listener.listen()
    listener.setblocking(False)
    return listener


def is_reached(listener: socket.socket, way: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(way)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("kind", ["link", "socket"])
def test_replacement_of_the_socket_is_not_used(folder: SandboxFolder, tmp_path: Path, kind: str) -> None:
    path = folder.inside / SOCKET
    with listening(path) as server:
        assert is_reached(server, folder.verified_socket())
        path.unlink()
        with listening(tmp_path / "other" if kind == "link" else path) as other:
            if kind == "link":
                path.symlink_to(tmp_path / "other")
            assert is_reached(server, folder.verified_socket())
            with pytest.raises(BlockingIOError):
                other.accept()
            folder.release()
            folder.lock()
            with pytest.raises(OSError, match=r"was replaced"):  # for a later process too
                folder.verified_socket()


def test_later_process_finds_the_socket(folder: SandboxFolder) -> None:
    with listening(folder.inside / SOCKET) as server:
        folder.verified_socket()
        folder.release()
        folder.lock()
        assert is_reached(server, folder.verified_socket())


def test_existing_link_in_place_of_the_socket_is_not_followed(folder: SandboxFolder, tmp_path: Path) -> None:
    with listening(tmp_path / "other"):
        (folder.inside / SOCKET).symlink_to(tmp_path / "other")
        with pytest.raises(OSError, match=r"was replaced"):
            folder.verified_socket()


async def test_folder_locked_briefly_is_awaited(tmp_path: Path) -> None:
    mine, others = (SandboxFolder(tmp_path, "t") for _ in range(2))
    others.lock()
    asyncio.get_running_loop().call_later(0.1, others.release)
    await _lock(mine)
    with pytest.raises(LockedError):
        others.lock()
    mine.release()
