"""Things that are added in one place are complete, or a test here says what is missing."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import ClassVar, get_origin, get_type_hints

from pydantic import BaseModel

from core.agent.tools import CODEACT_TOOLS
from core.events import Action
from core.llm.settings import LLMSettings, NamedModel
from core.settings.config import (
    AgentSettings,
    ConversationSettings,
    DaySettings,
    DockerSettings,
    RemoteSettings,
    SandboxSettings,
    SecretSettings,
    Settings,
)
from core.settings.screen_settings import ScreenSettings
from core.settings.sections import (
    CondenserSettings,
    LibrarySettings,
    MCPServerSettings,
    MCPSettings,
    MemorySettings,
    SecuritySettings,
    TrustSettings,
)
from runtime.server.action_executor import ActionExecutor, Table, TaskList
from runtime.server.bash_session import BashSession
from runtime.server.file_actions import Files
from tests.program import ROOT
from tests.runtime.conftest import every_plugin

WITHOUT_A_HANDLER = {"call_tool_mcp"}
"""Runnable actions that no sandbox carries out: a conversation's toolbox of MCP servers does."""


def tables(folder: Path) -> list[Table]:
    """The rows of a server with every plugin, as `runtime.server.main` puts them together."""
    bash = BashSession(str(folder))
    rows: list[Table] = [bash.table, Files(lambda: str(folder), 0o022).table, TaskList(None).table]
    return [*rows, *every_plugin(folder).tables]


async def test_every_runnable_action_has_exactly_one_handler(tmp_path: Path) -> None:
    handled = set(ActionExecutor(tables(tmp_path))._handlers)  # raises where two claim one
    runnable = {action for action in Action.kinds.values() if action.runnable}
    assert handled <= runnable, "a handler for what no runtime ever gets"
    assert {action.kind for action in runnable - handled} == WITHOUT_A_HANDLER


def test_every_tool_of_the_agent_has_a_name_and_a_description() -> None:
    schemas = [tool.schema()["function"] for tool in CODEACT_TOOLS]
    names = [schema["name"] for schema in schemas]
    assert len(set(names)) == len(names)
    for schema in schemas:
        assert schema["description"], schema["name"]
        for name, parameter in schema["parameters"]["properties"].items():
            assert parameter.get("description"), f"{schema['name']}.{name}"


SECTIONS = (
    *(Settings, AgentSettings, DaySettings, LLMSettings),
    *(ConversationSettings, SandboxSettings, DockerSettings, RemoteSettings, MCPSettings, ScreenSettings),
    *(SecretSettings, SecuritySettings, TrustSettings, CondenserSettings, LibrarySettings, MemorySettings),
)


def test_every_setting_has_a_description() -> None:
    for section in (*SECTIONS, NamedModel, MCPServerSettings):
        own = [cls for cls in section.__mro__ if cls.__module__.startswith("core.")]
        source = "".join(map(inspect.getsource, own))
        for name, kind in get_type_hints(section).items():
            if kind in SECTIONS or get_origin(kind) is ClassVar or name == "model_config":
                continue
            _, _, after = source.partition(f"\n    {name}: ")
            documented = after.partition("\n    ")[2].lstrip().startswith('"""')
            assert documented, f"{section.__name__}.{name} has no docstring"


def test_every_settings_section_is_checked() -> None:
    types = [field.annotation for field in Settings.model_fields.values()]
    sections = {t for t in types if inspect.isclass(t) and (issubclass(t, BaseModel) or is_dataclass(t))}
    assert sections == set(SECTIONS) - {Settings}


def test_every_dialog_is_left_once() -> None:
    """A second Enter, which comes before a dialog is gone, would leave the screen below: `Modal` ignores it."""
    own = [path for path in (ROOT / "tui").rglob("*.py") if "ModalScreen" in path.read_text("utf-8")]
    assert own == [ROOT / "tui" / "dialogs" / "modal.py"]
