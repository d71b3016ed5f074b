"""Valid server settings, and invalid ones that are refused by name before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError
from core.mcp.server_definitions import of_user
from core.settings.config import load
from core.settings.editable_settings import EditableSettings
from core.settings.sections import MCPSettings

WHOLE = """
[mcp]
project_servers = "never"
[mcp.servers.time]
command = "uvx"
args = ["mcp-server-time==1.0", "--utc"]
env = ["TZ_NAME"]
allowed_hosts = ["time.example"]
[mcp.servers.far]
url = "https://example.org/mcp"
key_env = "FAR_KEY"
[mcp.servers.old]
url = "http://127.0.0.1:8000/sse"
transport = "sse"
key_env = "OLD_KEY"
key_header = "X-Api-Key"
[mcp.servers.here]
command = "anything"
sandbox = false
[mcp.servers.off]
command = "anything"
enabled = false
"""


def test_servers_of_the_user_are_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(WHOLE)
    settings = load(tmp_path, {}).mcp
    assert settings.project_servers == "never"
    time, far, old, here = of_user(settings, "/work", {})
    assert (time.key, time.command, time.transport) == ("time@/work", ("uvx", "mcp-server-time==1.0", "--utc"), "stdio")
    assert (time.allowed_hosts, time.approval_key) == (("time.example",), "time")
    assert (here.key, here.workspace, far.key) == ("here", "", "far")
    assert time.environ == {"TZ_NAME": "${TZ_NAME}"}
    assert time.order({"TZ_NAME": "Asia/Tokyo", "SECRET_KEY": "x"})["environ"] == {"TZ_NAME": "Asia/Tokyo"}
    assert far.order({"FAR_KEY": "k"})["headers"] == {"Authorization": "Bearer k"}
    assert (far.transport, old.transport) == ("http", "sse")
    assert old.order({"OLD_KEY": "k"})["headers"] == {"X-Api-Key": "k"}


def test_a_key_adds_the_search_server(tmp_path: Path) -> None:
    environ = {"SEARCH_API_KEY": "tvly-0123456789"}
    (search,) = of_user(MCPSettings(), "/work", environ)
    assert (search.key, search.command) == ("tavily@/work", ("npx", "-y", "tavily-mcp@0.2.1"))
    assert search.order(environ)["environ"] == {"TAVILY_API_KEY": "tvly-0123456789"}
    assert not search.floats
    assert of_user(MCPSettings(), "/work", {"SEARCH_API_KEY": "of another service"}) == []
    assert of_user(MCPSettings(search_key_env=""), "/work", environ) == []
    own = MCPSettings.model_validate({"servers": {"tavily": {"command": "mine"}}})
    assert [one.command for one in of_user(own, "/work", environ)] == [("mine",)]


@pytest.mark.parametrize(
    ("name", "server", "why"),
    [
        ("a", {}, "either a command or a url"),
        ("a", {"command": "x", "url": "https://y"}, "either a command or a url"),
        ("a", {"command": "x", "transport": "sse"}, "stdio needs a command"),
        ("a", {"url": "https://y", "transport": "stdio"}, "stdio needs a command"),
        ("a", {"url": "http://example.org"}, "http is only allowed for this machine"),
        ("a", {"url": "https://me:pw@example.org"}, "key_env"),
        ("a", {"command": "x", "key": "sk-12345678"}, "Extra inputs"),
        ("a", {"command": "x", "patience_s": 0}, "greater than 0"),
        ("a__b", {"command": "x"}, "pattern"),
        ("../a", {"command": "x"}, "pattern"),
        ("a" * 33, {"command": "x"}, "at most 32"),
    ],
)
def test_invalid_server_is_refused(name: str, server: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        MCPSettings.model_validate({"servers": {name: server}})


def test_error_names_file_and_field(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[mcp.servers.a]\ncommand = "x"\nargs = 5\n')
    with pytest.raises(ConfigurationError, match=r"mcp\.servers\.a\.args"):
        load(tmp_path, {})


def test_settings_screen_does_not_edit_server_tables(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(WHOLE)
    book = EditableSettings(tmp_path, {}, {})
    _, listed = book.change("mcp.project_servers", "ask")
    assert [setting.name for setting in listed if setting.name.startswith("mcp")] == [
        "mcp.project_servers",
        "mcp.search_key_env",
    ]
    assert len(load(tmp_path, {}).mcp.servers) == 5
