"""What one record of Claude Code says, and the events that it becomes.

`claude_code` finds the records of a session and their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.transcript import Transcript, Usage, pictures_of, text_of

JsonObject = dict[str, Any]
MAX_EDITED_CHARS = 16 * 1024 * 1024
"""An edit that replaces all occurrences is not applied to a longer file: the result could have gigabytes."""
MAX_TASKS = 200
"""Tasks in a task list: each change stores the whole list."""
REQUESTS = ("api-request", "api-request-blob", "api-request-shape")
"""Records of what was sent to the model: messages that others have, and long texts that every search would hit."""
_SENT_TEXTS = "prompt_snapshot"
"""An attachment with the same texts of the program."""
_MAX_INJECTED = 100
_INJECTED = ("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics")
"""Elements that the program puts into prompts."""
_NOT_TYPED = ("<local-command-", "<task-notification>", "<teammate-message", "<bash-stdout>", "<bash-stderr>")
_INTERRUPTED = "[Request interrupted"
_DENIED = re.compile(
    r"requires? (?:explicit )?approval|haven't granted|doesn't want to (?:proceed|take)"
    r"|\APermission [^\n]{1,300} (?:was|been) denied|(?:was|been) blocked\. For security"
)
"""What the result of a call says that was not allowed; only some have `toolDenialKind`."""
_EXIT_CODE = re.compile(r"Exit code (\d{1,9})(?:\n|\Z)")


class Record:
    """A line of a session."""

    __slots__ = ("answer", "blocks", "fields", "kind", "line", "results", "uuid")

    def __init__(self, line: int, fields: JsonObject) -> None:
        self.line = line
        self.fields = fields
        self.kind = files.text(fields, "type")
        self.uuid = files.text(fields, "uuid")
        """Its id in the tree; empty if it is not in the tree."""
        message = fields.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        self.blocks: list[JsonObject] = (
            [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        )
        self.results = [block for block in self.blocks if block.get("type") == "tool_result"]
        self.answer = ""
        """The id of the model call that an `assistant` comes from."""
        if self.kind == "assistant":
            self.answer = f"{files.text(message, 'id') or self.uuid} {files.text(fields, 'requestId')}"

    @property
    def message_id(self) -> str:
        """The id of the model call, which copies of an answer keep."""
        return files.text(self.fields.get("message"), "id") if self.answer else ""

    @property
    def is_said(self) -> bool:
        return self.kind in ("user", "assistant")

    @property
    def is_boundary(self) -> bool:
        """Whether the history before it was replaced by a summary."""
        return self.kind == "system" and self.fields.get("subtype") == "compact_boundary"

    @property
    def is_typed(self) -> bool:
        """Whether it may have something that the user typed."""
        flags = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
        if self.kind != "user" or self.results or any(self.fields.get(flag) is True for flag in flags):
            return False
        return files.text(self.fields.get("origin"), "kind") != "task-notification"

    @property
    def prompt(self) -> str:
        """What the user typed; empty if it has nothing of that."""
        text = text_of(self.blocks) if self.is_typed else ""
        if text.startswith((*_NOT_TYPED, _INTERRUPTED)):
            return ""
        return _command(text) or _without_injected(text)[0]

    @property
    def model(self) -> str:
        model = files.text(self.fields.get("message"), "model")
        return "" if model == "<synthetic>" else model

    @property
    def usage_fields(self) -> JsonObject:
        """The tokens of its answer so far, as it has them; empty without."""
        return files.inner(self.fields, "message", "usage") if self.answer else {}

    @property
    def usage(self) -> Usage:
        """The tokens of its answer so far."""
        usage = self.usage_fields
        written, cached = (files.number(usage, f"cache_{name}_input_tokens") for name in ("creation", "read"))
        return Usage(
            model=self.model,
            prompt=files.number(usage, "input_tokens") + written + cached,
            completion=files.number(usage, "output_tokens"),
            cache_read=cached,
            cache_write=written,
            cost=files.dollars(self.fields, "costUSD"),
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What other records and files tell about a record."""

    results: Mapping[str, JsonObject]
    """`toolUseResult` by the id of the call."""
    usages: Mapping[str, Usage]
    """By answer."""
    children: Mapping[str, str]
    """The session of the sub-agent for each call that started one."""
    output: Callable[[str, JsonObject], str]
    """The whole output of a call, of the text and the `toolUseResult` of its result."""


@dataclass
class Writer:
    """Makes events of the records of one branch."""

    facts: Facts
    transcript: Transcript
    _seen: dict[str, JsonObject] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)
    """The first event of each record."""
    _answered: set[str] = field(default_factory=set)
    _tasks: dict[str, JsonObject] = field(default_factory=dict)
    _boundary: JsonObject | None = None
    _shell: str = ""
    """The last shell command of the user, which waits for its output."""

    def add(self, record: Record, *, is_copy: bool) -> None:
        """Write the events of a record. Those of a copy were counted in the session that it comes from."""
        fields, transcript = record.fields, self.transcript
        transcript.at(fields.get("timestamp"), record.line, record.kind)
        if record.uuid:
            if record.uuid in self._seen:  # messages that a compaction kept are written again
                if fields.get("message") != self._seen[record.uuid].get("message"):
                    transcript.unknown("duplicate", fields)
                return
            self._seen[record.uuid] = fields
            self._places[record.uuid] = len(transcript.forms)
        if record.kind == "assistant":
            self.end()
        match record.kind:
            case "user":
                self._user(record)
            case "assistant":
                self._assistant(record, is_copy=is_copy)
            case "system":
                self._system(record)
            case "attachment":
                self._attachment(fields)
            case kind if kind not in REQUESTS:
                transcript.unknown(kind, fields)

    def end(self) -> None:
        """Write a compaction whose summary did not follow."""
        if self._boundary is not None:
            self._compacted("")

    def _user(self, record: Record) -> None:
        for block in record.results:
            self._result(block, record.fields)
        if record.fields.get("isCompactSummary") is True:
            self._compacted(text_of(record.blocks))
        elif record.is_typed:
            self._typed(text_of(record.blocks), pictures_of(record.blocks), record.fields)
        elif not record.results:
            self.transcript.unknown("user", record.fields)

    def _typed(self, text: str, pictures: list[str], fields: JsonObject) -> None:
        transcript = self.transcript
        if text.startswith(_INTERRUPTED):
            transcript.stopped(text.strip("[]"))
        elif shell := _shell_command(text):
            self._shell = f"user:{len(transcript.forms)}"
            transcript.call(self._shell, "bash", {"command": shell}, by_user=True)
        elif self._shell and text.startswith(("<bash-stdout>", "<bash-stderr>")):
            printed = [_tagged(text, "bash-stdout"), _tagged(text, "bash-stderr")]
            transcript.result(self._shell, "\n".join(filter(None, printed)))
            self._shell = ""
        elif command := _command(text):
            transcript.user(command)
        elif text.startswith(_NOT_TYPED):
            transcript.unknown("user", fields)
        else:
            typed, injected = _without_injected(text)
            transcript.user(typed, pictures)
            if injected:
                transcript.unknown("user.injected", {"texts": injected})
            elif not (typed or pictures):
                transcript.unknown("user", fields)

    def _result(self, block: JsonObject, fields: JsonObject) -> None:
        id, info = files.text(block, "tool_use_id"), files.inner(fields, "toolUseResult")
        if id in self._answered:
            self.transcript.unknown("tool_result", block)
            return
        self._answered.add(id)
        text = (text_of(info.get("content")) if "agentId" in info else "") or text_of(block.get("content"))
        text = self.facts.output(text, info) or files.text(info, "stdout")
        is_error, code = block.get("is_error") is True, None
        if is_error and (failed := _EXIT_CODE.match(text)):
            text, code = text[failed.end() :], int(failed[1])
        elif block.get("is_error") is False or ("stdout" in info and not is_error):
            # only commands have this mark; these ended in another way
            has_other_end = any(info.get(k) for k in ("interrupted", "returnCodeInterpretation", "backgroundTaskId"))
            code = None if has_other_end else 0
        is_denied = bool(files.text(fields, "toolDenialKind")) or (is_error and bool(_DENIED.search(text[:400])))
        before, after = _whole_files(info)
        self.transcript.result(
            id,
            text,
            exit_code=code,
            diff=_diff(info),
            before=before,
            after=after,
            pictures=pictures_of(block.get("content")),
            is_error=is_error,
            is_denied=is_denied and code is None,
        )

    def _assistant(self, record: Record, *, is_copy: bool) -> None:
        transcript = self.transcript
        if not is_copy and (usage := self.facts.usages.get(record.answer)):
            transcript.spent(usage, record.answer)
        transcript.model = transcript.model or record.model
        if record.fields.get("isApiErrorMessage") is True:
            transcript.error(text_of(record.blocks))
        elif files.text(record.fields.get("message"), "model") == "<synthetic>" or not record.blocks:
            transcript.unknown("assistant", record.fields)
        else:
            for block in record.blocks:
                self._block(block)

    def _block(self, block: JsonObject) -> None:
        match block.get("type"):
            case "text":
                self.transcript.says(files.text(block, "text"))
            case "thinking":
                self.transcript.thinks(files.text(block, "thinking"))
            case "tool_use" | "server_tool_use":
                self._call(files.text(block, "id"), files.text(block, "name"), block.get("input"))
            case "redacted_thinking":
                pass
            case _ if id := files.text(block, "tool_use_id"):  # the result of a tool that the provider ran
                self.transcript.result(id, text_of(block.get("content")))
            case kind:
                self.transcript.unknown(f"assistant.{kind}", block)

    def _call(self, id: str, name: str, arguments: Any) -> None:
        given = arguments if isinstance(arguments, dict) else {}
        match name:
            case "TaskCreate" if task := files.text(files.inner(self.facts.results.get(id), "task"), "id"):
                self._tasks[task] = {"id": task, "content": files.text(given, "subject"), "status": "pending"}
            case "TaskUpdate" if (task := files.text(given, "taskId")) in self._tasks:
                changes = {"content": files.text(given, "subject"), "status": files.text(given, "status")}
                self._tasks[task] |= {key: value for key, value in changes.items() if value}
                if changes["status"] == "deleted":
                    del self._tasks[task]
            case _:
                if self.transcript.call(id, name, arguments, self.facts.children.get(id, "")):
                    self._answered.discard(id)
                return
        self.transcript.call(id, "TodoWrite", {"todos": list(self._tasks.values())[-MAX_TASKS:]})

    def _system(self, record: Record) -> None:
        fields, content = record.fields, files.text(record.fields, "content")
        match fields.get("subtype"):
            case "compact_boundary":
                self.end()
                self._boundary = fields
            case "api_error":
                error = files.inner(fields, "error")
                told = files.text(files.inner(error, "error", "error"), "message") or files.text(error, "message")
                self.transcript.error(told or content or "The model call failed.")
            case "local_command" if command := _command(content):
                self.transcript.user(command)
            case subtype:
                self.transcript.unknown(f"system.{subtype}" if isinstance(subtype, str) else "system", fields)

    def _attachment(self, fields: JsonObject) -> None:
        attachment = files.inner(fields, "attachment")
        kind, prompt = files.text(attachment, "type"), attachment.get("prompt")
        if kind == "queued_command" and attachment.get("commandMode", "prompt") == "prompt" and text_of(prompt):
            self.transcript.user(text_of(prompt), pictures_of(prompt))  # typed while the agent worked
        elif kind != _SENT_TEXTS:
            self.transcript.unknown(f"attachment.{kind}", fields)

    def _compacted(self, summary: str) -> None:
        kept = files.text(files.inner(self._boundary, "compactMetadata", "preservedSegment"), "headUuid")
        self._boundary = None
        self.transcript.compacted(summary, self._places.get(kept))


def _command(text: str) -> str:
    """The slash command or the shell command that a prompt consists of, as the user typed it."""
    if text.lstrip().startswith("<command-") and (name := _tagged(text, "command-name")):
        return f"{name} {_tagged(text, 'command-args')}".strip()
    return f"!{shell}" if (shell := _shell_command(text)) else ""


def _shell_command(text: str) -> str:
    return _tagged(text, "bash-input") if text.lstrip().startswith("<bash-input>") else ""


def _tagged(text: str, tag: str) -> str:
    start, end = text.find(f"<{tag}>"), text.find(f"</{tag}>")
    return text[start + len(tag) + 2 : end].strip() if 0 <= start < end else ""


def _without_injected(text: str) -> tuple[str, list[str]]:
    """A prompt without what the program put into it, and these parts."""
    removed: list[str] = []
    for tag in _INJECTED:
        start = text.find(f"<{tag}>")
        while start >= 0 and (end := text.find(f"</{tag}>", start)) >= 0 and len(removed) < _MAX_INJECTED:
            end += len(tag) + 3
            removed.append(text[start:end])
            text = text[:start] + text[end:]
            start = text.find(f"<{tag}>", start)
    return text.strip("\n") if removed else text, removed


def _diff(info: JsonObject) -> str | None:
    """The unified diff of an edit; None if its result has none."""
    path, lines = files.text(info, "filePath"), []
    for hunk in files.items(info, "structuredPatch"):
        old, old_length, new, new_length = (
            files.number(hunk, key) for key in ("oldStart", "oldLines", "newStart", "newLines")
        )
        lines.append(f"@@ -{old},{old_length} +{new},{new_length} @@")
        lines += [line for line in files.items(hunk, "lines") if isinstance(line, str)]
    return "\n".join([f"--- {path}", f"+++ {path}", *lines]) if lines else None


def _whole_files(info: JsonObject) -> tuple[str | None, str | None]:
    """The file before and after an edit, as far as its result tells."""
    kind = info.get("type")
    before = info.get("originalFile", info.get("original_file"))
    after = info.get("updated_file", info.get("content") if kind in ("create", "update") else None)
    if kind == "create" and before is None:
        before = ""
    old, new = info.get("oldString"), info.get("newString")
    if isinstance(before, str) and isinstance(old, str) and isinstance(new, str) and old and old in before:
        count = before.count(old) if info.get("replaceAll") is True else 1
        is_short = len(before) + count * (len(new) - len(old)) <= MAX_EDITED_CHARS
        after = before.replace(old, new, count) if is_short else None
        if info.get("userModified") is True:
            after = None
    return before if isinstance(before, str) else None, after if isinstance(after, str) else None
