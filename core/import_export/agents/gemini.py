"""Sessions of Gemini CLI: logs of operations, and the JSON objects that versions before 0.40 wrote.

A line is a message, a change of the session's facts (`$set`), or a rewind (`$rewindTo`). A message is written again
when it grows, and its last copy counts. A `$set` with `messages` replaces the history that the model sees; what it
leaves out was compacted, and is shown all the same. A rewind drops a message and all after it: they become a branch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Branch, Transcript, Usage, as_time, first_line, text_of
from core.import_export.bounded_json import Fault

JsonObject = dict[str, Any]
NAME = "gemini"
MAX_BRANCHES = 20
MAX_BRANCH_MESSAGES = 100_000
"""In all branches together: each has its own copy of what came before it."""
KEPT = "30d"
"""How long the agent keeps sessions unless its settings say something else."""
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "m": timedelta(days=30)}
_MAX_SETTINGS_BYTES = 1024 * 1024
_INJECTED = ("<session_context>", "<hook_context>", "--- Content from referenced files ---")
_WORKSPACE = re.compile(r"Workspace Directories:\*\*\n\s+- (/[^\n]+)")
_BY_HAND = "I ran the following shell command:\n```sh\n"
_PRODUCED = "\n```\n\nThis produced the following result:\n```\n"
_BY_HAND_END = "\n```"
_STOPPED = ("Request cancelled", "User cancelled")
_EXITED = re.compile(r"\ACommand exited with code (\d{1,9})\.\n?")
_HAS_NO_CODE = ("Command was cancelled.", "Command terminated by signal: ")
_WRAPPED = re.compile(r"\A<untrusted_context>\n(.*)\n</untrusted_context>\s*\Z", re.DOTALL)
_SHELL_FIELD = re.compile(r"(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): (.*)")
_SHELL_FIELDS = 5
_OLD_FIELDS = re.compile(r"Command: .*?\nDirectory: [^\n]*\n(?=Output: )", re.DOTALL)
"""Older versions write these before the output."""


@dataclass(slots=True)
class _Entry:
    """A message, or something else that happened, in the order of the session."""

    place: int
    kind: str
    """Its type; `$summary` for the summary of a compaction, `$history` for what the agent repeated in one."""
    record: JsonObject
    kept: str = ""
    """The id of the first message that a compaction keeps."""


@dataclass(slots=True)
class _Log:
    """The operations of a session, applied one after the other."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    history: dict[str, None] = field(default_factory=dict)
    """The ids of the messages that the model sees."""
    branches: list[tuple[dict[str, _Entry], str]] = field(default_factory=list)
    """The entries before each rewind, and the first of them that it drops."""
    lost_branches: int = 0
    size: int = 0

    def apply(self, place: int, record: JsonObject) -> None:
        """Apply one line."""
        changes = record.get("$set")
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self._add(place, record)
        elif isinstance(changes, dict):
            if isinstance(changes.get("messages"), list):
                self._replace(place, changes["messages"])
        elif isinstance(record.get("sessionId"), str):
            if isinstance(record.get("messages"), list):
                self._replace(place, record["messages"])
        else:
            self.entries[f"line {place}"] = _Entry(place, "", record)

    def _add(self, place: int, record: JsonObject) -> None:
        id = record["id"]
        if id in self.entries:
            self.entries[id].record = record
        else:
            self.entries[id] = _Entry(place, files.text(record, "type"), record)
        self.history[id] = None

    def _replace(self, place: int, messages: list[Any]) -> None:
        found = {each["id"]: each for each in messages if isinstance(each, dict) and isinstance(each.get("id"), str)}
        dropped = [id for id in self.history if id not in found and _is_said(self.entries.get(id))]
        kept = next((id for id in found if id in self.history and _is_said(self.entries.get(id))), "")
        is_told = not dropped  # nothing is missing, so what is new was said now
        for id, record in found.items():
            if is_told or id in self.entries:
                self._add(place, record)
            elif files.text(record, "type") == "user" and f"summary {place}" not in self.entries:
                self.entries[f"summary {place}"] = _Entry(place, "$summary", record, kept)
                self.entries[id] = _Entry(place, "$done", {})
            else:
                self.entries[id] = _Entry(place, "$history", record)
        self.history = dict.fromkeys(found)

    def _rewind(self, id: str) -> None:
        if not self.entries:
            return
        first = id if id in self.entries else next(iter(self.entries))
        if len(self.branches) < MAX_BRANCHES and self.size + len(self.entries) <= MAX_BRANCH_MESSAGES:
            self.size += len(self.entries)
            self.branches.append((dict(self.entries), first))
        else:
            self.lost_branches += 1
        while self.entries:
            last, _entry = self.entries.popitem()
            self.history.pop(last, None)
            if last == first:
                break


def discover(places: Places) -> Iterator[AgentSession]:
    """The sessions of all projects, and those of their sub-agents.

    A newer version copies the folder of a project to another name: of two copies, the one that was changed last counts.
    """
    root = places.variable("GEMINI_CLI_HOME", places.home) / ".gemini"
    projects = _projects(places, root)
    kept_for = _kept_for(root)
    names: list[str] = []
    with suppress(OSError):
        names = sorted(os.listdir(root / "tmp"))
    copies: dict[tuple[str, str], AgentSession] = {}
    for name in names:
        for session in _in_project(root, name, projects, kept_for):
            other = copies.get(key := (session.id, session.path.stem))
            if other is None or (other.changed_ns, other.size) <= (session.changed_ns, session.size):
                copies[key] = session
    seen: set[str] = set()
    for session in copies.values():
        for id in (session.id, session.path.stem):  # two files with different names can have the same id
            if id not in seen:
                seen.add(id)
                yield replace(session, id=id)
                break


def read(session: AgentSession) -> Transcript:
    """The history as it is now, with what compactions left out; what rewinds dropped are branches."""
    log, wrong = _Log(), 0
    with files.open_below(session.root, session.path) as file:
        if session.path.suffix == ".json":
            about = files.read_json(file)
            if not isinstance(about, dict):
                raise Fault("it is not a session of Gemini CLI")
            log.apply(1, {**about, "sessionId": session.id} if "id" not in about else about)
        else:
            for line in files.lines(file, session.first_bytes):
                if isinstance(line.value, dict):
                    log.apply(line.number, line.value)
                else:
                    wrong += 1
    transcript = _transcript(session, log.entries)
    for entries, first in log.branches if not session.first_bytes else ():
        title = next((_prompt(entry.record) for entry in _from(entries, first) if _prompt(entry.record)), "")
        transcript.branches.append(Branch(first_line(title) or "Rewound messages", _transcript(session, entries)))
    if wrong:
        transcript.warnings.append(f"Lines that could not be read: {wrong}.")
    if log.lost_branches:
        transcript.warnings.append(f"Branches that are not shown: {log.lost_branches}.")
    return transcript


# -- where sessions are ------------------------------------------------------------------------------------------------


def _in_project(
    root: Path, name: str, projects: Mapping[str, str], kept_for: timedelta | None
) -> Iterator[AgentSession]:
    chats = root / "tmp" / name / "chats"
    found = {each.path: each for each in files.walk(chats, (".jsonl", ".json"), depth=2)}
    expires: dict[str, datetime] = {}
    for path in sorted(found, key=lambda path: (len(path.parts), path)):
        if path.with_suffix(".jsonl") in found and path.suffix == ".json":
            continue  # the agent copied it when it continued the session
        with suppress(OSError, Fault):
            session = _session(root, found[path], projects, name)
            parent = "" if path.parent == chats else path.parent.name
            if not parent and kept_for and session.updated_at:
                with suppress(OverflowError):
                    expires[session.id] = session.updated_at + kept_for
            yield replace(session, parent_id=parent, deleted_at=expires.get(parent or session.id))


def _session(root: Path, found: files.FoundFile, projects: Mapping[str, str], project: str) -> AgentSession:
    with files.open_below(root, found.path) as file:
        if found.path.suffix == ".json":
            whole = files.beginning(file)
            head, tail = ([whole] if isinstance(whole, dict) else []), list[Any]()
        else:
            head, tail = files.edges(file)
    if not head:
        raise Fault("it has no records")
    about: JsonObject = {}
    messages: list[JsonObject] = []
    started: Any = None
    for record in (*head, *tail):
        facts = files.inner(record, "$set") if "$set" in record else record
        for each in (*files.items(facts, "messages"), record):
            if isinstance(each, dict) and "type" in each:
                messages.append(each)
        if "type" not in facts:
            about.update(facts)
        started = started or facts.get("startTime")
    folders = [each for each in files.items(about, "directories") if isinstance(each, str)]
    told = (_WORKSPACE.search(text_of(each.get("content"))) for each in messages if each.get("type") == "user")
    known = projects.get(files.text(about, "projectHash")) or projects.get(project)
    prompt = next((text for each in messages if each.get("type") == "user" and (text := _prompt(each))), "")
    models = (files.text(each, "model") for each in messages if each.get("type") == "gemini")
    return AgentSession(
        agent=NAME,
        id=files.text(about, "sessionId") or found.path.stem,
        root=root,
        path=found.path,
        title=first_line(files.text(about, "summary")) or first_line(prompt),
        folder=known or next(iter(folders), "") or next((match[1] for match in told if match), ""),
        model=next(filter(None, models), ""),
        started_at=as_time(started),
        updated_at=as_time(about.get("lastUpdated")) or as_time(found.changed_ns / 1e9),
        size=found.size,
        changed_ns=found.changed_ns,
    )


def _projects(places: Places, root: Path) -> dict[str, str]:
    """The folders of projects, by the names and by the hashes that the agent gives them."""
    found: dict[str, str] = {}
    with suppress(OSError, Fault), files.open_below(root, root / "projects.json") as file:
        known = files.inner(files.read_json(file, _MAX_SETTINGS_BYTES), "projects")
        found |= {name: folder for folder, name in known.items() if isinstance(name, str) and name}
    for folder in (*found.values(), *map(str, places.projects)):
        found[hashlib.sha256(folder.encode("utf-8", "replace")).hexdigest()] = folder
    return found


def _kept_for(root: Path) -> timedelta | None:
    settings: Any = {}
    with suppress(OSError, Fault), files.open_below(root, root / "settings.json") as file:
        settings = files.read_json(file, _MAX_SETTINGS_BYTES)
    retention = files.inner(settings, "general", "sessionRetention")
    age = re.fullmatch(r"(\d{1,5})([hdwm])", files.text(retention, "maxAge") or KEPT)
    if retention.get("enabled", True) is not True or age is None:
        return None
    return int(age[1]) * _UNITS[age[2]]


# -- events ------------------------------------------------------------------------------------------------------------


def _transcript(session: AgentSession, entries: dict[str, _Entry]) -> Transcript:
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    starts: dict[str, int] = {}
    answered: set[str] = set()
    for id, entry in entries.items():
        starts[id] = len(transcript.forms)
        record = entry.record
        transcript.at(record.get("timestamp"), entry.place, entry.kind)
        match entry.kind:
            case "user":
                _user(transcript, record, answered)
            case "gemini":
                _answer(transcript, id, entry, answered)
            case "error":
                transcript.error(text_of(record.get("content")))
            case "info" if text_of(record.get("content")).startswith(_STOPPED):
                transcript.stopped(text_of(record.get("content")))
            case "$summary":
                transcript.compacted(text_of(record.get("content")), starts.get(entry.kept))
            case "$done":
                pass
            case kind:
                if kind != "info" or text_of(record.get("content")):
                    transcript.unknown(kind.removeprefix("$") or "record", record)
    return transcript


def _user(transcript: Transcript, record: JsonObject, answered: set[str]) -> None:
    parts = _parts(record.get("content"))
    shown = text_of(record.get("displayContent"))  # what the user saw, if the agent added to it
    said: list[str] = []
    for part in parts:
        text = files.text(part, "text")
        if response := files.inner(part, "functionResponse"):
            _response(transcript, response, answered)
        elif by_hand := _by_hand(text):
            _flush(transcript, said, [])
            id = f"by hand {len(transcript.forms)}"
            transcript.call(id, "bash", {"command": by_hand[0]}, by_user=True)
            printed = by_hand[1]
            code = _EXITED.match(printed)
            exit_code = int(code[1]) if code else None if printed.startswith(_HAS_NO_CODE) else 0
            transcript.result(id, printed[code.end() :] if code else printed, exit_code=exit_code)
        elif text.lstrip().startswith(_INJECTED):
            transcript.unknown("context", part)
        elif text:
            said.append(text)
        elif not _pictures([part]):
            transcript.unknown("part", part)
    _flush(transcript, [shown] if shown and said else said, _pictures(parts))


def _flush(transcript: Transcript, said: list[str], pictures: list[str]) -> None:
    transcript.user("\n".join(said), pictures)
    said.clear()


def _response(transcript: Transcript, response: JsonObject, answered: set[str]) -> None:
    """The result of a call as the model saw it: only for calls of which nothing else is known."""
    id = files.text(response, "id")
    if not id or id in answered:
        return
    answered.add(id)
    transcript.call(id, files.text(response, "name"), {})
    text, is_error = _output(response)
    transcript.result(id, text, is_error=is_error)


def _answer(transcript: Transcript, id: str, entry: _Entry, answered: set[str]) -> None:
    record, model = entry.record, files.text(entry.record, "model")
    tokens = files.inner(record, "tokens")
    prompt = files.number(tokens, "input") + files.number(tokens, "tool")
    completion = files.number(tokens, "output") + files.number(tokens, "thoughts")
    if prompt or completion:
        transcript.spent(Usage(model, prompt, completion, files.number(tokens, "cached")), id)
    thoughts = [thought for thought in files.items(record, "thoughts") if isinstance(thought, dict)]
    for thought in thoughts:
        said = (files.text(thought, "subject"), files.text(thought, "description"))
        transcript.thinks("\n\n".join(filter(None, said)))
    for part in _parts(record.get("content")):
        if part.get("thought") is True:
            if not thoughts:
                transcript.thinks(files.text(part, "text"))
        else:
            transcript.says(files.text(part, "text"))
    for number, call in enumerate(files.items(record, "toolCalls")):
        if isinstance(call, dict):
            _call(transcript, entry.place, files.text(call, "id") or f"{id}/{number}", call, answered)


def _call(transcript: Transcript, place: int, id: str, call: JsonObject, answered: set[str]) -> None:
    name, child, arguments = files.text(call, "name"), files.text(call, "agentId"), files.inner(call, "args")
    if child and name != "invoke_agent":  # older versions have one tool for each sub-agent
        name, arguments = "invoke_agent", {"agent_name": name, **arguments}
    if transcript.call(id, name, arguments, child):
        answered.discard(id)
    results = _parts(call.get("result"))
    responses = [response for part in results if (response := files.inner(part, "functionResponse"))]
    mine = next((each for each in responses if each.get("id") == id), next(iter(responses), {}))
    status, display = files.text(call, "status"), files.inner(call, "resultDisplay")
    if id in answered or not (mine or call.get("result") or status in ("success", "error", "cancelled")):
        return
    answered.add(id)
    transcript.at(call.get("timestamp"), place, "gemini")
    text, is_error = _output(mine) if mine else (text_of(call.get("result")), False)
    is_error = is_error or status in ("error", "cancelled")
    code = None
    if name == "run_shell_command":
        text, code = _shell(text, is_over=not is_error and arguments.get("is_background") is not True)
    before, after = display.get("originalContent"), display.get("newContent")
    transcript.result(
        id,
        text,
        exit_code=code,
        diff=re.sub(r"\AIndex: .*\n=+\n", "", files.text(display, "fileDiff")) or None,
        before=before if isinstance(before, str) else None,
        after=after if isinstance(after, str) else None,
        pictures=_pictures(results),
        is_error=is_error,
        is_denied=status == "cancelled" and ("did not allow" in text or "denied" in text),
    )


def _output(response: JsonObject) -> tuple[str, bool]:
    """The text of a function's response, and whether it is an error."""
    found = files.inner(response, "response")
    if isinstance(found.get("error"), str):
        return found["error"], True
    if isinstance(found.get("output"), str):
        return found["output"], False
    return (json.dumps(found, ensure_ascii=False) if found else ""), False


def _shell(text: str, is_over: bool) -> tuple[str, int | None]:
    """What a command printed, and its exit code. The agent writes fields around it; no code and no signal means 0."""
    inside = _WRAPPED.match(text)
    text = inside[1] if inside else text
    if old := _OLD_FIELDS.match(text):
        text = text[old.end() :]
    if not text.startswith("Output: "):
        return text, None
    code = 0 if is_over else None
    for _ in range(_SHELL_FIELDS):
        rest, _line, last = text.rpartition("\n")
        if (found := _SHELL_FIELD.fullmatch(last)) is None:
            break
        text = rest
        if last.startswith("Signal: ") and found[1] != "(none)":
            code = None
        elif last.startswith("Exit Code: ") and found[1].isdecimal():
            code = int(found[1][:9])
    text = text.removeprefix("Output: ")
    return ("" if text == "(empty)" else text), code


def _parts(content: Any) -> list[JsonObject]:
    """The parts of a content: a text, a part, or a list of both."""
    found = content if isinstance(content, list) else [content]
    parts = ({"text": part} if isinstance(part, str) else part for part in found)
    return [part for part in parts if isinstance(part, dict)]


def _prompt(record: JsonObject) -> str:
    """What the user typed in a message; empty if it is something else."""
    if record.get("type") != "user":
        return ""
    if shown := text_of(record.get("displayContent")):
        return shown
    texts = (files.text(part, "text") for part in _parts(record.get("content")))
    said = (text for text in texts if text and not text.lstrip().startswith(_INJECTED))
    return "\n".join(f"! {by_hand[0]}" if (by_hand := _by_hand(text)) else text for text in said)


def _by_hand(text: str) -> tuple[str, str] | None:
    """The command that the user ran and what it printed, in a prompt that tells it; None for another prompt."""
    text = text.strip()
    if not text.startswith(_BY_HAND) or not text.endswith(_BY_HAND_END):
        return None
    command, found, printed = text.removeprefix(_BY_HAND).partition(_PRODUCED)
    return (command, printed.removesuffix(_BY_HAND_END)) if found and printed.endswith(_BY_HAND_END) else None


def _pictures(parts: list[JsonObject]) -> list[str]:
    data = (files.inner(part, "inlineData") for part in parts)
    found = ((files.text(each, "mimeType"), files.text(each, "data")) for each in data)
    return [f"data:{kind};base64,{text}" for kind, text in found if kind.startswith("image/") and text]


def _is_said(entry: _Entry | None) -> bool:
    """Whether an entry belongs to the conversation: a prompt or an answer."""
    return entry is not None and (entry.kind == "gemini" or (entry.kind == "user" and bool(_prompt(entry.record))))


def _from(entries: dict[str, _Entry], first: str) -> Iterator[_Entry]:
    is_dropped = False
    for id, entry in entries.items():
        is_dropped = is_dropped or id == first
        if is_dropped:
            yield entry
