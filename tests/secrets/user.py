"""A user with a secret in every place, and the search in everything that is output.

The places are files of the home, of the user's folder and of the workspace, the environment, the vault and the
settings. One model's provider and a cheap one, on this machine, each with a key of its own, get what is asked of them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from core.secrets.backends import FileBackend
from core.secrets.vault import VALUES, Vault
from tests.openai_server import OpenAIServer, answers
from tests.program import Ended, Handloom
from tests.secrets.canaries import ADDRESSES, CONFIGURED, ENVIRONMENT, FOUND, KEPT, MET, PROVIDER, Search

WITHIN_S = 240
"""For one command: others may have the cores."""
CHEAP = "CHEAP_KEY"
ECHO_SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("echo")
print("begun with", dict(os.environ), os.environ["MET_LOG"], file=sys.stderr, flush=True)
@server.tool()
def environment(text: str = "") -> str:
    "All of its variables."
    open(os.environ["TOLD"], "a").write(text + "\\n")
    return repr(dict(os.environ)) + os.environ["MET_ANSWER"]
@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("with " + os.environ.get("NOTION_TOKEN", "") + os.environ.get("PROJECT_KEY", ""))
server.run("stdio")
"""
HOOKS = """
[[hook]]
event = "conversation_start"
command = "cat >> $HOME/told.jsonl; : --token {secret}"
[[hook]]
event = "after_action"
command = "cat >> $HOME/told.jsonl; echo token={secret} >&2; exit 1"
[[hook]]
event = "conversation_end"
command = "cat >> $HOME/told.jsonl"
"""
LOGINS = {
    ".git-credentials": "https://user:{git credentials}@host.example\n",
    ".netrc": "machine host.example\n  login me\n  password {netrc}\n",
    ".config/gh/hosts.yml": "github.com:\n    oauth_token: {gh}\n    user: me\n",
    ".aws/credentials": "[default]\naws_secret_access_key = {aws}\n",
    ".npmrc": "//host.example/:_authToken={npmrc}\n",
    ".pypirc": "[pypi]\n  username = __token__\n  password = {pypirc}\n",
    ".docker/config.json": '{{"auths": {{"host": {{"password": "{docker login}", "auth": "{docker auth}"}}}}}}\n',
    ".kube/config": "users:\n- name: me\n  user:\n    token: {kube}\n",
    ".gnupg/key": "{gnupg}",
    ".ssh/id": "{ssh}",
}
"""What programs keep in the user's folder."""


class User:
    """One user in one folder. A context; entering it starts the providers and puts the secrets into their places."""

    def __init__(self, folder: Path, *, is_full: bool = False, seed: int = 0) -> None:
        self.folder, self.is_full, self.seed = folder, is_full, seed
        self.search = Search()
        self.server = OpenAIServer(ENVIRONMENT[PROVIDER])
        self.cheap = OpenAIServer(ENVIRONMENT[CHEAP], answers(f"About {MET['delegate']}"))
        self.handloom: Handloom
        self.conversation = ""
        """The id of the newest one."""

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.server)
        await self._stack.enter_async_context(self.cheap)
        await asyncio.to_thread(self._place)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def use(self, *arguments: str, stdin: str = "") -> Ended:
        """Run a command to its end, and search its output."""
        ended = await asyncio.to_thread(self.handloom, *arguments, stdin=stdin, within_s=WITHIN_S)
        self.search.look(f"output of {arguments[:2]}", (ended.out + ended.err).encode())
        return ended

    async def run(self, task: str, *more: str) -> Ended:
        """Work on a task with the model whose answers were said before."""
        ended = await self.use("run", task, "--model", "openai/test", "--json", *more)
        assert ended.status == 0, ended.err[-2000:]
        self.conversation = ended.conversation
        return ended

    def look_at_requests(self) -> None:
        """Look through all that the providers were sent, but for the header with their key."""
        for who, server, key in (("provider", self.server, PROVIDER), ("cheap provider", self.cheap, CHEAP)):
            for exchange in server.exchanges:
                headers = dict(exchange.headers)
                assert headers.pop("Authorization") == f"Bearer {ENVIRONMENT[key]}"
                self.search.look(f"request to the {who}", json.dumps([exchange.body, headers]).encode())
                self.search.look(f"text to the {who}", json.dumps(exchange.body, ensure_ascii=False).encode())

    def slots(self) -> dict[Path, Iterable[str]]:
        """Where secrets belong, by file."""
        home, workspace = self.handloom.home, self.handloom.workspace
        copied = ["file .env", "file jwt", "file remote", "configured .mcp.json env", "configured .mcp.json header"]
        logins = [f"file {name}" for name in FOUND]
        return {
            **dict.fromkeys((home / "checkpoints").rglob("*"), copied),  # the workspace as it was
            home / VALUES: [*(f"kept {name}" for name, _ in KEPT), "typed kept on the screen"],
            home / "config.toml": ["configured docker.environment", "configured api_base"],
            home / "hooks.toml": ["configured hook"],
            **dict.fromkeys(workspace.rglob("*"), copied),
            **dict.fromkeys((self.folder / name for name in LOGINS), logins),
            self.folder / "remote.key": ["file key file"],
            self.folder / "echo.py": ["met mcp answer", "met mcp log"],
        }

    def _place(self) -> None:
        folder = self.folder
        addresses = {name: f"https://user:{value}@host.example/x" for name, value in ADDRESSES.items()}
        (folder / "tmp").mkdir(parents=True)
        self.handloom = handloom = Handloom(
            folder,
            **{**ENVIRONMENT, **addresses, "OPENAI_BASE_URL": self.server.base_url, "TMPDIR": str(folder / "tmp")},
            MET_LOG=MET["mcp log"],
            MET_ANSWER=MET["mcp answer"],
            TOLD=str(folder / "told.txt"),
            NO_PROXY="127.0.0.1,localhost",
            HANDLOOM__SANDBOX__ISOLATION="none",
            HANDLOOM__SECURITY__TAINT="false",
            HANDLOOM__AGENT__CONFIRM="never",
            HANDLOOM__TRUST__PROJECTS="always",
        )
        logins = {**FOUND, "docker auth": base64.b64encode(f"me:{FOUND['docker login']}".encode()).decode()}
        files = {folder / name: text.format_map(logins) for name, text in LOGINS.items()}
        files |= {
            handloom.workspace / ".env": f"TOKEN={FOUND['.env']}\n",
            handloom.workspace / "token.jwt": FOUND["jwt"] + "\n",
            handloom.workspace / ".git" / "config": (
                "[core]\n\trepositoryformatversion = 0\n"
                f'[remote "origin"]\n\turl = https://x-access-token:{FOUND["remote"]}@host.example/x.git\n'
            ),
            handloom.workspace / ".git" / "HEAD": "ref: refs/heads/main\n",
            handloom.workspace / ".mcp.json": json.dumps(self._project_servers()),
            folder / "remote.key": FOUND["key file"] + "\n",
            folder / "echo.py": ECHO_SERVER,
            handloom.home / "config.toml": self._settings(),
            handloom.home / "hooks.toml": HOOKS.replace("{secret}", CONFIGURED["hook"]),
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("objects", "refs"):
            (handloom.workspace / ".git" / name).mkdir()
        (folder / "remote.key").chmod(0o600)
        handloom.home.chmod(0o700)
        vault = Vault(handloom.home, FileBackend(handloom.home))
        for (name, scope), value in KEPT.items():
            where = f"folder:{handloom.workspace}" if scope == "folder" else scope
            vault.put(name, value, scope=where, description="Try.")

    def _settings(self) -> str:
        server = json.dumps([str(self.folder / "echo.py")])
        return f"""
[llm]
title_model = "cheap"
summary_model = "cheap"
[models.cheap]
model = "openai/cheap"
api_base = "{self.cheap.base_url}"
key_env = "{CHEAP}"
[models.private]
model = "openai/private"
api_base = "https://user:{CONFIGURED["api_base"]}@host.example/v1"
[agent]
acp_command = "other-agent --quiet"
acp_env = ["OTHER_AGENT_KEY"]
[docker]
environment = ["SHOP_TOKEN={CONFIGURED["docker.environment"]}"]
[remote]
key_file = "{self.folder / "remote.key"}"
[mcp.servers.echo]
command = "{sys.executable}"
args = {server}
env = ["NOTION_TOKEN", "MET_LOG", "MET_ANSWER", "TOLD"]
[mcp.servers.web]
url = "https://mcp.invalid/x"
key_env = "SERVER_KEY"
"""

    def _project_servers(self) -> dict[str, object]:
        environ = {"PROJECT_KEY": "${PROJECT_KEY}", "LITERAL_TOKEN": CONFIGURED[".mcp.json env"]}
        told = {"MET_LOG": "none", "MET_ANSWER": "none", "TOLD": str(self.folder / "told.txt")}
        header = {"Authorization": f"Bearer {CONFIGURED['.mcp.json header']}"}
        return {
            "mcpServers": {
                "ours": {"command": sys.executable, "args": [str(self.folder / "echo.py")], "env": {**environ, **told}},
                "theirs": {"url": "https://theirs.invalid/x", "headers": header},
            }
        }
