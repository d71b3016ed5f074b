"""Tasks of Cline and of Roo Code in an editor: a folder for each task, with two JSON files.

    tasks/<id>/ui_messages.json                 what the user saw: prompts, answers, tools, diffs, costs, times
    tasks/<id>/api_conversation_history.json    what the model got: the results of tools in full
    tasks/<id>/history_item.json, state/taskHistory.json, tasks/_index.json     what a list shows

The transcript follows the first file. The second one gives the folder, the results that the first leaves out, and the
whole transcript if the first is missing. A message with `partial` was never finished; the same one follows whole. Seen:
the command line of Cline 2.18.0, which writes the same files to `~/.cline/data`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import editor_messages, files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import (
    Transcript,
    as_time,
    first_line,
    text_of,
)
from core.import_export.bounded_json import Fault

JsonObject = dict[str, Any]

_UI, _API = "ui_messages.json", "api_conversation_history.json"
_EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf", "Code - OSS")
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server", ".vscodium-server")
_CWD = re.compile(r"# Current (?:Working|Workspace) Directory \(([^()\n]{1,4096})\)")


def storage_folders(places: Places) -> Iterator[Path]:
    """The folders in which editors keep the storage of their extensions."""
    config = places.home / "Library/Application Support" if places.platform == "darwin" else places.config
    for editor in _EDITORS:
        yield config / editor / "User" / "globalStorage"
    for server in _SERVERS:
        yield places.home / server / "data" / "User" / "globalStorage"


def discover(agent: str, roots: tuple[Path, ...]) -> Iterator[AgentSession]:
    """The tasks in folders that have a folder `tasks`."""
    for root in roots:
        found: dict[Path, list[files.FoundFile]] = {}
        for file in files.walk(root / "tasks", (_UI, _API), depth=2):
            if file.path.parent != root / "tasks":
                found.setdefault(file.path.parent, []).append(file)
        history = _history(root) if found else {}
        for folder, parts in found.items():
            with suppress(OSError, Fault):
                yield _session(agent, root, folder, parts, history)


def read(session: AgentSession) -> Transcript:
    """The whole task. Raises OSError and Fault."""
    ui, api = _list(session, _UI), _list(session, _API)
    if not ui and not api:
        if not session.path.is_dir():
            raise FileNotFoundError(f"There is no task in {session.path}")
        raise Fault("it has no messages")
    transcript = Transcript(session.agent, session.title, session.folder, session.model)
    transcript.at(session.started_at.isoformat() if session.started_at else session.changed_ns / 1e9)
    if ui:
        editor_messages.UiReader(transcript, api).read(ui)
    else:
        transcript.warnings.append(f"{_UI} is missing; the messages of the model are shown instead.")
        editor_messages.read_api(transcript, api)
    return transcript


# -- the list ----------------------------------------------------------------------------------------------------------


def _session(
    agent: str, root: Path, folder: Path, parts: list[files.FoundFile], history: Mapping[str, JsonObject]
) -> AgentSession:
    found = AgentSession(agent=agent, id=folder.name, root=root, path=folder)
    item = _value(found, "history_item.json", files.EDGE_BYTES) or history.get(folder.name, {})
    changed = max(part.changed_ns for part in parts)
    title = files.text(item, "task")
    cwd = files.text(item, "workspace") or files.text(item, "cwdOnTaskInitialization")
    if not title or not cwd:
        ui = _value(found, _UI, 8 * 1024)
        title = title or (files.text(ui[0], "text") if isinstance(ui, list) and ui else "")
        api = _value(found, _API, 16 * 1024)
        text = text_of(files.inner(api[0]).get("content")) if isinstance(api, list) and api else ""
        title = title or editor_messages.said(text)
        cwd = cwd or (match[1] if (match := _CWD.search(text)) else "")
    return AgentSession(
        agent=agent,
        id=folder.name,
        root=root,
        path=folder,
        title=first_line(title),
        folder=cwd,
        model=files.text(item, "modelId"),
        started_at=as_time(int(folder.name)) if folder.name.isascii() and folder.name.isdigit() else None,
        updated_at=as_time(changed / 1e9),
        size=sum(part.size for part in parts),
        changed_ns=changed,
        parent_id=files.text(item, "parentTaskId"),
        tokens=files.number(item, "tokensIn") + files.number(item, "tokensOut"),
        cost=files.dollars(item, "totalCost"),
    )


def _history(root: Path) -> dict[str, JsonObject]:
    """What the extension's own list says of each task."""
    found: dict[str, JsonObject] = {}
    for name in ("state/taskHistory.json", "tasks/_index.json"):
        with suppress(OSError, Fault), files.open_below(root, root / name) as file:
            value = files.read_json(file)
            entries = value if isinstance(value, list) else files.items(value, "entries")
            found.update({files.text(item, "id"): item for item in entries if isinstance(item, dict)})
    return found


def _value(session: AgentSession, name: str, size: int = 0) -> Any:
    with suppress(OSError, Fault), files.open_below(session.root, session.path / name) as file:
        return files.beginning(file, size) if size else files.read_json(file)
    return None


def _list(session: AgentSession, name: str) -> list[Any]:
    value = _value(session, name)
    return value if isinstance(value, list) else []
