"""The messages of a task of Cline or Roo Code as events: what the user saw, or what the model got (`editor_tasks`)."""

from __future__ import annotations

import json
import re
from collections import deque
from contextlib import suppress
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.marked_text import Replacement, replacements, tagged
from core.import_export.agents.transcript import (
    Transcript,
    Usage,
    difference,
    pictures_of,
    text_of,
)

JsonObject = dict[str, Any]

_TAGS = ("task", "feedback", "user_message", "answer")
"""What is around the words of the user in what the model got."""
_RESULT = re.compile(r"\A\[[^\n]{1,4096}?\] Result:\n?")
_EXIT_CODE = re.compile(r"\bexit code:? (-?\d{1,6})\b", re.IGNORECASE)
_PRINTED = re.compile(r"(?:\A|\n)(?:Output:|Here's the output so far:)")
"""Comes before what the command printed, in what the model got."""
_STATUS_CHARS = 400
_DENIED = re.compile(r'\{\s*"status":\s*"denied"|The user denied this operation')
"""How results of calls begin that the user refused."""
_ADDED = ("[", "<", "# task_progress", "# TODO")
"""How texts begin that the extension adds to the words of the user."""
_CHECK = re.compile(r"^[ \t]*[-*] \[([ xX~-])\] (.+)$", re.MULTILINE)
_REQUIRES_APPROVAL, _HAS_CHANGES = "REQ_APP", "HAS_CHANGES"
_EDITS = ("editedExistingFile", "appliedDiff", "newFileCreated", "insertContent", "searchAndReplace", "fileDeleted")
_FAILURES = (
    "error", "diff_error", "api_req_failed", "clineignore_error", "rooignore_error", "condense_context_error",
    "mistake_limit_reached", "command_permission_denied",
)  # fmt: skip
_ANSWERS = ("completion_result", "plan_mode_respond", "act_mode_respond", "followup")


# -- what the user saw -------------------------------------------------------------------------------------------------


class UiReader:
    """Makes the events of one task of what its user saw."""

    def __init__(self, transcript: Transcript, api: list[Any]) -> None:
        self.transcript, self.api = transcript, api
        self.has_prompt = False
        self.command = ""
        """The id of the command whose output comes next."""
        self.command_message: JsonObject = {}
        self.output: list[str] = []
        self.tool = ""
        """The id of the last call that can still have a result."""
        self.task = ""
        """The id of the call that started the last sub-task."""
        self.results: dict[int, deque[str]] = {}
        """The results in a message of what the model got, by its place, as far as they were not used."""

    def read(self, messages: list[Any]) -> None:
        for number, message in enumerate(messages):
            fields = files.inner(message)
            kind = files.text(fields, "ask") if fields.get("type") == "ask" else files.text(fields, "say")
            if kind != "command_output":
                self._end_command(is_over=kind in ("api_req_started", "command", "tool"))
            self.transcript.at(fields.get("ts"), f"message {number}", kind)
            if not kind:
                self.transcript.unknown("message", message)
            elif fields.get("partial") is not True:
                self._message(number, kind, fields)
        self._end_command(is_over=True)

    def _message(self, number: int, kind: str, message: JsonObject) -> None:
        text, id, t = files.text(message, "text"), f"message {number}", self.transcript
        pictures = [url for url in files.items(message, "images") if isinstance(url, str) and url.startswith("data:")]
        if kind != "reasoning":
            t.thinks(files.text(message, "reasoning"))
        if kind in ("task", "user_feedback") or (kind == "text" and not self.has_prompt):
            self.has_prompt = True
            t.user(text, pictures)
        elif kind == "text":
            t.says(text)
        elif kind == "reasoning":
            t.thinks(text or files.text(message, "reasoning"))
        elif kind in _ANSWERS:
            value = _parsed(text)
            said = files.text(value, "question") or files.text(value, "response") or text.removesuffix(_HAS_CHANGES)
            t.says(said)
        elif kind == "api_req_started":
            self._request(text, id)
        elif kind == "command":
            t.call(id, "bash", {"command": text.removesuffix(_REQUIRES_APPROVAL).rstrip() or "?"})
            self.command, self.command_message = id, message
        elif kind == "command_output" and self.command:
            self.output.append(text)
        elif kind == "tool":
            self._tool(id, _parsed(text), message)
        elif kind == "use_mcp_server":
            self._mcp(id, _parsed(text))
            self._result(message)  # the user saw it too
        elif kind == "mcp_server_response" and self.tool:
            t.result(self.tool, text)
            self.tool = ""
        elif kind in ("browser_action", "browser_action_launch"):
            t.call(id, "browser_action", text)
            self.tool = id
        elif kind == "browser_action_result" and self.tool:
            value = _parsed(text)
            shot = files.text(value, "screenshot")
            t.result(self.tool, files.text(value, "logs"), pictures=[shot] if shot.startswith("data:image/") else [])
        elif kind == "subtask_result" and self.task:
            t.result(self.task, text)
        elif kind in ("condense_context", "condense", "summarize_task", "compaction"):
            summary = files.text(files.inner(message, "contextCondense"), "summary") or text
            t.compacted(summary) if summary else t.unknown(kind, message)
        elif kind == "task_progress" and (steps := _CHECK.findall(text)):
            todos = [{"content": title, "status": _status(mark)} for mark, title in steps]
            t.call(id, "update_todo_list", {"todos": todos})
        elif kind in _FAILURES:
            t.error(text)
        else:
            t.unknown(kind, message)

    def _end_command(self, is_over: bool) -> None:
        """The result of a command, once no more of its output comes."""
        if self.command and (self.output or is_over):
            told = self._result(self.command_message)
            text = "\n".join(filter(None, self.output)) or told
            self.transcript.result(self.command, text, exit_code=_code(told), is_denied=bool(_DENIED.match(told)))
            self.command, self.output = "", []

    def _request(self, text: str, id: str) -> None:
        value = _parsed(text)
        reads, writes = files.number(value, "cacheReads"), files.number(value, "cacheWrites")
        usage = Usage("", files.number(value, "tokensIn") + reads + writes, files.number(value, "tokensOut"), reads,
                      writes, files.dollars(value, "cost"))  # fmt: skip
        if usage != Usage():
            self.transcript.spent(usage, id)
        reason = files.text(value, "cancelReason")
        if reason == "user_cancelled":
            self.transcript.stopped("Cancelled by the user")
        elif reason or files.text(value, "streamingFailedMessage"):
            self.transcript.error(files.text(value, "streamingFailedMessage") or reason)

    def _tool(self, id: str, value: JsonObject, message: JsonObject) -> None:
        name, path, content = files.text(value, "tool"), files.text(value, "path"), files.text(value, "content")
        t, told = self.transcript, self._result(message)
        if name in _EDITS and path:
            diff = files.text(value, "diff") or content
            t.call(id, *_edit(name, path, files.text(value, "diff"), content))
            is_denied = bool(_DENIED.match(told))
            shown = _unified(diff, path) if name != "newFileCreated" or _is_unified(diff) else None
            t.result(id, told if is_denied else "", diff=shown, is_denied=is_denied)
        elif name == "readFile":
            paths = [files.text(each, "path") for each in files.items(value, "batchFiles")] or [path]
            for place, each in enumerate(filter(None, paths)):
                t.call(f"{id}/{place}", "read", {"path": each})
                t.result(f"{id}/{place}", ("" if place else told) or content)
        elif name in ("updateTodoList", "user_edit_todos"):
            t.call(id, "update_todo_list", value)
        elif name == "newTask":
            t.call(id, "new_task", {"mode": files.text(value, "mode"), "message": content})
            self.task = id
        elif name == "summarizeTask":
            t.compacted(content) if content else t.unknown(name, value)
        elif name == "webFetch" and path:
            t.call(id, "fetch", {"url": path})
        elif name:
            t.call(id, name, {key: each for key, each in value.items() if key not in ("tool", "content")})
            if content or told:
                t.result(id, content or told)
        else:
            t.unknown("tool", message)

    def _mcp(self, id: str, value: JsonObject) -> None:
        server, tool = files.text(value, "serverName"), files.text(value, "toolName") or files.text(value, "uri")
        self.transcript.call(id, f"{server}__{tool}" if server else tool or "mcp", value.get("arguments"))
        self.tool = id

    def _result(self, message: JsonObject) -> str:
        """What the model got for a tool, found by the message's place in what the model got.

        One message has the results of all tools of an answer, in their order, so it is called once for each tool.
        """
        start = message.get("conversationHistoryIndex")
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            return ""
        is_answered = False
        for place in range(start, min(start + 4, len(self.api))):
            role = files.text(self.api[place], "role")
            if role == "user" and is_answered:
                if place not in self.results:
                    self.results[place] = deque(_results(files.inner(self.api[place]).get("content")))
                if self.results[place]:
                    return self.results[place].popleft()
            is_answered = is_answered or role == "assistant"
        return ""


def _edit(name: str, path: str, diff: str, content: str) -> tuple[str, JsonObject]:
    """The call of an edit, in the form of the common tools."""
    if name == "newFileCreated":
        return "write", {"path": path, "content": content}
    text = diff or content
    if len(blocks := _blocks(text)) == 1:
        return "edit", {"path": path, "old_string": blocks[0].old, "new_string": blocks[0].new}
    return "apply_diff", {"path": path, "diff": text}


def _blocks(text: str) -> list[Replacement]:
    return replacements(text.splitlines())


def _unified(text: str, path: str) -> str | None:
    if _is_unified(text):
        return text
    parts = (difference(block.old, block.new, path) for block in _blocks(text))
    return "\n".join(filter(None, parts)) or None


def _is_unified(text: str) -> bool:
    return text.startswith(("@@", "--- ", "Index: ", "diff --git ", "===")) and "@@" in text


def _status(mark: str) -> str:
    return {"x": "completed", "X": "completed", "~": "in_progress", "-": "in_progress"}.get(mark, "pending")


def _parsed(text: str) -> JsonObject:
    with suppress(ValueError, RecursionError):
        return files.inner(json.loads(text))
    return {}


# -- what the model got ------------------------------------------------------------------------------------------------


def read_api(transcript: Transcript, messages: list[Any]) -> None:
    """The messages of the model, for a task without the other file."""
    for number, message in enumerate(messages):
        role, fields = files.text(message, "role"), files.inner(message)
        transcript.at(fields.get("ts"), f"message {number}", role)
        content = fields.get("content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            kind, text = files.text(block, "type"), files.text(block, "text")
            if kind == "text" and role == "assistant":
                transcript.says(text)
            elif kind == "text" and role == "user" and (prompt := said(text)):
                transcript.user(prompt)
            elif kind == "tool_use":
                transcript.call(files.text(block, "id"), files.text(block, "name"), block.get("input"))
            elif kind == "tool_result":
                result = block.get("content")
                told = text_of(result)
                transcript.result(
                    files.text(block, "tool_use_id"),
                    told,
                    exit_code=_code(told),
                    pictures=pictures_of(result),
                    is_error=block.get("is_error") is True,
                    is_denied=bool(_DENIED.match(told)),
                )
            elif kind in ("thinking", "reasoning"):
                transcript.thinks(files.text(block, "thinking") or text)
            else:
                transcript.unknown(kind or role or "message", block)


def said(text: str) -> str:
    """What the user typed, in a text that the model got; empty if there is nothing of it."""
    if found := [said for tag in _TAGS for said in tagged(text, tag)[0]]:
        return "\n".join(found)
    text = _without_details(text)
    return "" if text.startswith(_ADDED) else text


def _results(content: Any) -> list[str]:
    """The results of tools in a message of the user, without what the extension adds to them."""
    results, others = list[str](), list[str]()
    is_result = False
    for block in content if isinstance(content, list) else [content]:
        text = _without_details(text_of(files.inner(block).get("content") or block))
        head = _RESULT.match(text)
        if is_result:
            results[-1] = text
        elif head or files.text(block, "type") == "tool_result":
            results.append(text[head.end() :] if head else text)
        elif not text.startswith(_ADDED):
            others.append(text)
        is_result = head is not None and head.end() == len(text)  # older versions put the result in the next block
    return results or ["\n".join(filter(None, others))]


def _code(told: str) -> int | None:
    """The exit code in what the model got for a command; None if only what the command printed has one."""
    status = _PRINTED.split(told[:_STATUS_CHARS], maxsplit=1)[0]
    return int(found[1]) if (found := _EXIT_CODE.search(status)) else None


def _without_details(text: str) -> str:
    return tagged(text, "environment_details")[1]
