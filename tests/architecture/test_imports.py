"""What each module imports. tests/tui checks the first frame, tests/llm checks choosing a model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.blocking import ROOT

HEAVY = {"litellm", "textual", "rich", "aiosqlite", "sqlite3", "pysqlite3", "docker", "playwright", "jupyter_client"}
HEAVY |= {"mcp", "aiohttp", "pydantic", "yaml", "asyncio"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


def test_core_package_loads_modules_lazily() -> None:
    loaded = loaded_by("import core; core.__all__")
    assert {name for name in loaded if name.startswith("core.")} == set()
    assert packages(loaded) & HEAVY == set()
    assert "core.store.event_store" in loaded_by("from core import EventStore")


def test_events_import_only_pydantic() -> None:
    loaded = packages(loaded_by("import core.events"))
    assert loaded & HEAVY <= {"pydantic", "asyncio"}


def test_local_runtime_imports_no_store_model_or_screen() -> None:
    loaded = loaded_by("import runtime.local.local_runtime, runtime.client")
    assert packages(loaded) & {"litellm", "textual", "rich", "aiosqlite", "pysqlite3", "docker", "playwright"} == set()
    assert not {name for name in loaded if name.startswith(("core.store", "core.stream", "core.llm", "tui"))}


@pytest.mark.parametrize("command", ["--version", "--help"])
def test_version_and_help_import_nothing_else(command: str) -> None:
    code = f"""
import sys
from tui.__main__ import main
try:
    main(["{command}"])
except SystemExit:
    pass
print("LOADED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.partition("LOADED")[2].split())
    assert "tui.cli.command_line" in loaded
    assert packages(loaded) & HEAVY == set()
