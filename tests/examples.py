"""The examples of the documentation: each is a cassette in docs/examples, recorded from the script of the same name.

    python -m tests.examples     records them again

A cassette must match every request exactly, so record them again whenever the agent's instructions or its tools change;
a test plays each of them, and fails if one does not match.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.program import ROOT

FOLDER = ROOT / "docs" / "examples"
TASKS: Mapping[str, str] = {"lines": "How many lines does greeting.txt have?"}
"""The tasks by script name."""


def run(task: str, *options: str, home: Path) -> subprocess.CompletedProcess[str]:
    """`handloom run` in the folder of the examples, with a home of its own and no provider's key."""
    command = [sys.executable, "-m", "tui", "run", task, *options]
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "HANDLOOM_HOME": str(home)}
    environ["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, env=environ, timeout=120, check=False)


def main() -> None:
    """Record all of them."""
    for name, task in TASKS.items():
        with tempfile.TemporaryDirectory() as home:
            record = Path(home) / "record.jsonl"
            ran = run(task, "--model", f"scripted:{name}.yaml", "--record", str(record), home=Path(home))
            if ran.returncode:
                raise SystemExit(f"{name}: {ran.stderr}")
            (FOLDER / f"{name}.jsonl").write_text(record.read_text("utf-8"), "utf-8")
            print(f"docs/examples/{name}.jsonl")


if __name__ == "__main__":
    main()
