"""OpenHands' published client, unchanged, against the action server. Runs where `openhands-ai` is installed.

Arguments: the server's address, the file with its key, a folder to work in, the file for the outcome: one JSON object a
line with `what` was asked, what was `said`, whether it `fits`, and the `seconds` that it took.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from zipfile import ZipFile

from openhands.core.config import OpenHandsConfig
from openhands.core.config.mcp_config import MCPStdioServerConfig
from openhands.events import EventStream
from openhands.events.action import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from openhands.events.action.action import Action
from openhands.events.event import FileReadSource
from openhands.events.observation import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    Observation,
)
from openhands.events.observation.mcp import MCPObservation
from openhands.llm.llm_registry import LLMRegistry
from openhands.mcp.utils import create_mcp_clients
from openhands.runtime.impl.action_execution.action_execution_client import ActionExecutionClient
from openhands.runtime.utils.request import RequestHTTPError
from openhands.storage.memory import InMemoryFileStore

SERVER = str(Path(__file__).parents[1] / "mcp" / "faulty.py")
"""A small MCP server of ours, which needs nothing but Python."""
Rows = Generator[tuple[str, str, bool], None, None]
"""The request, the response, and whether it fits."""


class Peer(ActionExecutionClient):  # type: ignore[misc]
    """The client with the server's address, which is all that its launchers add."""

    def __init__(self, url: str, key: str) -> None:
        config = OpenHandsConfig()
        super().__init__(config, EventStream("peer", InMemoryFileStore()), LLMRegistry(config), sid="peer")
        self._url = url
        self.session.headers["X-Session-API-Key"] = key

    @property
    def action_execution_server_url(self) -> str:
        return self._url

    async def connect(self) -> None:
        await asyncio.to_thread(self.check_if_alive)

    @property
    def session_api_key(self) -> str:
        return str(self.session.headers["X-Session-API-Key"])

    def do(self, action: Action) -> Observation:
        """Through the method that the event stream would call."""
        return self.run_action(action)


def said(observation: Observation) -> str:
    """The observation as the agent reads it."""
    return str(observation.content)


def commands(peer: Peer) -> Rows:
    """The shell: exit codes, state, time-outs and keys."""
    ended = peer.do(CmdRunAction("echo hi; exit_code() { return 3; }; exit_code"))
    fits = isinstance(ended, CmdOutputObservation) and (ended.content, ended.exit_code) == ("hi", 3)
    yield "run: output and exit code", f"{said(ended)!r}, exit {ended.exit_code}", fits
    peer.do(CmdRunAction("cd / && export PEER=kept"))
    kept = peer.do(CmdRunAction('echo "$PWD $PEER"'))
    yield (
        "run: folder and variables stay",
        repr(said(kept)),
        said(kept) == "/ kept" and kept.metadata.working_dir == "/",
    )
    slow = CmdRunAction("echo begun; sleep 100")
    slow.set_hard_timeout(1.0)
    late = peer.do(slow)
    hint = late.metadata.suffix
    fits = late.exit_code == -1 and said(late) == "begun" and "[The command timed out after 1 seconds. You may " in hint
    yield "run: hard time-out", f"{said(late)!r} + {hint[1:60]!r}…", fits
    refused = peer.do(CmdRunAction("echo second"))
    yield "run: another meanwhile", repr(refused.metadata.suffix[1:60]), "is NOT executed" in refused.metadata.suffix
    stopped = peer.do(CmdRunAction("C-c", is_input=True))
    fits = stopped.exit_code == 130 and "CTRL+C was sent." in stopped.metadata.suffix
    yield "run: C-c", repr(stopped.metadata.suffix[1:]), fits
    peer.do(_asking("read line; echo got $line"))
    got = peer.do(CmdRunAction("text", is_input=True))
    yield "run: is_input", repr(said(got)), said(got).endswith("got text") and got.exit_code == 0
    lines = peer.do(CmdRunAction("printf 'ünï 汉字 🦆\\n'; false"))
    yield "run: unicode", repr(said(lines)), (said(lines), lines.exit_code) == ("ünï 汉字 🦆", 1)
    hidden = peer.do(CmdRunAction("echo hidden", hidden=True))
    yield "run: hidden", repr(said(hidden)), said(hidden) == "hidden" and hidden.hidden


def _asking(command: str) -> CmdRunAction:
    action = CmdRunAction(command)
    action.set_hard_timeout(1.0)
    return action


def files(peer: Peer, folder: Path) -> Rows:
    """Reading, writing and the editor's commands."""
    path = str(folder / "notes.txt")
    wrote = peer.do(FileWriteAction(path, "one\ntwo"))
    fits = isinstance(wrote, FileWriteObservation) and Path(path).read_text() == "one\ntwo\n"
    yield "write", f"{type(wrote).__name__} {wrote.path}", fits
    read = peer.do(FileReadAction(path))
    yield "read", repr(said(read)), isinstance(read, FileReadObservation) and said(read) == "one\ntwo\n"
    missing = peer.do(FileReadAction("/no/such"))
    fits = isinstance(missing, ErrorObservation) and said(missing).startswith("File not found: /no/such.")
    yield "read: missing", repr(said(missing)), fits
    code = str(folder / "code.py")
    steps: list[tuple[str, dict[str, Any], str, str]] = [
        ("create", {"file_text": "a = 1\nb = 2\n"}, f"File created successfully at: {code}", "a = 1\nb = 2\n"),
        (
            "str_replace",
            {"old_str": "a = 1", "new_str": "a = 7"},
            f"The file {code} has been edited.",
            "a = 7\nb = 2\n",
        ),
        (
            "insert",
            {"insert_line": 2, "new_str": "c = 3"},
            f"The file {code} has been edited.",
            "a = 7\nb = 2\nc = 3\n",
        ),
        ("undo_edit", {}, f"Last edit to {code} undone successfully.", "a = 7\nb = 2\n"),
        ("str_replace", {"old_str": "none", "new_str": "x"}, "ERROR:\nNo replacement was performed", "a = 7\nb = 2\n"),
    ]
    for command, fields, begins, content in steps:
        edited = peer.do(FileEditAction(path=code, command=command, **fields))
        fits = said(edited).startswith(begins) and Path(code).read_text() == content
        if not begins.startswith("ERROR"):
            fits = fits and isinstance(edited, FileEditObservation)
        yield f"edit: {command}", repr(said(edited)[:60]), fits
    viewed = peer.do(FileReadAction(code, impl_source=FileReadSource.OH_ACI))
    fits = said(viewed).startswith(f"Here's the result of running `cat -n` on {code}:\n     1\ta = 7")
    yield "edit: view", repr(said(viewed)[:60]), fits
    part = peer.do(FileReadAction(code, impl_source=FileReadSource.OH_ACI, view_range=[2, 2]))
    yield "edit: view of lines", repr(said(part)[-12:]), "\n     2\tb = 2" in said(part) and "a = 7" not in said(part)


def transfers(peer: Peer, folder: Path) -> Rows:
    """Listing, sending and fetching."""
    outside, inside = folder / "outside", folder / "inside"
    (outside / "tree/deep").mkdir(parents=True)
    (outside / "tree/deep/x.bin").write_bytes(bytes(range(256)) * 1000)
    (outside / "tree/Änderung.txt").write_text("umlaut")
    (outside / "single.txt").write_text("new")
    inside.mkdir()
    (inside / "single.txt").write_text("old")
    peer.copy_to(str(outside / "single.txt"), str(inside))
    yield "copy_to: a file, replaced", "", (inside / "single.txt").read_text() == "new"
    peer.copy_to(str(outside / "tree"), str(inside / "made"), recursive=True)
    arrived = inside / "made/tree"
    fits = (arrived / "deep/x.bin").read_bytes() == (outside / "tree/deep/x.bin").read_bytes()
    yield "copy_to: recursive", "", fits and (arrived / "Änderung.txt").read_text() == "umlaut"
    listed = peer.list_files(str(inside))
    yield "list_files", repr(listed), listed == ["made/", "single.txt"]
    here = peer.list_files()
    yield "list_files: the working folder", repr(here), {"inside/", "outside/", "notes.txt"} <= set(here)
    yield "list_files: missing", repr(peer.list_files("/no/such")), peer.list_files("/no/such") == []
    fetched = peer.copy_from(str(inside))
    with ZipFile(fetched) as packed:
        names = sorted(name for name in packed.namelist() if not name.endswith("/"))
        fits = packed.read("made/tree/deep/x.bin") == (outside / "tree/deep/x.bin").read_bytes()
    fetched.unlink()
    yield "copy_from", repr(names), fits and names == ["made/tree/deep/x.bin", "made/tree/Änderung.txt", "single.txt"]
    try:
        peer.copy_to(str(outside / "single.txt"), "relative")
    except RequestHTTPError as error:
        yield "copy_to: relative", repr(error.detail), "must be an absolute path" in str(error.detail)
    else:
        yield "copy_to: relative", "taken", False


def tools(peer: Peer, folder: Path) -> Rows:
    """The client's functions built on commands and files: environment variables and Git changes."""
    peer.add_env_vars({"peer_name": 'with "quotes"'})
    told = peer.do(CmdRunAction('echo "$PEER_NAME"'))
    yield "add_env_vars", repr(said(told)), said(told) == 'with "quotes"'
    repository = folder / "repository"
    origin, name = folder / "origin", "-c user.name=peer -c user.email=peer@localhost"
    peer.do(CmdRunAction(f"git init -qb trunk {origin} && cd {origin} && echo one > file && git add file"))
    peer.do(CmdRunAction(f"git {name} commit -qm one && git clone -q {origin} {repository}; cd /"))
    (repository / "file").write_text("two\n")
    (repository / "new").write_text("new\n")
    changes = peer.get_git_changes(str(repository))
    expected = [{"status": "A", "path": "new"}, {"status": "M", "path": "file"}]
    yield "get_git_changes", repr(changes), sorted(changes or [], key=lambda change: change["status"]) == expected
    diff = peer.get_git_diff("file", str(repository))
    yield "get_git_diff", repr(diff), (diff["original"].strip(), diff["modified"].strip()) == ("one", "two")
    branch = peer.git_handler.get_current_branch()
    yield "get_current_branch", repr(branch), branch == "trunk"


PAGE = b"""<!doctype html><title>Peer</title>
<h1>Peer's page</h1><a href="/next">a link</a> <input id="name" aria-label="Name">
<button onclick="document.querySelector('h1').textContent = 'Hello ' + document.all.name.value">Greet</button>
"""


class Site(BaseHTTPRequestHandler):
    """One page for every request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """The address of the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def pages(peer: Peer) -> Rows:
    """The browser: a page as text, as a tree, acted on, and what goes wrong."""
    with served() as address:
        seen = peer.do(BrowseURLAction(address))
        fits = isinstance(seen, BrowserOutputObservation) and not seen.error and seen.url == address
        fits = fits and said(seen).startswith(f"[Current URL: {address}]\n============== BEGIN webpage content ====")
        yield "browse", repr(said(seen)[:60]), fits and "# Peer's page\n\n[a link](/next)" in said(seen)
        yield "browse: a picture", seen.screenshot[:30], seen.screenshot.startswith("data:image/png;base64,")
        tree = peer.do(BrowseInteractiveAction("noop(10)", return_axtree=True))
        fits = f"[Current URL: {address}]\n[Focused element bid: " in said(tree) and "Accessibility tree of" in said(
            tree
        )
        fits = fits and bool(tree.axtree_object["nodes"]) and tree.trigger_by_action == "browse_interactive"
        yield "browse_interactive: the tree", f"{len(tree.axtree_object.get('nodes', []))} nodes", fits
        bids = {name: bid for bid, name in re.findall(r"\[(\w+)\] \w+ '([^']*)'", said(tree))}
        acted = peer.do(BrowseInteractiveAction(f'fill("{bids["Name"]}", "Peer")\nclick("{bids["Greet"]}")'))
        fits = "[Action executed successfully.]" in said(acted) and "heading 'Hello Peer'" in said(acted)
        yield "browse_interactive: fill, click", acted.last_browser_action, fits and acted.axtree_object == {}
        missed = peer.do(BrowseInteractiveAction("click('404')"))
        fits = missed.error and missed.last_browser_action_error == 'ValueError: Could not find element with bid "404"'
        yield "browse_interactive: no such bid", missed.last_browser_action_error, fits
        unknown = peer.do(BrowseInteractiveAction("fly('7')"))
        fits = unknown.last_browser_action_error == "NameError: Invalid action type 'fly'."
        yield "browse_interactive: no such action", unknown.last_browser_action_error, fits
        fits = missed.open_pages_urls == [address] and missed.active_page_index == 0
        yield "browse_interactive: open pages", repr(missed.open_pages_urls), fits
    gone = peer.do(BrowseURLAction(address))
    yield (
        "browse: nothing there",
        gone.last_browser_action_error[:60],
        gone.error and "BEGIN error message" in said(gone),
    )


PICTURE = """from IPython.display import Image, display
import base64
picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
display(Image(data=base64.b64decode(picture), format="png"))"""


def cells(peer: Peer, folder: Path) -> Rows:
    """The kernel: output, state, errors, pictures, and the shell's folder."""
    peer.do(CmdRunAction(f"cd {folder}"))
    ran = peer.do(IPythonRunCellAction("x = 20\nprint(x + 1)"))
    fits = isinstance(ran, IPythonRunCellObservation) and said(ran).startswith(
        f"21\n[Jupyter current working directory: {folder}]\n[Jupyter Python interpreter: /"
    )
    yield "run_ipython", repr(said(ran)), fits
    bare = peer.do(IPythonRunCellAction("x * 2", include_extra=False))
    yield "run_ipython: names stay", repr(said(bare)), said(bare) == "40"
    silent = peer.do(IPythonRunCellAction("y = x", include_extra=False))
    yield "run_ipython: no output", repr(said(silent)), said(silent) == "[Code executed successfully with no output]"
    failed = peer.do(IPythonRunCellAction("1 / 0", include_extra=False))
    yield "run_ipython: an error", repr(said(failed)[-40:]), "ZeroDivisionError: division by zero" in said(failed)
    where = peer.do(IPythonRunCellAction("import os; print(os.getcwd())", include_extra=False))
    yield "run_ipython: the shell's folder", repr(said(where)), said(where) == str(folder)
    drawn = peer.do(IPythonRunCellAction(PICTURE, include_extra=False))
    images = drawn.image_urls or []
    yield "run_ipython: a picture", f"{len(images)}", [url[:22] for url in images] == ["data:image/png;base64,"]


def servers(peer: Peer) -> Rows:
    """An MCP server that the client has run in the sandbox, through the client's own connection to it."""
    stdio = MCPStdioServerConfig(name="peer", command=sys.executable, args=[SERVER, "fine"])
    config = peer.get_mcp_config([stdio])
    addresses = [server.url for server in config.sse_servers]
    yield "get_mcp_config", repr(addresses), [address.rpartition(":")[2][5:] for address in addresses] == ["/mcp/sse"]

    async def called() -> tuple[list[str], Observation]:
        clients = await create_mcp_clients(config.sse_servers, config.shttp_servers, "peer")
        return [tool.name for client in clients for tool in client.tools], await peer.call_tool_mcp(MCPAction("echo"))

    tools, answer = asyncio.run(called())
    yield "MCP: list tools", repr(tools), tools == ["echo"]
    yield "MCP: call a tool", repr(said(answer)), isinstance(answer, MCPObservation) and "said again" in said(answer)


def others(peer: Peer, url: str) -> Rows:
    """The client's requests other than actions and files."""
    peer.check_if_alive()
    yield "check_if_alive", "alive", True
    yield from servers(peer)
    token = peer.session.get(f"{url}/vscode/connection_token").json()
    yield "vscode token", repr(token), token == {"token": None}
    info = peer.session.get(f"{url}/server_info").json()
    yield "server_info", ", ".join(info), {"uptime", "idle_time", "resources"} <= set(info)
    stranger = Peer(url, "wrong")
    try:
        stranger.check_if_alive()
    except RequestHTTPError as error:
        yield "a wrong key", repr(error.detail), error.response.status_code == 401
    else:
        yield "a wrong key", "let in", False


def rows(peer: Peer, url: str, folder: Path) -> Rows:
    """Everything, in order; what raises is a row that does not fit, and the next part goes on."""
    parts = (
        *(commands(peer), files(peer, folder), transfers(peer, folder), tools(peer, folder)),
        *(cells(peer, folder), pages(peer), others(peer, url)),
    )
    for part in parts:
        try:
            yield from part
        except Exception as error:  # noqa: BLE001  # boundary: any exception of the client is an answer that does not fit
            yield "and the rest of its part", f"{type(error).__name__}: {error}", False


def main(arguments: list[str]) -> None:
    url, key, folder, outcome = arguments
    peer = Peer(url, Path(key).read_text())
    asyncio.run(peer.connect())
    with open(outcome, "w") as file:
        begun = time.monotonic()
        for what, told, fits in rows(peer, url, Path(folder)):
            row: dict[str, Any] = {"what": what, "said": told, "fits": fits, "seconds": time.monotonic() - begun}
            begun = time.monotonic()
            file.write(json.dumps(row) + "\n")
            file.flush()
    peer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
