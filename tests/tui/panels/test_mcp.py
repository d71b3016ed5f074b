"""The MCP panel: what there is, told as it is, and nothing of it that could be a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.events import EventSource, MCPAction, MCPObservation
from tests.tui.doubles import ManagerDouble, StreamDouble
from tests.tui.frame.running import running, until
from tui.mcp import MAX_BYTES, Server, Tool, ToolsModel, mcp_text, named_in
from tui.screens.dialogs import TextScreen

CONFIG = {
    "mcpServers": {
        "github": {"command": "npx", "args": ["-y", "--token", "CANARY"], "env": {"GITHUB_TOKEN": "CANARY"}},
        "web\x1b[2J": {"url": "https://me:CANARY@example.org/mcp?key=CANARY"},
    }
}


def written(folder: Path, data: object = CONFIG, name: str = ".mcp.json") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(data if isinstance(data, str) else json.dumps(data))
    return folder


def text_of(*args: object) -> str:
    return "".join(text for text, _ in mcp_text(*args))  # type: ignore[arg-type]


def test_servers_are_told_by_name_and_program_and_never_by_what_may_be_secret(tmp_path: Path) -> None:
    servers, problems = named_in(str(written(tmp_path)))
    assert problems == []
    assert servers[0] == Server("github", ".mcp.json", "npx, 3 arguments", ("GITHUB_TOKEN",))
    assert servers[1].runs == "https://example.org/mcp"
    text = text_of(servers, problems, [])
    assert "CANARY" not in text
    assert "\x1b" not in text
    assert text.count("kept, not started") == 2


@pytest.mark.parametrize("data", ["{", "[1, 2]", '{"mcpServers": "x"}', "[" * 100_000, "x" * (MAX_BYTES + 1)])
def test_a_file_that_cannot_be_used_is_told_or_names_nothing(data: str, tmp_path: Path) -> None:
    servers, problems = named_in(str(written(tmp_path, data)))
    assert servers == []
    assert (problems == []) is data.startswith('{"')


def test_other_editors_files_count_as_well(tmp_path: Path) -> None:
    written(tmp_path, {"servers": {"one": {"command": "a"}}}, ".vscode/mcp.json")
    assert [server.file for server in named_in(str(tmp_path))[0]] == [".vscode/mcp.json"]


async def test_calls_answers_and_the_last_error_are_counted_live_and_from_older_pages() -> None:
    stream, model = StreamDouble("c"), ToolsModel()
    call = stream.store(MCPAction(name="fetch", arguments={}))
    failed = MCPObservation(name="fetch", content='{"isError": true, "text": "no"}')
    answer = stream.store(failed, EventSource.ENVIRONMENT, call.id)
    fine = stream.store(MCPObservation(name="fetch", content="{}"), EventSource.ENVIRONMENT, call.id)
    for envelope in (call, answer, fine):
        model.apply(envelope)
    model.prepend([stream.store(MCPAction(name="fetch", arguments={}))])
    assert model.tools == {"fetch": Tool("fetch", 2, 2, '{"isError": true, "text": "no"}')}
    assert "2 calls, 2 answers" in text_of([], [], list(model.tools.values()))


async def test_the_panel_says_what_there_is_and_what_to_do(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.add(workspace=str(written(tmp_path)))
    async with running(manager=manager, workspace=str(tmp_path)) as it:
        await it.session.stream.append(MCPAction(name="fetch_issue", arguments={}))
        await it.press("ctrl+x", "M")
        await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
        await it.settle()
        text = it.screen_text()
        assert "github" in text
        assert "fetch_issue" in text
        assert "does not start MCP servers" in text


async def test_without_any_it_says_where_they_are_looked_for(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path)) as it:
        await it.press("ctrl+x", "M")
        await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
        assert "No server is configured" in it.screen_text()
        assert ".mcp.json" in it.screen_text()
