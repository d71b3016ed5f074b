"""Chats of aider: `.aider.chat.history.md` in each project, one Markdown file for all chats, which only grows.

A line `# aider chat started at <time>` begins a chat; it has no other id than its file and place. aider ends the lines
of the user (`#### `) and of its own output (`> `) with two spaces; the same marks without them are part of an answer.
Edits are taken from the answer: blocks of search and replace, diffs, or whole files. There are no times but that of the
start, which is this machine's, and no exit codes. Seen: aider 0.86.2.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from core.import_export.agents import files
from core.import_export.agents.marked_text import replacements
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line, local_time
from core.import_export.bounded_json import Fault

NAME = "aider"
_FILE = ".aider.chat.history.md"
_LIST_BYTES = 64 * 1024 * 1024
"""How much of a file is searched for the beginnings of chats, from its end: nothing else says where they are."""
_START = re.compile(rb"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t\r]*$", re.MULTILINE)
_MODEL = re.compile(r"^> (?:Main model|Model|Models): (\S+) with ([\w-]+) edit format", re.MULTILINE)
_TOKENS = re.compile(
    r"Tokens: ([\d.,]{1,12})([kM]?) sent"
    r"(?:, ([\d.,]{1,12})([kM]?) cache write)?(?:, ([\d.,]{1,12})([kM]?) cache hit)?"
    r", ([\d.,]{1,12})([kM]?) received\.(?: Cost: \$([\d.]{1,12}) message)?"
)
_PROMPT = re.compile(r"^#### (.*)  $", re.MULTILINE)
_APPLIED = re.compile(r"(?:Applied edit to|Did not apply edit to|Skipping edits to) (.+?)(?: \(--dry-run\))?")
_ERRORS = ("litellm.", "The LLM did not conform", "Retrying in ", "Unable to ", "Only 3 reflections", "Can't ")
_FAILED_BLOCK = re.compile(r"> # \d+ SEARCH/REPLACE blocks? failed to match!")
_THINKING, _ANSWER = "► **THINKING**", "► **ANSWER**"
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,}|</?source>)")
_UNIT = {"": 1, "k": 1_000, "M": 1_000_000}
_END = "  "
"""What aider writes at the end of its own lines and the user's."""


def discover(places: Places) -> Iterator[AgentSession]:
    """The chats in known projects, in the home folder, and in the file that the environment names."""
    named = places.variable("AIDER_CHAT_HISTORY_FILE", places.home / _FILE)
    paths = dict.fromkeys((*(project / _FILE for project in places.projects), places.home / _FILE, named))
    for path in paths:
        if path.is_absolute():
            with suppress(OSError):
                yield from _sessions(path)


def read(session: AgentSession) -> Transcript:
    """One chat. Raises OSError, and Fault if the file has no such chat any more."""
    with files.open_below(session.root, session.path) as file:
        file.seek(int(session.row or 0))
        data = file.read(min(session.size, files.MAX_FILE_BYTES))
    started = _START.match(data)
    if started is None:
        raise Fault("the chat is not where it was; the file was changed")
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")  # other line ends are text
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    transcript.at(local_time(started[1].decode()), 1, "start")
    _Reader(transcript, _model(data)[1]).read(lines)
    return transcript


def _sessions(path: Path) -> Iterator[AgentSession]:
    with files.open_below(path.parent, path) as file:
        offset = max(0, file.seek(0, os.SEEK_END) - _LIST_BYTES)
        file.seek(offset)
        data = file.read(_LIST_BYTES)
        changed = files.changed_ns(file)
    starts = [(match.start(), local_time(match[1].decode())) for match in _START.finditer(data)]
    seen: dict[str, int] = {}
    for (start, time), (end, _time) in pairwise([*starts, (len(data), "")]):
        chat = data[start:end]
        is_last = end == len(data)
        began = as_time(time)
        id = f"{files.path_id(path)}-{re.sub(r'[^0-9]', '', time)[:14]}"
        seen[id] = seen.get(id, 0) + 1
        head = chat[: files.EDGE_BYTES].decode("utf-8", "replace")
        prompt = _PROMPT.search(head)
        used = [_usage(match) for match in _TOKENS.finditer(chat.decode("utf-8", "replace"))]
        costs = [each.cost for each in used if each.cost is not None]
        yield AgentSession(
            agent=NAME,
            id=id if seen[id] == 1 else f"{id}-{seen[id]}",
            root=path.parent,
            path=path,
            row=str(offset + start),
            title=first_line(prompt[1]) if prompt else "",
            folder=str(path.parent),
            model=_model(chat)[0],
            started_at=began,
            updated_at=as_time(changed / 1e9) if is_last else began,
            size=end - start,
            changed_ns=changed if is_last or began is None else int(began.timestamp()) * 10**9,
            tokens=sum(each.prompt + each.completion for each in used),
            cost=sum(costs) if costs else None,
        )


def _model(chat: bytes) -> tuple[str, str]:
    """The model of a chat, and the format in which it writes edits."""
    found = _MODEL.search(chat[: files.EDGE_BYTES].decode("utf-8", "replace"))
    return (found[1], found[2]) if found else ("", "")


def _usage(found: re.Match[str]) -> Usage:
    def number(group: int) -> int:
        with suppress(ValueError):
            return int(float((found[group] or "0").replace(",", "")) * _UNIT[found[group + 1] or ""])
        return 0

    cost = None
    with suppress(ValueError):
        cost = float(found[9]) if found[9] else None
    return Usage("", number(1), number(7), number(5), number(3), cost)


@dataclass(slots=True)
class _Edit:
    """An edit in an answer."""

    name: str
    arguments: dict[str, str]
    path: str
    diff: str = ""


class _Reader:
    """Makes the events of one chat. Lines of the same kind that follow each other are one event."""

    def __init__(self, transcript: Transcript, format: str) -> None:
        self.transcript, self.format = transcript, format
        self.waiting: dict[str, list[tuple[str, _Edit]]] = {}
        """The edits that were not applied yet, by their file."""

    def read(self, lines: list[str]) -> None:
        group: list[str] = []
        before, is_failure = "", False
        for number, line in enumerate(lines, 1):
            kind, text = _kind(line)
            if is_failure or _FAILED_BLOCK.match(line):  # one message of several lines, of which only the last ends so
                is_failure = not line.endswith(_END)
                kind, text = "failure", line.removeprefix("> ")
            if kind != before or kind == "start":
                self._group(before, group, number - len(group))
                group = []
            group.append(text)
            before = kind
        self._group(before, group, len(lines) + 1 - len(group))

    def _group(self, kind: str, lines: list[str], number: int) -> None:
        text = "\n".join(lines).strip()
        if not text and kind != "user":
            return
        self.transcript.at(None, number, kind)
        match kind:
            case "user":
                command = text.removeprefix("/run ").removeprefix("!")
                if command != text and command.strip():
                    self.transcript.call(f"line {number}", "bash", {"command": command.strip()}, by_user=True)
                else:
                    self.transcript.user(text)
            case "tool":
                self._tool(lines)
            case "failure":
                self._failed(text)
            case "answer":
                self._answer(text, number)

    def _answer(self, text: str, number: int) -> None:
        self.waiting = {}
        before, thought, rest = text.partition(_THINKING)
        if thought:
            thoughts, _sign, answer = rest.partition(_ANSWER)
            self.transcript.thinks(thoughts.strip("-\n "))
            text = before.rstrip("-\n ") + answer
        edits, rest = _edits(text, self.format)
        self.transcript.says(rest)
        for place, edit in enumerate(edits):
            id = f"line {number}/{place}"
            self.transcript.call(id, edit.name, edit.arguments)
            self.waiting.setdefault(edit.path, []).append((id, edit))

    def _tool(self, lines: list[str]) -> None:
        others: list[str] = []
        for line in lines:
            if applied := _APPLIED.fullmatch(line):
                for id, edit in self.waiting.pop(applied[1], []):
                    is_applied = line.startswith("Applied")
                    self.transcript.result(id, line, diff=edit.diff or None, is_error=not is_applied)
            elif found := _TOKENS.search(line):
                self.transcript.spent(_usage(found))
            elif line.startswith(_ERRORS):
                self.transcript.error(line)
            elif line == "^C again to exit" or line.startswith("^C KeyboardInterrupt"):
                self.transcript.stopped("Interrupted by the user")
            else:
                others.append(line)
        if others:
            self.transcript.unknown("output", {"text": "\n".join(others)})

    def _failed(self, text: str) -> None:
        """Edits that could not be applied."""
        edits = [id for waiting in self.waiting.values() for id, _edit in waiting]
        self.waiting = {}
        for id in edits:
            self.transcript.result(id, text, is_error=True)
        if not edits:
            self.transcript.error(text)


def _kind(line: str) -> tuple[str, str]:
    if _START.match(line.encode("utf-8", "replace")):
        return "start", ""
    if line.endswith(_END) and line.startswith("#### "):
        return "user", line[5:-2]
    if line.endswith(_END) and line.startswith("> "):
        return "tool", line[2:-2]
    return "answer", line


def _edits(text: str, format: str) -> tuple[list[_Edit], str]:
    """The edits in an answer, and the answer without them."""
    lines = text.split("\n")
    taken: set[int] = set()
    edits: list[_Edit] = []
    before = ""
    for block in replacements(lines):
        path, first = _path(lines, block.first)
        path = before = path or before  # several blocks can follow one name
        if path:
            end = block.end + (block.end < len(lines) and bool(_FENCE.match(lines[block.end])))
            taken.update(range(first, end))
            edits.append(_Edit("edit", {"path": path, "old_string": block.old, "new_string": block.new}, path))
    if not edits:
        for first, end in _fences(lines):
            inside = lines[first + 1 : end]
            body = "".join(f"{line}\n" for line in inside)
            target = next((line[4:].split("\t")[0].strip() for line in inside if line.startswith("+++ ")), "")
            path, start = _path(lines, first + 1)
            if lines[first].strip().endswith("diff") and target:
                path = target.removeprefix("b/")
                taken.update(range(first, end + 1))
                edits.append(_Edit("apply_diff", {"path": path, "diff": body}, path, body))
            elif format == "whole" and path:
                taken.update(range(start, end + 1))
                edits.append(_Edit("write", {"path": path, "content": body}, path))
    return edits, "\n".join(line for number, line in enumerate(lines) if number not in taken).strip()


def _path(lines: list[str], first: int) -> tuple[str, int]:
    """The name of a file above the line `first`, and the first line that belongs to it; empty if there is none."""
    place = first - 1
    if place >= 0 and _FENCE.match(lines[place]):
        place -= 1
    if place < 0:
        return "", first
    name = lines[place].strip().strip("*`#:").strip()
    if not name or len(name) > 500 or (" " in name and "/" not in name) or _FENCE.match(lines[place]):
        return "", place + 1
    return name, place


def _fences(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each fenced part."""
    first = -1
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            if first < 0:
                first = number
            else:
                yield first, number
                first = -1
