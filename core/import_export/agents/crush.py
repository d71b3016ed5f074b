"""Sessions of crush: one database in each project, and a list of all projects in its global folder.

A message has parts; calls are in messages of the assistant, results in messages of their own. The order is linear. A
sub-agent's session is named after the message and the call that started it. A session only says how many tokens its
latest call had, and its cost as a whole, to which crush adds the cost of its sub-agents: here, each has its own.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line
from core.import_export.bounded_json import Fault

JsonObject = dict[str, Any]
NAME = "crush"
_SESSION = (
    "id parent_session_id title message_count prompt_tokens completion_tokens cost summary_message_id created_at"
    " updated_at"
)
_MESSAGE = "id role parts model is_summary_message created_at finished_at"
_IN_ORDER = "WHERE session_id = ? ORDER BY created_at, rowid"
_NO_TITLES = ("", "New Session", "Untitled Session")
_MAX_PROJECTS_BYTES = 4 * 1024 * 1024
_FOLDER_TAIL = re.compile(r"\n\n<cwd>[^\n]*</cwd>\Z")
_EXITED = re.compile(r"(?:\A|\n)Exit code (-?\d{1,9})\Z")
_CHILD = "$$"
"""Between the ids of a message and of a call, in the id of the sub-agent's session."""
_ABORTED = "Command was aborted before completion"


def discover(places: Places) -> Iterator[AgentSession]:
    """The sessions of every project that crush or Handloom knows."""
    seen: set[str] = set()
    for folder, data in _projects(places):
        with suppress(OSError, Fault, ValueError):
            for session in _sessions(folder, data):
                if session.id not in seen:
                    seen.add(session.id)
                    yield session


def read(session: AgentSession) -> Transcript:
    """All messages of a session, also those that were summed up."""
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    with files.database(session.root, session.path) as connection:
        about = next(files.rows(connection, "sessions", _SESSION, "WHERE id = ?", (session.row,)), None)
        if about is None:
            raise FileNotFoundError(errno.ENOENT, "the session was removed from its database", str(session.path))
        messages = list(files.rows(connection, "messages", _MESSAGE, _IN_ORDER, (session.row,)))
        cost = _own_cost(about, _costs_of_children(connection))
    answers = [message for message in messages if message.get("role") == "assistant"]
    for message in messages:
        id, role = files.text(message, "id"), files.text(message, "role")
        transcript.at(message.get("created_at"), id, role)
        if answers and message is answers[-1]:
            prompt, completion = files.number(about, "prompt_tokens"), files.number(about, "completion_tokens")
            model = files.text(message, "model")
            transcript.spent(Usage(model, prompt, completion, cost=cost))
        parts = files.cell(message, "parts")
        if not isinstance(parts, list):
            transcript.unknown("message", {**message, "parts": str(message.get("parts"))})
        elif message.get("is_summary_message") == 1 or (id and id == about.get("summary_message_id")):
            transcript.compacted("\n".join(files.text(data, "text") for kind, data in _each(parts) if kind == "text"))
        elif role == "user":
            _user(transcript, parts)
        elif role in ("assistant", "tool"):
            for kind, data in _each(parts):
                _part(transcript, message, kind, data)
        else:
            transcript.unknown(role or "message", {**message, "parts": parts})
    return transcript


# -- where sessions are ------------------------------------------------------------------------------------------------


def _projects(places: Places) -> dict[tuple[str, Path], None]:
    """The folder of each project with the folder of its database."""
    found: dict[tuple[str, Path], None] = {}
    root = places.variable("CRUSH_GLOBAL_DATA", places.data / "crush")
    with suppress(OSError, Fault), files.open_below(root, root / "projects.json") as file:
        for project in files.items(files.read_json(file, _MAX_PROJECTS_BYTES), "projects"):
            folder, data = files.text(project, "path"), files.text(project, "data_dir")
            if os.path.isabs(folder):
                found[folder, Path(folder, data or ".crush")] = None
    for project in places.projects:
        found[str(project), project / ".crush"] = None
    return found


def _sessions(folder: str, data: Path) -> Iterator[AgentSession]:
    path = data / "crush.db"
    with files.database(data, path) as connection:
        of_children = _costs_of_children(connection)
        for row in files.rows(connection, "sessions", _SESSION):
            id, title = files.text(row, "id"), files.text(row, "title")
            if not id or (id.startswith("title-") and not files.number(row, "message_count")):
                continue  # older versions made a session to find a title
            updated = as_time(row.get("updated_at"))
            yield AgentSession(
                agent=NAME,
                id=id,
                root=data,
                path=path,
                row=id,
                title=first_line(_first_prompt(connection, id) or title if title in _NO_TITLES else title),
                folder=folder,
                model=_model(connection, id),
                started_at=as_time(row.get("created_at")),
                updated_at=updated,
                size=files.number(row, "message_count"),
                changed_ns=int(updated.timestamp() * 1000) * 1_000_000 if updated else 0,
                parent_id=files.text(row, "parent_session_id"),
                tokens=files.number(row, "prompt_tokens") + files.number(row, "completion_tokens"),
                cost=_own_cost(row, of_children),
            )


def _costs_of_children(connection: Any) -> dict[str, float]:
    """What the sub-agents of each session cost."""
    found: dict[str, float] = {}
    for row in files.rows(connection, "sessions", "id parent_session_id cost"):
        if (parent := files.text(row, "parent_session_id")) and _CHILD in files.text(row, "id"):
            found[parent] = found.get(parent, 0.0) + (files.dollars(row, "cost") or 0.0)
    return found


def _own_cost(row: JsonObject, of_children: dict[str, float]) -> float | None:
    cost = files.dollars(row, "cost")
    return None if cost is None else max(0.0, cost - of_children.get(files.text(row, "id"), 0.0))


def _first_prompt(connection: Any, id: str) -> str:
    first = "WHERE session_id = ? AND role = 'user' ORDER BY created_at, rowid LIMIT 1"
    for row in files.rows(connection, "messages", "parts", first, (id,)):
        return next((files.text(data, "text") for kind, data in _each(files.cell(row, "parts")) if kind == "text"), "")
    return ""


def _model(connection: Any, id: str) -> str:
    first = "WHERE session_id = ? AND role = 'assistant' LIMIT 1"
    return next((files.text(row, "model") for row in files.rows(connection, "messages", "model", first, (id,))), "")


# -- events ------------------------------------------------------------------------------------------------------------


def _each(parts: Any) -> Iterator[tuple[str, JsonObject]]:
    """The type and the data of each part."""
    for part in parts if isinstance(parts, list) else []:
        yield files.text(part, "type"), files.inner(part, "data")


def _user(transcript: Transcript, parts: list[Any]) -> None:
    texts: list[str] = []
    pictures: list[str] = []
    others: list[tuple[str, JsonObject]] = []
    for kind, data in _each(parts):
        url = files.text(data, "url")
        mime, picture = files.text(data, "MIMEType"), files.text(data, "Data")
        if kind == "text" and data.get("hidden") is not True:
            texts.append(files.text(data, "text"))
        elif kind == "image_url" and url.startswith("data:image/"):
            pictures.append(url)
        elif kind == "binary" and mime.startswith("image/") and picture:
            pictures.append(f"data:{mime};base64,{picture}")
        elif kind != "finish":
            others.append((kind, data))
    transcript.user("\n".join(filter(None, texts)), pictures)
    for kind, data in others:
        if kind == "shell_command" and files.text(data, "command"):
            id = f"by hand {len(transcript.forms)}"
            transcript.call(id, "bash", {"command": data["command"]}, by_user=True)
            transcript.result(id, files.text(data, "output"), exit_code=_code(data.get("exit_code")))
        else:
            transcript.unknown(kind or "part", data)


def _part(transcript: Transcript, message: JsonObject, kind: str, data: JsonObject) -> None:
    match kind:
        case "text":
            transcript.says(files.text(data, "text"))
        case "reasoning":
            transcript.thinks(files.text(data, "thinking"))
        case "tool_call":
            id = files.text(data, "id")
            child = f"{files.text(message, 'id')}{_CHILD}{id}"
            transcript.call(id, files.text(data, "name"), data.get("input"), child)
        case "tool_result":
            _result(transcript, data)
        case "finish":
            _finish(transcript, files.text(message, "id"), data)
        case _:
            transcript.unknown(kind or "part", data)


def _result(transcript: Transcript, data: JsonObject) -> None:
    id, text = files.text(data, "tool_call_id"), files.text(data, "content")
    about = files.inner({"metadata": files.cell(data, "metadata")}, "metadata")
    is_error, code = data.get("is_error") is True, None
    if files.text(data, "name") == "bash":
        text = _FOLDER_TAIL.sub("", text)
        if exited := _EXITED.search(text):
            text, code = text[: exited.start()], int(exited[1])
        elif text.endswith(_ABORTED):
            code = -1
        elif not is_error and not files.text(about, "shell_id"):
            code = 0
        text = "" if text == "no output" else text
    before, after = about.get("old_content"), about.get("new_content")
    mime, picture = files.text(data, "mime_type"), files.text(data, "data")
    transcript.result(
        id,
        text,
        exit_code=code,
        diff=files.text(about, "diff") or None,
        before=before if isinstance(before, str) else None,
        after=after if isinstance(after, str) else None,
        pictures=[f"data:{mime};base64,{picture}"] if mime.startswith("image/") and picture else [],
        is_error=is_error,
        is_denied=is_error and text.lower().startswith("user denied permission"),
    )


def _finish(transcript: Transcript, place: str, data: JsonObject) -> None:
    text = "\n".join(filter(None, (files.text(data, "message"), files.text(data, "details"))))
    transcript.at(data.get("time"), place, "finish")
    match files.text(data, "reason"):
        case "canceled":
            transcript.stopped(text)
        case "error" | "content_filter":
            transcript.error(text or "The model call failed.")


def _code(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**32 else None
