"""What every journey needs: a home and a workspace of its own, and the program as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAM = (sys.executable, "-P", "-m", "tui")
"""`handloom`, as its console script starts it."""


@dataclass
class Person:
    """Somebody who uses Handloom from a shell: a home, a workspace, and an environment without keys."""

    home: Path
    workspace: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TERM", "TMPDIR")}
        root = str(Path(__file__).parents[2])
        return {**kept, "HOME": str(self.home), "HANDLOOM_HOME": str(self.home), "PYTHONPATH": root, **self.environ}

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command; standard output and standard error are pipes."""
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | options
        return subprocess.Popen([*PROGRAM, *arguments], cwd=self.workspace, env=self.environment, text=True, **settings)

    def does(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.workspace,
            env=self.environment,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def conversations(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.does("list", "--json").stdout.splitlines()]

    def exported(self, conversation_id: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = json.loads(self.does("export", conversation_id).stdout)
        return events


@pytest.fixture
def person(tmp_path: Path) -> Person:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    return Person(home, workspace)


def with_environ(person: Person, environ: Mapping[str, str]) -> Person:
    return Person(person.home, person.workspace, {**person.environ, **environ})
