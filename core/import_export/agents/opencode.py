"""Sessions of opencode: its database, and the JSON files of its older versions.

A database has messages and their parts (v1), or whole messages (v2), which are read as v1. Ids ascend, so parts are in
the order of their ids. A session has no tree: a revert hides its last messages, and a fork is a copy of its own. Files
of before July 2025, in one folder for each project, are not read.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Branch, Transcript, Usage, as_time, first_line, text_of
from core.import_export.bounded_json import Fault

JsonObject = dict[str, Any]
NAME = "opencode"
KNOWN_MAJOR = 1
"""The newest major version whose sessions were looked at: 1.18.33."""
_COLUMNS = (
    "id parent_id fork_session_id directory title version model cost tokens_input tokens_output tokens_reasoning"
    " tokens_cache_read tokens_cache_write revert time_created time_updated"
)
_TOKENS = ("tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write")
_NO_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")
_REFUSED = ("rejected permission", "specified a rule which prevents", "user dismissed")
_RUN_BY_USER = "The following tool was executed by the user"
_EXITED = re.compile(r"\n?Command exited with code -?\d+\.\Z")
_NOT_SHOWN = ("step-start", "step-finish", "snapshot")
"""Parts that only repeat what their message says, or name a commit of opencode's own repository."""
_MAX_SESSION_BYTES = 4 * 1024 * 1024
_PROMPT_PARTS = 20
"""How many parts a list looks at to find the first prompt."""


@dataclass(slots=True)
class _Message:
    id: str
    data: JsonObject
    parts: list[tuple[str, JsonObject]] = field(default_factory=list)
    """Each with its id."""


def discover(places: Places) -> Iterator[AgentSession]:
    """The sessions in every database, then those that only the older files have."""
    seen: set[str] = set()
    for path in _databases(places):
        with suppress(OSError, Fault):
            for session in _sessions(path):
                if session.id not in seen:
                    seen.add(session.id)
                    yield session
    root = places.data / "opencode"
    for found in files.walk(root / "storage/session", ".json", depth=2):
        if found.path.stem not in seen:
            seen.add(found.path.stem)
            with suppress(OSError, Fault):
                yield _session_in_file(root, found)


def read(session: AgentSession) -> Transcript:
    """The messages of a session; those that a revert hides are a branch."""
    if session.row:
        with files.database(session.root, session.path) as connection:
            about = next(files.rows(connection, "session", _COLUMNS, "WHERE id = ?", (session.row,)), None)
            if about is None:
                raise FileNotFoundError(errno.ENOENT, "the session was removed from its database", str(session.path))
            messages = _of_database(connection, session.row)
            revert, wrong = files.cell(about, "revert"), 0
    else:
        with files.open_below(session.root, session.path) as file:
            about = files.read_json(file)
        messages, wrong = _of_files(session)
        revert = files.inner(about, "revert")
    live = _live(messages, files.text(revert, "messageID"), files.text(revert, "partID"))
    transcript = _transcript(session, messages if live is None else live)
    if live is not None:
        whole = _transcript(session, messages)
        hidden = next((form for form in whole.forms[len(transcript.forms) :] if form.get("source") == "user"), {})
        title = first_line(files.text(files.inner(hidden, "args"), "content")) or "Reverted messages"
        transcript.branches.append(Branch(title, whole))
    version = files.text(about, "version")
    if (major := version.partition(".")[0]).isdecimal() and int(major[:9]) > KNOWN_MAJOR:
        transcript.warnings.append(f"opencode {version[:40]} is newer than Handloom knows; parts may be missing.")
    if wrong:
        transcript.warnings.append(f"Files that could not be read: {wrong}.")
    return transcript


# -- where sessions are ------------------------------------------------------------------------------------------------


def _databases(places: Places) -> Iterator[Path]:
    root = places.data / "opencode"
    named = places.environ.get("OPENCODE_DB", "")
    if named and named != ":memory:":
        yield root / named  # an absolute path stays as it is
    with suppress(OSError):
        yield from sorted(root / name for name in os.listdir(root) if re.fullmatch(r"opencode(-[\w.-]+)?\.db", name))


def _sessions(path: Path) -> Iterator[AgentSession]:
    with files.database(path.parent, path) as connection:
        counts: dict[str, int] = {}
        for table in ("session_message", "message"):
            for row in files.rows(connection, table, "session_id", "ORDER BY session_id"):
                counts[str(row["session_id"])] = counts.get(str(row["session_id"]), 0) + 1
        for row in files.rows(connection, "session", _COLUMNS):
            if not (id := files.text(row, "id")):
                continue
            title = files.text(row, "title")
            if not title or _NO_TITLE.match(title):
                title = _first_prompt(connection, id) or title
            updated = as_time(row.get("time_updated"))
            yield AgentSession(
                agent=NAME,
                id=id,
                root=path.parent,
                path=path,
                row=id,
                title=first_line(title),
                folder=files.text(row, "directory"),
                model=files.text(files.cell(row, "model"), "id"),
                started_at=as_time(row.get("time_created")),
                updated_at=updated,
                size=counts.get(id, 0),
                changed_ns=files.number(row, "time_updated") * 1_000_000,
                parent_id=files.text(row, "parent_id") or files.text(row, "fork_session_id"),
                tokens=sum(files.number(row, name) for name in _TOKENS),
                cost=files.dollars(row, "cost"),
            )


def _session_in_file(root: Path, found: files.FoundFile) -> AgentSession:
    with files.open_below(root, found.path) as file:
        about = files.read_json(file, _MAX_SESSION_BYTES)
    id, times = found.path.stem, files.inner(about, "time")
    messages = sorted(files.walk(root / "storage/message" / id, ".json", depth=1), key=lambda each: each.path.name)
    title = files.text(about, "title")
    if messages and (not title or _NO_TITLE.match(title)):
        title = _prompt_in_file(root, messages[0].path) or title
    return AgentSession(
        agent=NAME,
        id=id,
        root=root,
        path=found.path,
        title=first_line(title),
        folder=files.text(about, "directory"),
        started_at=as_time(times.get("created")),
        updated_at=as_time(times.get("updated")),
        size=found.size + sum(each.size for each in messages),
        changed_ns=max([found.changed_ns, *(each.changed_ns for each in messages)]),
        parent_id=files.text(about, "parentID"),
    )


def _first_prompt(connection: Any, id: str) -> str:
    some = f"WHERE session_id = ? ORDER BY id LIMIT {_PROMPT_PARTS}"
    parts = [files.cell(row, "data") for row in files.rows(connection, "part", "data", some, (id,))]
    if not parts:
        some = f"WHERE session_id = ? AND type = 'user' ORDER BY seq LIMIT {_PROMPT_PARTS}"
        parts = [files.cell(row, "data") for row in files.rows(connection, "session_message", "data", some, (id,))]
    return next((files.text(part, "text") for part in parts if _is_typed(part)), "")


def _prompt_in_file(root: Path, message: Path) -> str:
    for found in sorted(files.walk(root / "storage/part" / message.stem, ".json", depth=1), key=lambda each: each.path):
        with suppress(OSError, Fault), files.open_below(root, found.path) as file:
            part = files.read_json(file, _MAX_SESSION_BYTES)
            if _is_typed(part):
                return files.text(part, "text")
    return ""


def _is_typed(part: Any) -> bool:
    """Whether a part is text that somebody typed, or that the model wrote."""
    is_text = isinstance(part, dict) and part.get("type", "text") == "text" and bool(files.text(part, "text"))
    return is_text and not part.get("synthetic") and not part.get("ignored")


# -- messages ----------------------------------------------------------------------------------------------------------


def _of_database(connection: Any, id: str) -> list[_Message]:
    found: dict[str, _Message] = {}
    order = "WHERE session_id = ? ORDER BY time_created, id"
    for row in files.rows(connection, "message", "id time_created data", order, (id,)):
        data = files.inner({"data": files.cell(row, "data")}, "data")
        times = {"created": row.get("time_created"), **files.inner(data, "time")}
        message = _Message(files.text(row, "id") or str(len(found)), {**data, "time": times})
        found[message.id] = message
    for row in files.rows(connection, "part", "id message_id data", "WHERE session_id = ? ORDER BY id", (id,)):
        owner = files.text(row, "message_id")
        part = files.inner({"data": files.cell(row, "data")}, "data")
        found.setdefault(owner, _Message(owner, {})).parts.append((files.text(row, "id"), part))
    if found:
        return list(found.values())
    order = "WHERE session_id = ? ORDER BY seq"
    new = files.rows(connection, "session_message", "id type time_created data", order, (id,))
    return [_as_v1(row) for row in new]


def _of_files(session: AgentSession) -> tuple[list[_Message], int]:
    """The messages, and how many files could not be read."""
    storage, found, wrong = session.root / "storage", list[_Message](), 0
    for entry in files.walk(storage / "message" / session.id, ".json", depth=1):
        message = _Message(entry.path.stem, {})
        parts = sorted(files.walk(storage / "part" / message.id, ".json", depth=1), key=lambda each: each.path.name)
        for each in (entry, *parts):
            try:
                with files.open_below(session.root, each.path) as file:
                    value = files.read_json(file)
            except (OSError, Fault):
                wrong += 1
                continue
            value = value if isinstance(value, dict) else {}
            if each is entry:
                message.data = value
            else:
                message.parts.append((each.path.stem, value))
        found.append(message)
    found.sort(key=lambda message: (files.number(files.inner(message.data, "time"), "created"), message.id))
    return found, wrong


def _as_v1(row: JsonObject) -> _Message:
    """A message of v2 in the words of v1."""
    kind, data = files.text(row, "type"), files.inner({"data": files.cell(row, "data")}, "data")
    time = {"created": row.get("time_created"), **files.inner(data, "time")}
    text: JsonObject = {"type": "text", "text": files.text(data, "text")}
    message = _Message(files.text(row, "id"), {"role": "user", "time": time})
    parts: list[JsonObject] = []
    match kind:
        case "user":
            pictures = [each for each in files.items(data, "files") if isinstance(each, dict)]
            parts = [text, *({**each, "type": "file", "url": each.get("uri", each.get("url"))} for each in pictures)]
        case "synthetic" | "system" | "skill":
            parts = [{**data, **text, "synthetic": True}]
        case "assistant":
            model = files.inner(data, "model")
            message.data = {**data, "role": "assistant", "time": time, "modelID": model.get("id")}
            parts = [_as_v1_part(each) for each in files.items(data, "content") if isinstance(each, dict)]
        case "shell":
            state = {"status": "completed", "input": {"command": data.get("command")}, "output": data.get("output")}
            state["metadata"] = {"exit": data.get("exit")}
            message.data["role"] = "assistant"
            parts = [{"type": "tool", "tool": "bash", "by_user": True, "state": state}]
        case "compaction" if data.get("status", "completed") == "completed":
            message.data.update(role="assistant", summary=True)
            parts = [{"type": "text", "text": files.text(data, "summary")}]
        case _:
            message.data = {**data, "role": kind, "time": time}
    message.parts = [(f"{message.id}/{number}", part) for number, part in enumerate(parts)]
    return message


def _as_v1_part(part: JsonObject) -> JsonObject:
    if part.get("type") != "tool":
        return part
    state = files.inner(part, "state")
    structured = files.inner(state, "structured")
    output = text_of(state.get("content")) or files.text(structured, "content") or files.text(structured, "output")
    if part.get("name") == "bash":
        output = _EXITED.sub("", output).removesuffix("(no output)")
    error = files.text(files.inner(state, "error"), "message") or output
    as_v1 = {**state, "output": output, "metadata": structured, "error": error}
    return {"type": "tool", "tool": part.get("name"), "state": {**as_v1, "time": part.get("time")}}


def _live(messages: list[_Message], message_id: str, part_id: str) -> list[_Message] | None:
    """The messages that a revert to this message, or to one of its parts, leaves; None if it hides nothing."""
    for number, message in enumerate(messages):
        if message.id == message_id:
            parts = [part for part in message.parts if part_id and part[0] < part_id]
            return messages[:number] + ([_Message(message.id, message.data, parts)] if parts else [])
    return None


# -- events ------------------------------------------------------------------------------------------------------------


def _transcript(session: AgentSession, messages: list[_Message]) -> Transcript:
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    starts: dict[str, int] = {}
    kept, by_user = "", False
    for message in messages:
        starts[message.id] = len(transcript.forms)
        role = files.text(message.data, "role")
        transcript.at(files.inner(message.data, "time").get("created"), message.id, role)
        match role:
            case "user":
                kept = _user(transcript, message) or kept
                by_user = any(files.text(part, "text") == _RUN_BY_USER for _, part in message.parts)
            case "assistant" if message.data.get("summary") is True:
                _spent(transcript, message)
                summary = text_of([part for _, part in message.parts if part.get("type") == "text"])
                transcript.compacted(summary, starts.get(kept))
                _error(transcript, message.id, message.data)
            case "assistant":
                _assistant(transcript, message, by_user)
            case _:
                record = {"id": message.id, **message.data, "parts": [part for _, part in message.parts]}
                transcript.unknown(role or "message", record)
    return transcript


def _user(transcript: Transcript, message: _Message) -> str:
    """Add a prompt. Returns the message from which a compaction that begins here keeps the history."""
    parts = [part for _, part in message.parts]
    text = "\n\n".join(files.text(part, "text") for part in parts if _is_typed(part))
    urls = [url for part in parts if (url := files.text(part, "url")).startswith("data:image/")]
    if not parts:  # the oldest messages have no parts, only a summary of the prompt
        summary = files.inner(message.data, "summary")
        text = "\n\n".join(filter(None, (files.text(summary, "title"), files.text(summary, "body"))))
    transcript.user(text, urls)
    kept = ""
    for part in parts:
        if not _is_typed(part) and not files.text(part, "url").startswith("data:image/"):
            transcript.unknown("synthetic" if part.get("synthetic") else files.text(part, "type") or "part", part)
        if part.get("type") == "compaction":
            kept = files.text(part, "tail_start_id")
    return kept


def _assistant(transcript: Transcript, message: _Message, by_user: bool) -> None:
    _spent(transcript, message)
    for id, part in message.parts:
        kind = files.text(part, "type")
        transcript.at(files.inner(part, "time").get("start"), message.id, kind)
        match kind:
            case "text" if _is_typed(part):
                transcript.says(files.text(part, "text"))
            case "reasoning":
                transcript.thinks(files.text(part, "text"))
            case "tool":
                _tool(transcript, message.id, id, part, by_user or part.get("by_user") is True)
            case "retry":
                transcript.error(_message_of(part.get("error")))
            case _ if kind in _NOT_SHOWN or (kind == "text" and not files.text(part, "text")):
                pass
            case _:
                transcript.unknown(kind or "part", part)
    _error(transcript, message.id, message.data)


def _tool(transcript: Transcript, place: str, id: str, part: JsonObject, by_user: bool) -> None:
    state = files.inner(part, "state")
    given, about, times = files.inner(state, "input"), files.inner(state, "metadata"), files.inner(state, "time")
    name, status = files.text(part, "tool"), files.text(state, "status")
    is_invalid = name == "invalid"  # opencode's own tool for calls that it cannot make
    if is_invalid:
        name = files.text(given, "tool") or name
    child = files.text(about, "sessionId") or files.text(about, "sessionID")
    transcript.at(times.get("start", times.get("created")), place, "tool")
    transcript.call(id, name, given or files.text(state, "input"), child, by_user=by_user)
    if status not in ("completed", "error"):
        return
    transcript.at(times.get("end", times.get("completed")), place, "tool")
    error = files.text(state, "error")
    code = about.get("exit")
    is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**32
    changed = files.inner(about, "filediff")
    before, after = changed.get("before"), changed.get("after")
    transcript.result(
        id,
        error if status == "error" else files.text(state, "output"),
        exit_code=code if is_code else None,
        diff=_diff(about, changed),
        before=before if isinstance(before, str) else None,
        after=after if isinstance(after, str) else None,
        pictures=[
            url
            for each in files.items(state, "attachments")
            if (url := files.text(each, "url")).startswith("data:image/")
        ],
        is_error=status == "error" or is_invalid,
        is_denied=status == "error" and any(words in error for words in _REFUSED),
    )


def _diff(about: JsonObject, changed: JsonObject) -> str | None:
    """The diff of an edit without the two lines that opencode's library puts before it."""
    several = [files.text(each, "diff") or files.text(each, "patch") for each in files.items(about, "files")]
    diff = files.text(about, "diff") or files.text(changed, "patch") or "\n".join(filter(None, several))
    return re.sub(r"^Index: .*\n=+\n", "", diff, flags=re.MULTILINE) or None


def _spent(transcript: Transcript, message: _Message) -> None:
    tokens = files.inner(message.data, "tokens")
    cache = files.inner(tokens, "cache")
    read, write = files.number(cache, "read"), files.number(cache, "write")
    prompt = files.number(tokens, "input") + read + write
    answer = files.number(tokens, "output") + files.number(tokens, "reasoning")
    if total := files.number(tokens, "total"):  # older versions count reasoning in the output too
        answer = max(total - prompt, 0)
    cost, model = files.dollars(message.data, "cost"), files.text(message.data, "modelID")
    if prompt or answer or cost:
        transcript.spent(Usage(model, prompt, answer, read, write, cost), message.id)


def _error(transcript: Transcript, place: str, data: JsonObject) -> None:
    error = data.get("error")
    if not error:
        return
    transcript.at(files.inner(data, "time").get("completed"), place, "error")
    if files.text(error, "name") == "MessageAbortedError" or files.text(error, "type") == "aborted":
        transcript.stopped(_message_of(error))
    else:
        transcript.error(_message_of(error))


def _message_of(error: Any) -> str:
    text = files.text(files.inner(error, "data"), "message") or files.text(error, "message")
    return text or files.text(error, "name") or files.text(error, "type") or "Unknown error"
