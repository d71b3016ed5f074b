"""Sessions of Cline: of its SDK and command line, and the tasks of its extension for editors.

    ~/.cline/data/sessions/<id>/<id>.json           what a list shows
    ~/.cline/data/sessions/<id>/<id>.messages.json  the messages, as Anthropic's interface has them
    ~/.cline/data/sessions/<id>/agent_*.messages.json   sub-agents
    <folder of the editor>/globalStorage/saoudrizwan.claude-dev/tasks/<id>/...    see `editor_tasks`

A call of `run_commands` or `read_files` has a list of commands or files, each with its own result: each becomes an
action of its own. A prompt is in a tag `user_input`; what is around it was added by Cline. Seen: Cline 3.0.65.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import editor_tasks, files
from core.import_export.agents.marked_text import tagged
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line, pictures_of, text_of
from core.import_export.bounded_json import Fault

NAME = "cline"
EXTENSION = "saoudrizwan.claude-dev"
JsonObject = dict[str, Any]

_MESSAGES = ".messages.json"
_VERSION = 1
_EXITED = re.compile(r"Command exited with code (-?\d{1,6})\b")
_OWN_KEYS = ({"query", "result"}, {"query", "error"}, {"text", "finishReason"})
"""What Cline's own results have; a tool can print other JSON."""
_REJECTED = re.compile(r"Tool call \S{1,200} was rejected(?! before execution: AI_)")
_INJECTED = ("<environment_details>", "<file_content", "<system", "<context", "<workspace")


def discover(places: Places) -> Iterator[AgentSession]:
    """The sessions of the SDK with their sub-agents, and the tasks of the extension."""
    home = places.variable("CLINE_DIR", places.home / ".cline")
    data = places.variable("CLINE_DATA_DIR", home / "data")
    root = places.variable("CLINE_SESSION_DATA_DIR", data / "sessions")
    for file in files.walk(root, _MESSAGES, depth=2):
        with suppress(OSError, Fault):
            if (session := _session(root, file)) is not None:
                yield session
    folders = [folder / EXTENSION for folder in editor_tasks.storage_folders(places)]
    yield from editor_tasks.discover(NAME, (*folders, data))


def read(session: AgentSession) -> Transcript:
    """The whole session. Raises OSError and Fault."""
    if not session.path.name.endswith(_MESSAGES):
        return editor_tasks.read(session)
    with files.open_below(session.root, session.path) as file:
        saved = files.read_json(file)
    messages = files.items(saved, "messages")
    if not messages:
        raise Fault("it has no messages")
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    if saved.get("version") != _VERSION:
        transcript.warnings.append("The file has another version than 1, the one that this reader knows.")
    summary, count = _compaction(session)
    reader = _Reader(transcript, _children(session))
    for number, message in enumerate(messages):
        if summary and number == count:
            transcript.compacted(summary)
        reader.message(number, message)
    if summary and count >= len(messages):
        transcript.compacted(summary)
    return transcript


# -- the list ----------------------------------------------------------------------------------------------------------


def _session(root: Path, file: files.FoundFile) -> AgentSession | None:
    with files.open_below(root, file.path) as opened:
        saved = files.beginning(opened, 16 * 1024)
    messages = files.items(saved, "messages")
    name = file.path.name.removesuffix(_MESSAGES)
    manifest = _manifest(root, file.path)
    origin, metadata = files.inner(saved, "origin"), files.inner(manifest, "metadata")
    is_root = files.text(manifest, "session_id") == name or file.path.parent.name == name
    if not messages and not is_root:
        return None
    prompt = _prompt(text_of(files.inner(messages[0]).get("content")))[0] if messages else ""
    parent = files.text(origin, "parentThreadId") or file.path.parent.name
    used = files.inner(metadata, "usage")
    model = next(filter(None, (files.text(files.inner(each, "modelInfo"), "id") for each in messages)), "")
    return AgentSession(
        agent=NAME,
        id=name if is_root else f"{file.path.parent.name}__{name}",
        root=root,
        path=file.path,
        title=first_line(files.text(metadata, "title") if is_root else "")
        or first_line(files.text(manifest, "prompt") if is_root else prompt)
        or first_line(prompt),
        folder=files.text(manifest, "cwd"),
        model=model or files.text(manifest, "model"),
        started_at=as_time(manifest.get("started_at") if is_root else _time(messages)) or as_time(_time(messages)),
        updated_at=as_time(file.changed_ns / 1e9),
        size=file.size,
        changed_ns=file.changed_ns,
        parent_id="" if is_root else parent,
        tokens=files.number(used, "inputTokens") + files.number(used, "outputTokens") if is_root else 0,
        cost=files.dollars(metadata, "totalCost") if is_root else None,
    )


def _manifest(root: Path, path: Path) -> JsonObject:
    """What a list shows of the session whose folder this is."""
    with suppress(OSError), files.open_below(root, path.with_name(f"{path.parent.name}.json")) as file:
        return files.inner(files.beginning(file))
    return {}


def _time(messages: list[Any]) -> Any:
    return files.inner(messages[0]).get("ts") if messages else None


def _children(session: AgentSession) -> dict[str, str]:
    """The session of each sub-agent, by the task with which it was started."""
    found: dict[str, str] = {}
    for file in files.walk(session.path.parent, _MESSAGES, depth=1):
        if file.path != session.path:
            with suppress(OSError), files.open_below(session.root, file.path) as opened:
                messages = files.items(files.beginning(opened), "messages")
                task = text_of(files.inner(messages[0]).get("content")) if messages else ""
                found.setdefault(task, f"{file.path.parent.name}__{file.path.name.removesuffix(_MESSAGES)}")
    return found


def _compaction(session: AgentSession) -> tuple[str, int]:
    """The summary that replaces messages for the model, and how many it replaces."""
    name = f"{session.path.name.removesuffix(_MESSAGES)}.compaction.json"
    with suppress(OSError, Fault), files.open_below(session.root, session.path.with_name(name)) as file:
        state = files.read_json(file)
        texts = (text_of(files.inner(each).get("content")) for each in files.items(state, "messages"))
        return next(filter(None, texts), ""), files.number(state, "source_message_count")
    return "", 0


# -- messages ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Makes the events of one session."""

    def __init__(self, transcript: Transcript, children: dict[str, str]) -> None:
        self.transcript, self.children = transcript, children
        self.parts: dict[str, list[str]] = {}
        """The ids of the actions that each call became."""

    def message(self, number: int, message: Any) -> None:
        role = files.text(message, "role")
        fields = files.inner(message)
        self.transcript.at(fields.get("ts"), f"message {number}", role)
        if "error" in (role, files.text(files.inner(fields, "metadata"), "displayRole")):
            self.transcript.error(text_of(fields.get("content")))
            return
        if role not in ("user", "assistant"):
            self.transcript.unknown(role or "message", message)
            return
        self._spent(fields)
        for activity in files.items(files.inner(fields, "metadata"), "modelToolActivities"):
            if id := files.text(activity, "toolCallId"):
                self._use({"id": id, "name": activity.get("toolName"), "input": activity.get("input")})
                self._result({"tool_use_id": id, "content": activity.get("output")})
        content = fields.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            self._block(role, block)

    def _block(self, role: str, block: Any) -> None:
        kind = files.text(block, "type")
        match kind:
            case "text" if role == "user":
                self._said(files.text(block, "text"))
            case "text":
                self.transcript.says(files.text(block, "text"))
            case "thinking":
                self.transcript.thinks(files.text(block, "thinking"))
            case "tool_use":
                self._use(block)
            case "tool_result":
                self._result(block)
            case "image" if pictures := _pictures([block]):
                self.transcript.user("", pictures)
            case _:
                self.transcript.unknown(kind or "block", block)

    def _said(self, text: str) -> None:
        prompt, rest = _prompt(text)
        self.transcript.user(prompt)
        if rest:
            self.transcript.unknown("context", {"text": rest})

    def _use(self, block: JsonObject) -> None:
        id, name = files.text(block, "id"), files.text(block, "name") or "tool"
        if id in self.parts or not id:
            return
        calls = list(_calls(name, block.get("input")))
        self.parts[id] = [id if len(calls) == 1 else f"{id}/{number}" for number in range(len(calls))]
        for part, (tool, arguments) in zip(self.parts[id], calls, strict=True):
            child = self.children.get(files.text(arguments, "task"), "") if name == "spawn_agent" else ""
            self.transcript.call(part, tool, arguments, child=child)

    def _result(self, block: JsonObject) -> None:
        parts = self.parts.get(files.text(block, "tool_use_id")) or [files.text(block, "tool_use_id")]
        content, failed = block.get("content"), block.get("is_error") is True
        results = _results(content)
        if len(results) != len(parts):
            results = [("\n".join(text for text, _failed in results), any(bad for _text, bad in results))]
        pictures = _pictures(content)
        for part, (text, is_bad) in zip(parts, results, strict=False):
            code, has_failed = _EXITED.search(text), is_bad or failed
            exit_code = int(code[1]) if code and has_failed else int(has_failed)
            is_denied = has_failed and bool(_REJECTED.match(text))
            self.transcript.result(
                part, text, exit_code=exit_code, pictures=pictures, is_error=has_failed, is_denied=is_denied
            )

    def _spent(self, message: JsonObject) -> None:
        metrics = files.inner(message, "metrics")
        if metrics:
            usage = Usage(
                files.text(files.inner(message, "modelInfo"), "id"),
                files.number(metrics, "inputTokens"),
                files.number(metrics, "outputTokens"),
                files.number(metrics, "cacheReadTokens"),
                files.number(metrics, "cacheWriteTokens"),
                files.dollars(metrics, "cost"),
            )
            self.transcript.spent(usage, files.text(message, "id"))


def _calls(name: str, arguments: Any) -> Iterator[tuple[str, Any]]:
    """The calls that one call of Cline stands for, in the form of the common tools."""
    fields = files.inner(arguments)
    if name == "run_commands" and (commands := files.items(fields, "commands")):
        for command in commands:
            words = files.items(command, "args")
            if isinstance(command, dict):
                known = [word for word in words if isinstance(word, str)]
                text = shlex.join([files.text(command, "command"), *known]) if words else files.text(command, "command")
            else:
                text = command if isinstance(command, str) else str(command)
            yield "bash", {"command": text or "?"}
    elif name == "read_files" and (wanted := files.items(fields, "files") or files.items(fields, "paths")):
        for file in wanted:
            yield "read", {"path": file if isinstance(file, str) else files.text(file, "path")}
    elif name == "editor" and not isinstance(fields.get("old_text"), str):
        path, text, line = files.text(fields, "path"), files.text(fields, "new_text"), fields.get("insert_line")
        if isinstance(line, int) and not isinstance(line, bool):
            yield "editor", {"command": "insert", "path": path, "insert_line": line, "new_str": text}
        else:
            yield "write", {"path": path, "content": text}
    elif name == "editor":
        yield "edit", fields
    elif name == "spawn_agent":
        yield "spawn_agent", {"agent": "sub-agent", **fields}
    else:
        yield name, arguments


def _results(content: Any) -> list[tuple[str, bool]]:
    """The text of each result, and whether it failed."""
    if isinstance(content, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(content)
            if isinstance(value, dict) and (value.keys() == {"error"} or any(own <= value.keys() for own in _OWN_KEYS)):
                return [_one_result(value)]
        return [(content, False)]
    blocks = content if isinstance(content, list) else [content]
    results = [_one_result(block) for block in blocks if isinstance(block, dict) and "result" in block]
    return results or [(text_of(content), False)]


def _one_result(value: JsonObject) -> tuple[str, bool]:
    text = text_of(value.get("result")) or files.text(value, "text")
    failure = files.text(value, "error")
    if failure and failure not in text:
        text = "\n".join(filter(None, (text, failure)))
    return text, value.get("success") is False or bool(failure)


def _prompt(text: str) -> tuple[str, str]:
    """What the user typed, and what Cline added to it."""
    found, rest = tagged(text, "user_input")
    if found:
        return "\n".join(found), rest
    return ("", text.strip()) if text.lstrip().startswith(_INJECTED) else (text, "")


def _pictures(content: Any) -> list[str]:
    """The pictures of Anthropic's form, and of Cline's own with `data` and `mediaType`."""
    own = [
        f"data:{files.text(block, 'mediaType') or 'image/png'};base64,{data}"
        for block in (content if isinstance(content, list) else [])
        if files.text(block, "type") == "image" and (data := files.text(block, "data"))
    ]
    return [*pictures_of(content), *own]
