"""How processes are ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runtime.server import processes


def test_a_shell_whose_command_is_killed_before_it_begins_no_other(tmp_path: Path) -> None:
    script = "sleep 100 & echo $!; wait; echo > next"
    with subprocess.Popen(["bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        command = int(shell.stdout.readline())
        much_later = [command] * 50_000 + [shell.pid]
        processes.kill_all(much_later)
    assert not (tmp_path / "next").exists()
