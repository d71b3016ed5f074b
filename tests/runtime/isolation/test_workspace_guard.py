"""Files that appear under a protected name are moved aside, whatever obstacles exist."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runtime.isolation.workspace_guard import MAX_KEPT, SUFFIX, move_aside
from tests.runtime.isolation.confined import SOMEBODY


def test_file_is_moved_aside_if_all_numbered_names_are_taken(tmp_path: Path) -> None:
    for number in range(1, MAX_KEPT + 1):
        (tmp_path / (f".envrc{SUFFIX}" + (f".{number}" if number > 1 else ""))).mkdir()
    (tmp_path / ".envrc").write_text("evil")
    (line,) = move_aside(tmp_path, [".envrc"])
    assert not (tmp_path / ".envrc").exists()
    (moved,) = (path for path in tmp_path.iterdir() if path.is_file())
    assert moved.read_text() == "evil"
    assert moved.name in line


@pytest.mark.timeout(60)
def test_file_in_a_read_only_folder_is_moved_aside(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".envrc").write_text("evil")
    folder.chmod(0o555)
    told, answer = os.pipe()
    if (child := os.fork()) == 0:  # root may write everywhere
        os.chdir(folder)
        if os.getuid() == 0:
            os.chown(".", SOMEBODY, SOMEBODY)
            os.setuid(SOMEBODY)
        os.write(answer, "\n".join(move_aside(Path(), [".envrc"])).encode())
        os._exit(0)
    os.close(answer)
    os.waitpid(child, 0)
    with open(told, encoding="utf-8") as line:
        assert SUFFIX in line.read()
    assert not (folder / ".envrc").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
