"""Logs of Inspect (`inspect_ai`): a zip file `.eval` or a JSON file for each evaluation; each sample is a session.

    header.json, _journal/start.json          the evaluation: model, task, commit; the second if it did not end
    summaries.json, _journal/summaries/*.json what a list shows of each sample
    samples/<id>_epoch_<n>.json               a sample: `messages`, `events`, `attachments`, `scores`, `error`

The transcript follows `messages`. The events add what these leave out: times, tokens of each model call, and exit codes
of commands. Long texts are in `attachments`. Searched are the folder in INSPECT_LOG_DIR and known projects. Newer logs
are compressed with zstd (see `zips`). Seen: 0.3.285.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from core.import_export.agents import files, runs, zips
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line, pictures_of, text_of
from core.import_export.bounded_json import Fault

NAME = "inspect"
JsonObject = dict[str, Any]

_SUFFIXES = (".eval", ".json")
_LOG_NAME = re.compile(r"\d{4}-\d\d-\d\dT[\w:.+-]*?_(.+?)_([A-Za-z0-9]{16,32})\.(?:eval|json)")
_SAMPLE = re.compile(r"samples/(.+)_epoch_(\d{1,9})\.json", re.DOTALL)
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{32})")
MAX_ATTACHED_CHARS = files.MAX_FILE_BYTES
"""Of all attachments in their places: one that is long can be in thousands."""
_LIST_BYTES = 64 * 1024 * 1024
_VERSION = 2
_MAX_SAMPLES = 10_000
"""Of one log."""


def discover(places: Places) -> Iterator[AgentSession]:
    """Each sample of each log in the folder that the environment names, and in projects."""
    folder = places.variable("INSPECT_LOG_DIR", Path())
    found = ((folder, file) for file in files.walk(folder, _SUFFIXES)) if folder.is_absolute() else ()
    seen: set[Path] = set()
    for root, file in (*found, *runs.in_projects(places, _SUFFIXES)):
        if file.path not in seen and (file.path.suffix == ".eval" or _LOG_NAME.fullmatch(file.path.name)):
            seen.add(file.path)
            with suppress(OSError, Fault), files.open_below(root, file.path) as opened:
                yield from (
                    _from_zip(root, file, opened) if file.path.suffix == ".eval" else _from_json(root, file, opened)
                )


def read(session: AgentSession) -> Transcript:
    """One sample. Raises OSError and Fault."""
    with files.open_below(session.root, session.path) as file:
        if session.path.suffix == ".eval":
            info = zips.members(file).get(session.row)
            if info is None:
                raise Fault("the log has no such sample any more")
            sample = _parsed(zips.member(file, info, files.MAX_FILE_BYTES))
            version: Any = _VERSION
            with suppress(Fault):
                version = _member(file, zips.members(file), "header.json").get("version")
        else:
            log = files.read_json(file)
            samples = (each for each in files.items(log, "samples") if _row(each) == session.row)
            sample, version = next(samples, None), files.inner(log).get("version")
    messages = files.items(sample, "messages")
    if not messages:
        raise Fault("it has no messages")
    transcript = Transcript(NAME, session.title, session.folder, session.model, session.commit)
    if isinstance(version, int) and version > _VERSION:
        transcript.warnings.append(f"The log has version {version}, which is newer than this reader.")
    transcript.at(sample.get("started_at") or session.changed_ns / 1e9)
    _Reader(transcript, sample).read(messages)
    return transcript


@dataclass(frozen=True, slots=True)
class _Listed:
    """A sample as the list of a log has it."""

    key: tuple[str, str]
    """Its id and its epoch."""
    row: str
    size: int
    summary: JsonObject


# -- the list ----------------------------------------------------------------------------------------------------------


def _from_zip(root: Path, file: files.FoundFile, opened: BinaryIO) -> Iterator[AgentSession]:
    found = zips.members(opened)
    header: JsonObject = {}
    summaries: dict[tuple[str, str], JsonObject] = {}
    with suppress(Fault):
        header = _member(opened, found, "header.json") or _member(opened, found, "_journal/start.json")
        names = ["summaries.json"] if "summaries.json" in found else sorted(found)
        left = _LIST_BYTES
        for name in names:
            if name == "summaries.json" or name.startswith("_journal/summaries/"):
                data = zips.member(opened, found[name], left)
                left -= len(data)
                value = _parsed(data)
                entries = value if isinstance(value, list) else []
                summaries.update({_key(each): files.inner(each) for each in entries})
    for name, info in list(found.items())[:_MAX_SAMPLES]:
        if match := _SAMPLE.fullmatch(name):
            key = (match[1], match[2])
            listed = _Listed(key, name, info.file_size, summaries.get(key, {}))
            yield _session(root, file, files.inner(header, "eval"), listed)


def _from_json(root: Path, file: files.FoundFile, opened: BinaryIO) -> Iterator[AgentSession]:
    about = files.inner(files.beginning(opened), "eval")
    epochs = max(1, min(files.number(files.inner(about, "config"), "epochs"), 100))
    ids = [str(id) for id in files.items(files.inner(about, "dataset"), "sample_ids") if isinstance(id, str | int)]
    for id in ids[: _MAX_SAMPLES // epochs]:
        for epoch in range(1, epochs + 1):
            yield _session(root, file, about, _Listed((id, str(epoch)), f"{id} {epoch}", file.size, {}))


def _session(root: Path, file: files.FoundFile, about: JsonObject, sample: _Listed) -> AgentSession:
    key, summary = sample.key, sample.summary
    named = _LOG_NAME.fullmatch(file.path.name)
    log = named[2] if named else files.path_id(file.path)
    task = files.text(about, "task") or (named[1] if named else file.path.stem)
    question = summary.get("input")
    if isinstance(question, list):
        users = (each for each in question if files.text(each, "role") == "user")
        question = next((text_of(files.inner(each).get("content")) for each in users), "")
    used = files.inner(summary, "model_usage").values()
    return AgentSession(
        agent=NAME,
        id=f"{log}-{key[0]}-{key[1]}".replace("/", "_"),
        root=root,
        path=file.path,
        row=sample.row,
        title=first_line(f"{task} {key[0]}: {question}" if isinstance(question, str) else f"{task} {key[0]}"),
        folder=str(root) if file.path.parent != root or root.name != "logs" else str(root.parent),
        model=files.text(about, "model"),
        started_at=as_time(summary.get("started_at") or about.get("created")),
        updated_at=as_time(summary.get("completed_at") or file.changed_ns / 1e9),
        size=sample.size,
        changed_ns=file.changed_ns,
        tokens=sum(files.number(each, "total_tokens") for each in used),
        commit=files.text(files.inner(about, "revision"), "commit"),
    )


def _member(file: BinaryIO, found: Mapping[str, zipfile.ZipInfo], name: str) -> JsonObject:
    info = found.get(name)
    return {} if info is None else files.inner(_parsed(zips.member(file, info, _LIST_BYTES)))


def _parsed(data: bytes) -> Any:
    try:
        return files.parse(data)
    except ValueError as error:
        raise Fault(f"it is not JSON ({error})") from error


def _key(summary: Any) -> tuple[str, str]:
    fields = files.inner(summary)
    return str(fields.get("id"))[:1000], str(fields.get("epoch"))[:20]


def _row(sample: Any) -> str:
    return " ".join(_key(sample))


# -- one sample --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Facts:
    """What the events of a sample say of its messages and calls."""

    times: dict[str, Any] = field(default_factory=dict)
    """By the id of the message."""
    usages: dict[str, Usage] = field(default_factory=dict)
    """By the id of the message."""
    codes: dict[str, list[int]] = field(default_factory=dict)
    """The exit codes of the commands that each tool call ran, by the id of the call."""
    others: list[JsonObject] = field(default_factory=list)
    """Events that no message has."""

    @classmethod
    def of(cls, events: list[Any]) -> _Facts:
        facts = cls()
        spans: dict[str, str] = {}  # the tool call of each span
        open_span = ""
        for number, event in enumerate(events):
            kind = files.text(event, "event")
            if kind == "span_begin" and files.text(event, "type") == "tool":
                open_span = files.text(event, "id")
            elif kind == "tool":
                facts.times[files.text(event, "message_id")] = event.get("completed") or event.get("timestamp")
                spans[open_span], open_span = files.text(event, "id"), ""
            elif kind == "sandbox" and isinstance(event.get("result"), int) and event.get("action") == "exec":
                if call := spans.get(files.text(event, "span_id"), ""):
                    facts.codes.setdefault(call, []).append(event["result"])
            elif kind == "model":
                facts._model(event, number)
            elif kind in ("error", "compaction", "sample_limit", "approval", "interrupt", "info"):
                facts.others.append(event)
        return facts

    def _model(self, event: JsonObject, number: int) -> None:
        output = files.inner(event, "output")
        choices = files.items(output, "choices")
        message = files.text(files.inner(choices[0], "message"), "id") if choices else ""
        used = files.inner(output, "usage")
        reads, writes = files.number(used, "input_tokens_cache_read"), files.number(used, "input_tokens_cache_write")
        key = message or f"event {number}"
        self.times[key] = event.get("completed") or event.get("timestamp")
        self.usages[key] = Usage(
            files.text(event, "model"),
            files.number(used, "input_tokens") + reads + writes,
            files.number(used, "output_tokens"),
            reads,
            writes,
            files.dollars(used, "total_cost"),
        )
        if files.text(event, "error"):
            self.others.append(event)


class _Reader:
    """Makes the events of one sample."""

    def __init__(self, transcript: Transcript, sample: JsonObject) -> None:
        self.transcript, self.sample = transcript, sample
        self.attachments = files.inner(sample, "attachments")
        self.facts = _Facts.of(files.items(sample, "events"))
        self.has_prompt = False
        self.left = MAX_ATTACHED_CHARS

    def read(self, messages: list[Any]) -> None:
        t = self.transcript
        for number, message in enumerate(messages):
            role, id = files.text(message, "role"), files.text(message, "id")
            t.at(self.facts.times.get(id), f"message {number}", role)
            if usage := self.facts.usages.pop(id, None):
                t.spent(usage, id)
            self._message(role, files.inner(message), number)
        for id, usage in self.facts.usages.items():
            t.spent(usage, id)
        for event in self.facts.others:
            kind = files.text(event, "event")
            t.at(event.get("timestamp"), files.text(event, "uuid"), kind)
            if kind == "model":
                t.error(self._whole(files.text(event, "error")))
            else:
                t.unknown(kind, event)
        t.at(self.sample.get("completed_at"), "sample", "sample")
        if failure := files.text(files.inner(self.sample, "error"), "message"):
            t.error(self._whole(failure))
        if limit := files.text(files.inner(self.sample, "limit"), "type"):
            t.error(f"The sample was stopped by its limit of {limit}.")
        t.unknown("sample", {key: self.sample.get(key) for key in ("target", "scores", "metadata", "total_time")})

    def _message(self, role: str, message: JsonObject, number: int) -> None:
        t, content = self.transcript, message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if role == "user" and (files.text(message, "source") == "input" or not self.has_prompt):
            self.has_prompt = True
            t.user(self._text(content), self._pictures(content))
        elif role == "assistant":
            for place, block in enumerate(blocks):
                self._block(block, f"message {number}/{place}")
            for call in files.items(message, "tool_calls"):
                if isinstance(call, dict):
                    t.call(files.text(call, "id"), files.text(call, "function") or "tool", self._deep(call))
        elif role == "tool":
            self._result(message, content)
        else:
            t.unknown(role or "message", message)

    def _block(self, block: Any, id: str) -> None:
        kind = files.text(block, "type")
        if kind == "text":
            self.transcript.says(self._whole(files.text(block, "text")))
        elif kind == "reasoning":
            hidden = files.inner(block).get("redacted") is True
            thought = files.text(block, "summary") if hidden else files.text(block, "reasoning")
            self.transcript.thinks(self._whole(thought))
        elif kind == "tool_use":  # a tool that the provider ran
            call = files.text(block, "id") or id
            self.transcript.call(call, files.text(block, "name") or "tool", block.get("arguments"))
            failure = files.text(block, "error")
            self.transcript.result(call, self._text(block.get("result")) or failure, is_error=bool(failure))
        else:
            self.transcript.unknown(kind or "block", block)

    def _result(self, message: JsonObject, content: Any) -> None:
        id, error = files.text(message, "tool_call_id"), files.inner(message, "error")
        codes = self.facts.codes.get(id, [])
        failure = self._whole(files.text(error, "message"))
        self.transcript.result(
            id,
            self._text(content) or failure,
            exit_code=codes[0] if len(codes) == 1 else None,
            pictures=self._pictures(content),
            is_error=bool(error),
            is_denied=error.get("type") == "approval",
        )

    def _deep(self, call: JsonObject) -> Any:
        """The arguments of a call, with its attachments in their places."""
        arguments = call.get("arguments")
        if isinstance(arguments, dict):
            return {key: self._whole(each) if isinstance(each, str) else each for key, each in arguments.items()}
        return arguments

    def _text(self, content: Any) -> str:
        return self._whole(text_of(content))

    def _whole(self, text: str) -> str:
        """The text with its attachments in their places."""
        if "attachment://" not in text:
            return text
        return _ATTACHMENT.sub(self._attached, text)

    def _attached(self, found: re.Match[str]) -> str:
        """The attachment that is named; its name if there is none, or if there were too many."""
        text = files.text(self.attachments, found[1])
        if not text or len(text) > self.left:
            return found[0]
        self.left -= len(text)
        return text

    def _pictures(self, content: Any) -> list[str]:
        blocks = content if isinstance(content, list) else []
        own = [self._whole(files.text(block, "image")) for block in blocks if files.text(block, "type") == "image"]
        return [*(url for url in own if url.startswith("data:image/")), *pictures_of(content)]
