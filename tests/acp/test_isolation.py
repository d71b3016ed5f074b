"""An editor's agent has the same isolation as any other, and nothing that the editor sends weakens it."""

from __future__ import annotations

from pathlib import Path

import pytest
from acp.exceptions import RequestError

from tests.acp.editor import editing, text_of
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom
from tests.runtime.isolation.confined import own

pytestmark = [pytest.mark.bubblewrap]

KEY = "sk-canary-0123456789abcdef"


async def test_agent_of_an_editor_is_isolated(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path, OPENAI_API_KEY=KEY)
    secret, outside = tmp_path / "secret", tmp_path / "outside"
    secret.write_text("canary")
    outside.mkdir()
    own(handloom.workspace)
    tries = f"cat {secret}; touch {outside}/made; env; echo inside > made; echo tried"
    turns = [{"text": "", "tool_calls": [bash(tries)]}, FINISH]
    async with editing(handloom, write_script(tmp_path, turns)) as editor:
        opened = await editor.connection.new_session(
            cwd=str(handloom.workspace), mcp_servers=[], additional_directories=[str(outside)]
        )
        assert await editor.prompt(opened.session_id, "go") == "end_turn"
        (told,) = (text_of(call) for call in editor.calls().values())
        said = editor.said()
    assert "No sandbox" not in said
    assert "Additional folders are not opened" in said
    assert "tried" in told
    assert "canary" not in told, "neither the file outside nor the key"
    assert list(outside.iterdir()) == []
    assert (handloom.workspace / "made").read_text("utf-8") == "inside\n"


async def test_required_isolation_that_fails_is_reported_to_the_editor(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environ = {"HANDLOOM__SANDBOX__ISOLATION": "bubblewrap", "PATH": str(tmp_path / "bin")}
    handloom = Handloom(tmp_path, **environ)
    turns = [{"text": "", "tool_calls": [bash("touch made")]}, FINISH]
    async with editing(handloom, write_script(tmp_path, turns)) as editor:
        with pytest.raises(RequestError, match="Isolation is not possible"):
            await editor.prompt(await editor.open(handloom), "go")
    assert not (handloom.workspace / "made").exists()
