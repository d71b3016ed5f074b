"""What lies in a file's place and is none is refused at once: nothing waits for a FIFO's other end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.regular_files import read_bytes, read_text
from core.secrets.vault import read_private
from core.settings import config, screen_settings


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sock(path: Path) -> None:
    """Bound through its folder's descriptor: the path of a test's folder may be too long for a socket's address."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": fifo,
    "a socket": sock,
    "a folder": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match=r"not a regular file|No such device|directory"):
        read_bytes(tmp_path / "f")


def test_file_is_read_up_to_its_limit_and_links_only_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one\r\ntwo")
    (tmp_path / "link").symlink_to("f")
    assert read_text(tmp_path / "link") == "one\ntwo"
    assert read_bytes(tmp_path / "f", 8, follow=False) == b"one\r\ntwo"
    with pytest.raises(OSError, match="longer than 7 bytes"):
        read_bytes(tmp_path / "f", 7)
    with pytest.raises(OSError, match="symbolic"):
        read_bytes(tmp_path / "link", follow=False)


def test_settings_and_secrets_report_files_that_are_not_regular(tmp_path: Path) -> None:
    fifo(tmp_path / "config.toml")
    fifo(tmp_path / "secrets.json")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        config.load(tmp_path, {})
    assert screen_settings.read(tmp_path, {}) == screen_settings.read(tmp_path / "none", {})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_private(tmp_path / "secrets.json")
