"""The canary sweep: Handloom is used in every way with a secret in every place, and then everything is searched.

What is searched: each byte below the home, the user's folder, the workspace and the folder of temporary files, rows of
the database unpacked; what commands printed; what a model's provider was sent. What may have a secret: the vault's
file, the files that the user put it in, and the header for the provider.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from core.secrets.vault import VALUES, Vault
from core.store.sqlite import sqlite3
from tests.openai_server import Behaviour, OpenAIServer, answers
from tests.program import Ended, Handloom
from tests.secrets.canaries import ADDRESSES, ENVIRONMENT, FOUND, KEPT, PROVIDER, Search
from tui.cli.command_line import FORMATS

SHORT_FORMATS = ("archive", "asciicast")
ECHO_SERVER = """
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("echo")
@server.tool()
def environment() -> str:
    "All of its variables."
    return repr(dict(os.environ))
server.run("stdio")
"""
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
"""The others are indexes without texts of their own; their pages are in the file itself."""
PRINTS: tuple[str, ...] = (
    'echo "$EVERYWHERE_ONE"; printf %s "$EVERYWHERE_ONE" | base64 -w0; echo; printf %s "x$EVERYWHERE_ONE" | base64 -w0;'
    ' echo; printf %s "xy$EVERYWHERE_ONE" | base64 -w0; echo; printf %s "$EVERYWHERE_ONE" | od -An -tx1 | tr -d " \\n"',
    'for ((i = 0; i < ${#EVERYWHERE_ONE}; i++)); do printf %s "${EVERYWHERE_ONE:i:1}"; sleep 0.01; done',
    'echo "$EVERYWHERE_ODD"; echo "$EVERYWHERE_PEM"; printenv EVERYWHERE_ODD >&2; set -x; : "$FOLDER_ONE"',
    'printf "%s" "$FOLDER_TWO" >&2; python3 -c "import os; raise SystemExit(os.environ[\'FOLDER_TWO\'])"; set +x',
    "env; cat /proc/self/environ /proc/$PPID/environ; set; export -p; history",
    "cat .env token.jwt; git remote -v; cat ../.ssh/id; cat ../remote.key",
    "cat ../home/secrets.json ../home/config.toml; ls -la ../home",
)
CELLS = (
    "import os, json, urllib.parse\nvalue, odd = os.environ['EVERYWHERE_ONE'], os.environ['EVERYWHERE_ODD']\n"
    "print(value, json.dumps(odd), urllib.parse.quote(odd, safe=''))\nvalue",
    "import os\ndef fail(token):\n    raise ValueError(token)\nfail(os.environ['FOLDER_ONE'])",
)


def place(folder: Path, base_url: str) -> Handloom:
    """A user with a secret in every place."""
    addresses = {name: f"https://user:{value}@host.example/x" for name, value in ADDRESSES.items()}
    (folder / "tmp").mkdir(parents=True)
    handloom = Handloom(
        folder,
        **{**ENVIRONMENT, **addresses, "OPENAI_BASE_URL": base_url, "TMPDIR": str(folder / "tmp")},
        HANDLOOM__SANDBOX__ISOLATION="none",
        HANDLOOM__SECURITY__TAINT="false",
    )
    files = {
        handloom.workspace / ".env": f"TOKEN={FOUND['.env']}\n",
        handloom.workspace / "token.jwt": FOUND["jwt"] + "\n",
        handloom.workspace / ".git" / "config": (
            "[core]\n\trepositoryformatversion = 0\n"
            f'[remote "origin"]\n\turl = https://x-access-token:{FOUND["remote"]}@host.example/x.git\n'
        ),
        handloom.workspace / ".git" / "HEAD": "ref: refs/heads/main\n",
        folder / ".ssh" / "id": FOUND["ssh"],
        folder / "remote.key": FOUND["key file"] + "\n",
        folder / "echo.py": ECHO_SERVER,
        handloom.home / "config.toml": (
            f'[remote]\nkey_file = "{folder / "remote.key"}"\n[mcp.servers.echo]\ncommand = "{sys.executable}"\n'
            f'args = ["{folder / "echo.py"}"]\nenv = ["NOTION_TOKEN"]\n'
            '[mcp.servers.web]\nurl = "https://mcp.invalid/x"\nkey_env = "SERVER_KEY"\n'
        ),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("objects", "refs"):
        (handloom.workspace / ".git" / name).mkdir()
    (folder / "remote.key").chmod(0o600)
    vault = Vault(handloom.home)
    for (name, scope), value in KEPT.items():
        vault.put(name, value, scope=f"folder:{handloom.workspace}" if scope == "folder" else scope, description="Try.")
    return handloom


def slots(handloom: Handloom, folder: Path) -> dict[Path, Iterable[str]]:
    """Where secrets belong, by file."""
    kept = [f"kept {name}" for name, _ in KEPT]
    workspace = ["file .env", "file jwt", "file remote"]
    return {
        **dict.fromkeys((handloom.home / "checkpoints").rglob("*"), workspace),  # the workspace as it was
        handloom.home / VALUES: kept,
        handloom.workspace / ".env": ["file .env"],
        handloom.workspace / "token.jwt": ["file jwt"],
        handloom.workspace / ".git" / "config": ["file remote"],
        folder / ".ssh" / "id": ["file ssh"],
        folder / "remote.key": ["file key file"],
    }


def conversation(says: str, prints: Sequence[str]) -> Iterator[Behaviour]:
    """A model that has everything printed, says what it should not, and is done."""
    yield answers(says, [("execute_bash", _arguments(command=prints[0]))])
    for command in prints[1:]:
        yield answers("", [("execute_bash", _arguments(command=command))])
    for code in CELLS:
        yield answers("", [("execute_ipython_cell", _arguments(code=code))])
    yield answers("", [("echo__environment", "{}")])
    yield answers("", [("finish", json.dumps({"message": f"Done: {says}"}))])


def _arguments(**arguments: str) -> str:
    return json.dumps({**arguments, "security_risk": "LOW"})


async def sweep(
    folder: Path, *, is_full: bool = False, seed: int = 0, plant: Callable[[Handloom], None] = lambda handloom: None
) -> Search:
    """Use Handloom with all canaries, and search. `plant` may leave one where it does not belong, before the search.

    A `seed` but 0 has the commands in another order; `is_full` has every format of export, masked, too.
    """
    search, prints = Search(), list(PRINTS)
    if seed:
        random.Random(seed).shuffle(prints)  # an order, no secret
    async with OpenAIServer(ENVIRONMENT[PROVIDER]) as server:
        handloom = await asyncio.to_thread(place, folder, server.base_url)

        async def use(*arguments: str, stdin: str = "") -> Ended:
            ended = await asyncio.to_thread(handloom, *arguments, stdin=stdin, within_s=120)
            search.look(f"output of {arguments[:2]}", (ended.out + ended.err).encode())
            return ended

        said = f"{ENVIRONMENT['GITHUB_TOKEN']} {ENVIRONMENT['SSH_PASSPHRASE']} {ADDRESSES['DATABASE_URL']}"
        server.then(*conversation(said, prints))
        worked = await use("run", f"Use {ENVIRONMENT['AWS_SECRET_ACCESS_KEY']}", "--model", "openai/test", "--json")
        assert worked.status == 0, worked.err[-2000:]
        assert "<secret_hidden>" in worked.out
        id = worked.conversation
        for form in FORMATS if is_full else SHORT_FORMATS:
            out = str(folder / f"export-{form}")
            await use("export", id, "--format", form, "--allow-secrets", "-o", out)
            if is_full:
                await use("export", id, "--format", form, "--mask", "-o", f"{out}-masked")
        await use("show", id)
        await use("list", "--json")
        await use("search", "secret_hidden")
        await use("search", ENVIRONMENT["GITHUB_TOKEN"][:30])
        await use("doctor", "--json")
        await use("secrets", "list")
        for exchange in server.exchanges:
            headers = {name: text for name, text in exchange.headers.items() if name != "Authorization"}
            search.look("request to the provider", json.dumps([exchange.body, headers]).encode())
            search.look("text to the provider", json.dumps(exchange.body, ensure_ascii=False).encode())
    plant(handloom)
    await asyncio.to_thread(_search, search, handloom, folder)
    return search


def _search(search: Search, handloom: Handloom, folder: Path) -> None:
    search.look_in(folder, slots(handloom, folder))
    for path in handloom.home.glob("*.db"):
        for where, data in _rows(path):
            search.look(f"{path.name}: {where}", data)
    shared = Path("/dev/shm")
    for path in shared.glob("handloom-lent-*") if shared.exists() else ():
        search.hits.add((str(path), "a pipe that is left", ""))


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute(TABLES)]
        for name in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):  # names of our own database
                for value in row:
                    if isinstance(value, str | bytes):
                        yield name, value.encode() if isinstance(value, str) else value
