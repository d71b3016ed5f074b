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
from core.secrets import PLACEHOLDER, Masker
from core.secrets.backends import FileBackend
from core.secrets.command_secrets import lent
from core.secrets.secret_injection import SecretInjection
from core.secrets.vault import VALUES, Vault
from tests.actions.pipelines import through

VALUE = "canary-value-1"
Execute = Callable[[Action, int], Awaitable[Observation]]


class Noting:
    """Carries nothing out, and notes what it is lent."""

    def __init__(self, masker: Masker) -> None:
        self.lent: Mapping[str, str] = {}
        self.masks = False
        self._masker = masker

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.lent, self.masks = dict(lent()), PLACEHOLDER in self._masker.mask_text(VALUE)
        if isinstance(action, CmdRunAction):
            return CmdOutputObservation(command=action.command, content="out")
        return IPythonRunCellObservation(code="", content="out")


def made(home: Path) -> tuple[Noting, Execute]:
    vault, masker = Vault(home, FileBackend(home)), Masker()
    vault.put("TOKEN", VALUE)
    inner = Noting(masker)
    secrets = SecretInjection(vault, masker, "/w", "c")
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
async def test_commands_and_cells_get_what_they_name_and_it_is_masked_by_then(
    tmp_path: Path, action: Action, gets: bool
) -> None:
    inner, execute = made(tmp_path)
    observation = await execute(action, 1)
    assert inner.lent == ({"TOKEN": VALUE} if gets else {})
    assert inner.masks is gets
    assert observation.content == "out"
    assert lent() == {}


async def test_where_they_cannot_be_had_the_action_goes_without_and_says_so(tmp_path: Path) -> None:
    inner, execute = made(tmp_path)
    (tmp_path / VALUES).write_text("broken", "utf-8")
    ran = await execute(CmdRunAction(command="echo $TOKEN"), 1)
    assert isinstance(ran, CmdOutputObservation)
    assert ran.content == "out"
    assert ran.metadata.suffix.startswith("\n[Its secrets could not be had: ")
    cell = await execute(IPythonRunCellAction(code='os.environ["TOKEN"]'), 1)
    assert cell.content.startswith("out\n[Its secrets could not be had: ")
    assert inner.lent == {}


async def test_what_no_command_can_be_lent_is_not_lent_and_its_value_is_not_told(tmp_path: Path) -> None:
    inner, execute = made(tmp_path)
    for name in ("LONG", "OTHER"):
        Vault(tmp_path, FileBackend(tmp_path)).put(name, "x" * 40_000)
    ran = await execute(CmdRunAction(command="echo $LONG $OTHER"), 1)
    assert isinstance(ran, CmdOutputObservation)
    assert "60000 bytes" in ran.metadata.suffix
    assert "xxxx" not in ran.metadata.suffix
    assert inner.lent == {}
