"""Secrets go to a program that runs already through a pipe with a name, and leave nothing behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runtime.server import shell
from runtime.server.shell import SecretHandover


def test_values_are_passed_in_order_with_zero_bytes() -> None:
    before = set(os.listdir("/proc/self/fd"))
    lent = SecretHandover({"one": "1", "two": "zwei\udcff", "empty": ""})
    assert lent.names == ("one", "two", "empty")
    folder = Path(lent.path).parent
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(os.stat(lent.path).st_mode)) == (0o700, 0o600)
    reader = os.open(lent.path, os.O_RDONLY)
    assert os.read(reader, 100) == b"1\0zwei\xff\0\0"
    os.close(reader)
    lent.close()
    lent.close()
    assert not folder.exists()
    assert set(os.listdir("/proc/self/fd")) == before


def test_too_large_values_leave_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SHARED_MEMORY", str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    SecretHandover({"fits": "x" * 60_000}).close()
    with pytest.raises(UnicodeEncodeError):
        SecretHandover({"x": "\ud800"})
    assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == before


def test_pipe_is_in_the_temporary_folder_without_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SHARED_MEMORY", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lent = SecretHandover({"a": "1"})
    assert Path(lent.path).parent.parent == tmp_path
    lent.close()
