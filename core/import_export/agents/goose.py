"""Sessions of goose: its database, and the files with one message on each line that older versions wrote.

A message has contents; the results of tools are in messages of the user. Its metadata say who sees it: after a
compaction, the model no longer sees the old messages, and only the model sees the summary. A file that was imported
into the database stays where it was, so the database wins.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line, text_of
from core.import_export.bounded_json import Fault

JsonObject = dict[str, Any]
NAME = "goose"
KNOWN_SCHEMA = 14
_SESSION = (
    "id name description working_dir created_at updated_at total_tokens input_tokens output_tokens"
    " accumulated_total_tokens accumulated_input_tokens accumulated_output_tokens accumulated_cost"
    " model_config_json parent_session_id"
)
_MESSAGE = "id message_id role content_json created_timestamp metadata_json"
_NO_TITLES = ("", "New Chat", "New session", "CLI Session")
_DECLINED = "The user has declined to run this tool"
_FIRST_MESSAGES = 5
"""How many messages a list looks at to find the first prompt."""


def discover(places: Places) -> Iterator[AgentSession]:
    """The sessions in the databases, then those that only the older files have."""
    seen: set[str] = set()
    for root in _roots(places):
        with suppress(OSError, Fault):
            for session in _sessions(root):
                if session.id not in seen:
                    seen.add(session.id)
                    yield session
        for found in files.walk(root, ".jsonl", depth=1):
            if found.path.stem not in seen:
                seen.add(found.path.stem)
                with suppress(OSError):
                    yield _session_in_file(root, found)


def read(session: AgentSession) -> Transcript:
    """All messages of a session, also those that the model no longer sees."""
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    if session.row:
        with files.database(session.root, session.path) as connection:
            about = next(files.rows(connection, "sessions", _SESSION, "WHERE id = ?", (session.row,)), None)
            if about is None:
                raise FileNotFoundError(errno.ENOENT, "the session was removed from its database", str(session.path))
            found = files.rows(connection, "messages", _MESSAGE, "WHERE session_id = ? ORDER BY id", (session.row,))
            _tell(transcript, [(row["id"], _message(row)) for row in found if "id" in row], about)
            versions = [files.number(row, "version") for row in files.rows(connection, "schema_version", "version")]
            if max(versions, default=0) > KNOWN_SCHEMA:
                transcript.warnings.append(
                    "A newer goose than Handloom knows wrote this session; parts may be missing."
                )
        return transcript
    messages: list[tuple[Any, JsonObject]] = []
    about, wrong = {}, 0
    with files.open_below(session.root, session.path) as file:
        for line in files.lines(file, session.first_bytes):
            if not isinstance(line.value, dict):
                wrong += 1
            elif not messages and not about and "role" not in line.value:
                about = line.value
            else:
                messages.append((line.number, line.value))
    _tell(transcript, messages, about)
    if wrong:
        transcript.warnings.append(f"Lines that could not be read: {wrong}.")
    return transcript


# -- where sessions are ------------------------------------------------------------------------------------------------


def _roots(places: Places) -> list[Path]:
    """The folders that can have sessions; a root in the environment replaces them all."""
    root = places.environ.get("GOOSE_PATH_ROOT", "")
    if root and Path(root).is_absolute():
        return [Path(root, "data/sessions")]
    support = places.home / "Library/Application Support"
    folders = [places.data / "goose", places.data / "Block/goose"]
    folders += [support / name for name in ("goose", "Block/goose", "Block.goose")]
    return [folder / "sessions" for folder in folders]


def _sessions(root: Path) -> Iterator[AgentSession]:
    path = root / "sessions.db"
    with files.database(root, path) as connection:
        counts: dict[str, int] = {}
        for row in files.rows(connection, "messages", "session_id", "ORDER BY session_id"):
            counts[str(row["session_id"])] = counts.get(str(row["session_id"]), 0) + 1
        for row in files.rows(connection, "sessions", _SESSION):
            if id := files.text(row, "id"):
                updated = as_time(row.get("updated_at"))
                yield AgentSession(
                    agent=NAME,
                    id=id,
                    root=root,
                    path=path,
                    row=id,
                    title=_title(row)
                    or _first_prompt(_first_messages(connection, id))
                    or files.text(row, "name")[:200],
                    folder=files.text(row, "working_dir"),
                    model=_model(row),
                    started_at=as_time(row.get("created_at")),
                    updated_at=updated,
                    size=counts.get(id, 0),
                    changed_ns=int(updated.timestamp()) * 1_000_000_000 if updated else 0,
                    parent_id=files.text(row, "parent_session_id"),
                    tokens=_tokens(row),
                    cost=files.dollars(row, "accumulated_cost"),
                )


def _session_in_file(root: Path, found: files.FoundFile) -> AgentSession:
    with files.open_below(root, found.path) as file:
        head, tail = files.edges(file)
    about = head[0] if head and "role" not in head[0] else {}
    times = [each.get("created") for each in (*head, *tail) if "role" in each]
    return AgentSession(
        agent=NAME,
        id=found.path.stem,
        root=root,
        path=found.path,
        title=_title(about) or _first_prompt(head),
        folder=files.text(about, "working_dir"),
        started_at=as_time(times[0]) if times else None,
        updated_at=(as_time(times[-1]) if times else None) or as_time(found.changed_ns / 1e9),
        size=found.size,
        changed_ns=found.changed_ns,
        tokens=_tokens(about),
    )


def _first_messages(connection: Any, id: str) -> list[JsonObject]:
    first = f"WHERE session_id = ? ORDER BY id LIMIT {_FIRST_MESSAGES}"
    return [_message(row) for row in files.rows(connection, "messages", _MESSAGE, first, (id,))]


def _first_prompt(messages: Iterable[JsonObject]) -> str:
    texts = (_typed(message) for message in messages if message.get("role") == "user" and _is_seen(message, "user"))
    return next((title for text in texts if (title := first_line(text))), "")


def _title(about: JsonObject) -> str:
    names = (files.text(about, "name"), files.text(about, "description"))
    return next((first_line(name) for name in names if name not in _NO_TITLES), "")


def _tokens(about: JsonObject) -> int:
    return files.number(about, "accumulated_total_tokens") or files.number(about, "total_tokens")


def _model(about: JsonObject) -> str:
    return files.text(files.cell(about, "model_config_json"), "model_name")


# -- messages ----------------------------------------------------------------------------------------------------------


def _message(row: JsonObject) -> JsonObject:
    """A message as the older files have it."""
    return {
        "id": row.get("message_id"),
        "role": row.get("role"),
        "created": row.get("created_timestamp"),
        "content": files.cell(row, "content_json"),
        "metadata": files.cell(row, "metadata_json"),
    }


def _is_seen(message: JsonObject, by: str) -> bool:
    about = files.inner(message, "metadata")
    return about.get(f"{by}Visible", about.get(f"{by}_visible")) is not False


def _contents(message: JsonObject) -> list[JsonObject]:
    return [content for content in files.items(message, "content") if isinstance(content, dict)]


def _typed(message: JsonObject) -> str:
    return text_of([content for content in _contents(message) if content.get("type") == "text"])


def _pictures(contents: Iterable[JsonObject]) -> list[str]:
    found = (
        (files.text(each, "mimeType"), files.text(each, "data")) for each in contents if each.get("type") == "image"
    )
    return [f"data:{mime};base64,{data}" for mime, data in found if mime.startswith("image/") and data]


def _tell(transcript: Transcript, messages: list[tuple[Any, JsonObject]], about: JsonObject) -> None:
    answers = [place for place, message in messages if message.get("role") == "assistant"]
    is_compacted = False
    for place, message in messages:
        role = files.text(message, "role")
        where = place if isinstance(place, int | str) else ""
        transcript.at(message.get("created"), where, role)
        if answers and place == answers[-1]:
            answers.clear()
            transcript.spent(_usage(about))
        if not _is_seen(message, "user"):
            if is_compacted and _typed(message):
                transcript.compacted(_typed(message))
                is_compacted = False
            else:
                transcript.unknown("hidden", message)
        elif role in ("user", "assistant") and _contents(message):
            if role == "user":
                transcript.user(_typed(message), _pictures(_contents(message)))
            for number, content in enumerate(_contents(message)):
                _content(transcript, role, f"{where}/{number}", content)
        else:
            transcript.unknown(role or "message", message)
        is_compacted = is_compacted or not _is_seen(message, "agent")


def _content(transcript: Transcript, role: str, id: str, content: JsonObject) -> None:
    match files.text(content, "type"):
        case "text" | "image" if role == "user":
            pass  # told as one prompt
        case "text":
            transcript.says(files.text(content, "text"))
        case "thinking":
            transcript.thinks(files.text(content, "thinking"))
        case "toolRequest" | "frontendToolRequest":
            _call(transcript, files.text(content, "id") or id, files.inner(content, "toolCall"))
        case "toolResponse":
            _result(transcript, files.text(content, "id"), files.inner(content, "toolResult"))
        case kind:
            transcript.unknown(kind or "content", content)


def _call(transcript: Transcript, id: str, call: JsonObject) -> None:
    value = files.inner(call, "value") or call
    name = files.text(value, "name")
    if not name:  # the model wrote a call that goose could not read
        transcript.error(files.text(call, "error") or "A tool call that could not be read.")
        return
    extension, _, tool = name.rpartition("__")
    transcript.call(id, tool if extension == "developer" else name, value.get("arguments"))


def _result(transcript: Transcript, id: str, result: JsonObject) -> None:
    value = result.get("value", result)
    blocks = value if isinstance(value, list) else files.items(value, "content")
    contents = [block for block in blocks if isinstance(block, dict)]
    for_model = [each for each in contents if "assistant" in (_audience(each) or ["assistant"])] or contents
    text, error = text_of(for_model), files.text(result, "error")
    facts = files.inner(value, "structuredContent")
    code = facts.get("exit_code", facts.get("exitCode"))
    transcript.result(
        id,
        error or text,
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**32 else None,
        pictures=_pictures(for_model),
        is_error=bool(error) or (isinstance(value, dict) and value.get("isError") is True),
        is_denied=(error or text).startswith(_DECLINED),
    )


def _audience(block: JsonObject) -> list[Any]:
    """For whom a content is: goose shows the same output to the model and to the user, each in its own words."""
    return files.items(files.inner(block, "annotations"), "audience") or files.items(block, "audience")


def _usage(about: JsonObject) -> Usage:
    prompt = files.number(about, "accumulated_input_tokens") or files.number(about, "input_tokens")
    completion = files.number(about, "accumulated_output_tokens") or files.number(about, "output_tokens")
    return Usage(_model(about), prompt, completion, cost=files.dollars(about, "accumulated_cost"))
