"""Secret injection: which actions get secrets, and the note when they cannot be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from core.actions.middleware import inject_secrets
from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    FileReadAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    Observation,
)
from core.protocols import FrameSink
from core.secrets import PLACEHOLDER, Redactor
from core.secrets.backends import FileBackend
from core.secrets.command_secrets import SecretInjection, injected
from core.secrets.vault import VALUES, Vault
from tests.actions.pipelines import through

VALUE = "canary-value-1"
Execute = Callable[[Action, int], Awaitable[Observation]]


class Noting:
    """Runs nothing, and records the secrets that it gets."""

    def __init__(self, redactor: Redactor) -> None:
        self.lent: Mapping[str, str] = {}
        self.redacts = False
        self._redactor = redactor

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.lent, self.redacts = dict(injected()), PLACEHOLDER in self._redactor.redact_text(VALUE)
        if isinstance(action, CmdRunAction):
            return CmdOutputObservation(command=action.command, content="out")
        return IPythonRunCellObservation(code="", content="out")


def made(home: Path) -> tuple[Noting, Execute]:
    vault, redactor = Vault(home, FileBackend(home)), Redactor()
    vault.put("TOKEN", VALUE)
    inner = Noting(redactor)
    secrets = SecretInjection(vault, redactor, "/w", "c")
    return inner, through(inject_secrets, inner, secrets=secrets)


@pytest.mark.parametrize(
    ("action", "gets"),
    [
        (CmdRunAction(command="echo $TOKEN"), True),
        (CmdRunAction(command="printenv TOKEN"), True),
        (CmdRunAction(command="python -c 'import os; os.ENVIRON'; echo TOKEN"), False),
        (CmdRunAction(command="echo TOKEN"), False),
        (CmdRunAction(command="$TOKEN", is_input=True), False),
        (IPythonRunCellAction(code='os.environ["TOKEN"]'), True),
        (IPythonRunCellAction(code='print("TOKEN")'), False),
        (FileReadAction(path="$TOKEN"), False),
    ],
    ids=str,
)
async def test_commands_and_cells_get_the_named_secrets(tmp_path: Path, action: Action, gets: bool) -> None:
    inner, execute = made(tmp_path)
    observation = await execute(action, 1)
    assert inner.lent == ({"TOKEN": VALUE} if gets else {})
    assert inner.redacts is gets
    assert observation.content == "out"
    assert injected() == {}


async def test_unreadable_secrets_are_reported(tmp_path: Path) -> None:
    inner, execute = made(tmp_path)
    (tmp_path / VALUES).write_text("broken", "utf-8")
    ran = await execute(CmdRunAction(command="echo $TOKEN"), 1)
    assert isinstance(ran, CmdOutputObservation)
    assert ran.content == "out"
    assert ran.metadata.suffix.startswith("\n[Its secrets could not be read: ")
    cell = await execute(IPythonRunCellAction(code='os.environ["TOKEN"]'), 1)
    assert cell.content.startswith("out\n[Its secrets could not be read: ")
    assert inner.lent == {}


async def test_unusable_secret_is_not_passed_and_not_quoted(tmp_path: Path) -> None:
    inner, execute = made(tmp_path)
    for name in ("LONG", "OTHER"):
        Vault(tmp_path, FileBackend(tmp_path)).put(name, "x" * 40_000)
    ran = await execute(CmdRunAction(command="echo $LONG $OTHER"), 1)
    assert isinstance(ran, CmdOutputObservation)
    assert "60000 bytes" in ran.metadata.suffix
    assert "xxxx" not in ran.metadata.suffix
    assert inner.lent == {}
