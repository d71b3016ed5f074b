"""What one record of the Codex CLI says, and the events that it becomes.

`codex` finds the records of a session and their order.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from core.import_export.agents import files
from core.import_export.agents.transcript import Transcript, Usage, difference, pictures_of, text_of

JsonObject = dict[str, Any]
_ITEMS = {
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "web_search_call", "tool_search_call", "tool_search_output", "image_generation_call",
    "compaction", "context_compaction", "ghost_snapshot", "other",
}  # fmt: skip
"""Of the Responses API; the oldest files have them without an envelope."""
_KNOWN = {
    "session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state", "token_usage_record",
}  # fmt: skip
_INJECTED = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>", "<skill>",
    "<user_shell_command>", "<subagent_notification>", "<permissions instructions>", "<collaboration_mode>",
)  # fmt: skip
"""How messages of the role `user` begin that the program wrote."""
_REQUEST = "## My request for Codex:"
"""Editors write what is open before this line."""
_HEADER = re.compile(
    r"(?:Chunk ID: \w+\n)?(?:Exit code: (?P<code>-?\d{1,9})\n)?(?:Wall time: [\d.]+ seconds?\n)?"
    r"(?:Process exited with code (?P<ended>-?\d{1,9})\n|Process running with session ID \d+\n)?"
    r"(?:Original token count: \d+\n)?(?:Total output lines: \d+\n)?Output:\n"
)
_HEADERS = 2
"""A patch that was applied through a shell has two."""
_DENIED = re.compile(r"rejected by (?:the )?user|(?:denied|declined) by (?:the )?user")
_FAILED = re.compile(r"unsupported (?:custom tool )?call|failed to parse|apply_patch verification failed")


@dataclass(frozen=True, slots=True)
class Record:
    """A line of a session."""

    place: str | int
    timestamp: Any
    kind: str
    payload: JsonObject
    ordinal: int | None
    whole: JsonObject
    event: str
    """The type of an event; empty if it is none."""

    def is_event(self, *types: str) -> bool:
        return bool(self.event) and self.event in types

    @property
    def item(self) -> JsonObject:
        """The turn item that was completed; empty if there is none."""
        return files.inner(self.payload, "item") if self.is_event("item_completed") else {}

    @property
    def turn_id(self) -> str:
        """The turn that begins here."""
        begins = self.kind == "turn_context" or self.is_event("task_started", "turn_started")
        return files.text(self.payload, "turn_id") if begins else ""

    @property
    def is_prompt_event(self) -> bool:
        return self.is_event("user_message") or self.item.get("type") == "UserMessage"

    def prompt(self, *, has_events: bool) -> tuple[str, list[str]]:
        """What the user typed, and the pictures with it; both empty if there is nothing of that.

        `has_events` says that prompts have events of their own: messages of the role `user` are then no prompts.
        """
        if self.is_event("user_message"):
            pictures = [url for url in files.items(self.payload, "images") if isinstance(url, str)]
            return files.text(self.payload, "message"), [url for url in pictures if url.startswith("data:image/")]
        if (item := self.item).get("type") == "UserMessage":
            return text_of(item.get("content")), pictures_of(item.get("content"))
        if has_events or self.kind != "response_item" or self.payload.get("role") != "user":
            return "", []
        content = self.payload.get("content")
        text = text_of(content)
        return ("", []) if text.lstrip().startswith(_INJECTED) else (text, pictures_of(content))


def record_of(place: str | int, value: Any) -> Record:
    """The record on a line. The oldest files have no envelope around an item."""
    whole = value if isinstance(value, dict) else {"value": value}
    kind, payload = files.text(whole, "type"), whole.get("payload")
    if not isinstance(payload, dict):
        if kind in _ITEMS:
            kind, payload = "response_item", whole
        else:
            kind, payload = "session_meta" if not kind and "id" in whole else kind, whole
    ordinal = whole.get("ordinal")
    is_ordinal = isinstance(ordinal, int) and not isinstance(ordinal, bool)
    event = files.text(payload, "type") if kind == "event_msg" else ""
    return Record(place, whole.get("timestamp"), kind, payload, ordinal if is_ordinal else None, whole, event)


def is_uuid7(id: str) -> bool:
    """Whether an id is one of those that are ordered by the time when they were made."""
    return len(id) == 36 and id[14] == "7"


def without_context(prompt: str) -> tuple[str, str]:
    """A prompt without what an editor wrote before it, and that."""
    context, request, typed = prompt.partition(_REQUEST)
    return (typed.strip(), context) if request else (prompt, "")


@dataclass
class Facts:
    """What other records tell about a record."""

    copied: int = 0
    """How many records, from the first on, come from another session."""
    has_prompts: dict[bool, bool] = field(default_factory=lambda: {True: False, False: False})
    """Whether prompts have events of their own: among the copied records, and among the others."""
    has_counts: bool = False
    """Whether there are events that count tokens."""
    calls: set[str] = field(default_factory=set)
    """The ids of the model's calls."""
    items: dict[str, JsonObject] = field(default_factory=dict)
    """Turn items by the id of the call that they tell about."""
    children: dict[str, str] = field(default_factory=dict)
    """The session of the sub-agent for each call that started one."""
    compactions: list[tuple[int, str]] = field(default_factory=list)
    """The places of compactions, and their summaries."""
    unknown: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Iterable[Record], copied: int = 0) -> Facts:
        facts = cls(copied)
        for place, record in enumerate(records):
            facts._look_at(place, record)
        return facts

    def _look_at(self, place: int, record: Record) -> None:
        payload, call = record.payload, files.text(record.payload, "call_id")
        if record.is_prompt_event:
            self.has_prompts[place < self.copied] = True
        self.has_counts = self.has_counts or record.is_event("token_count")
        if item := record.item or _item_of_event(record):
            id = files.text(item, "id")
            self.items[id] = item
            agents = [agent for agent in files.items(item, "receiver_thread_ids") if isinstance(agent, str)]
            if agents and item.get("tool") in ("spawn_agent", "spawnAgent"):
                self.children[id] = agents[0]
        elif record.kind == "compacted":
            self.compactions.append((place, files.text(payload, "message")))
        elif record.kind == "response_item" and call:
            output = payload.get("output")
            if isinstance(output, str) and output.startswith('{"agent_id"'):
                with suppress(ValueError, RecursionError):
                    self.children.setdefault(call, files.text(json.loads(output), "agent_id"))
            elif output is None:
                self.calls.add(call)
        elif record.kind not in _KNOWN:
            self.unknown.add(record.kind[:40] or "?")

    def prompt(self, place: int, record: Record) -> tuple[str, list[str]]:
        """What the user typed in a record, and the pictures with it."""
        return record.prompt(has_events=self.has_prompts[place < self.copied])

    def is_summary(self, place: int, text: str) -> bool:
        """Whether an answer is the summary of the compaction that comes next: the user did not see it."""
        after = bisect_left(self.compactions, (place, ""))
        return bool(text) and after < len(self.compactions) and self.compactions[after][1].endswith(text)


@dataclass
class Writer:
    """Makes events of the records of one branch."""

    transcript: Transcript
    facts: Facts
    _model: str = ""
    _twins: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """Texts of this turn that were seen in one of the two views, and not yet in the other."""
    _total: tuple[int, ...] = ()
    _answered: set[str] = field(default_factory=set)

    def add(self, place: int, record: Record) -> None:
        """Write the events of a record. The tokens of a copy were counted in the session that it comes from."""
        payload, transcript, is_copy = record.payload, self.transcript, place < self.facts.copied
        type = files.text(payload, "type")
        transcript.at(record.timestamp, record.place, f"{record.kind}.{type}" if type else record.kind)
        prompt, pictures = self.facts.prompt(place, record)
        if prompt or pictures:
            self._twins.clear()
            typed, context = without_context(prompt)
            transcript.user(typed, pictures)
            if context:
                transcript.unknown("context", {"text": context})
            return
        match record.kind:
            case "response_item":
                self._item(place, payload, type)
            case "event_msg":
                self._event(record, type, is_copy=is_copy)
            case "compacted":
                transcript.compacted(files.text(payload, "message"))
            case "turn_context":
                self._model = files.text(payload, "model") or self._model
                transcript.model = transcript.model or self._model
                transcript.unknown("turn_context", payload)
            case "token_usage_record" if not self.facts.has_counts:
                self._count(files.inner(payload, "thread_token_usage"), files.inner(payload, "usage"), is_copy=is_copy)
            case kind:
                transcript.unknown(kind, record.whole)

    # -- items of the Responses API ------------------------------------------------------------------------------------

    def _item(self, place: int, payload: JsonObject, type: str) -> None:
        transcript, call = self.transcript, files.text(payload, "call_id") or files.text(payload, "id")
        match type:
            case "message" if payload.get("role") == "assistant":
                text = text_of(payload.get("content"))
                if self.facts.is_summary(place, text):
                    transcript.unknown("summary", payload)
                else:
                    self._said(text, is_event=False)
            case "reasoning":
                self._thought(payload.get("summary"), is_event=False)
                if not payload.get("summary"):
                    self._thought(payload.get("content"), is_event=False)
            case "function_call":
                self._call(call, _full_name(payload), payload.get("arguments"))
            case "custom_tool_call":
                self._call(call, _full_name(payload), payload.get("input"))
            case "local_shell_call":
                self._call(call, "local_shell", payload.get("action"))
            case "web_search_call":
                self._search(call, files.inner(payload, "action"))
            case "tool_search_call" | "image_generation_call":
                self._call(call, type.removesuffix("_call"), payload.get("arguments") or payload)
            case "function_call_output" | "custom_tool_call_output":
                self._output(call, payload.get("output"))
            case _:
                transcript.unknown(f"item.{type}", payload)

    def _call(self, id: str, name: str, arguments: Any) -> None:
        if self.transcript.call(id, name, arguments, self.facts.children.get(id, "")):
            self._answered.discard(id)

    def _search(self, id: str, action: JsonObject) -> None:
        url = files.text(action, "url")
        self._call(id, "fetch" if url and action.get("type") == "open_page" else "web_search", action)

    def _output(self, id: str, output: Any) -> None:
        if id in self._answered:
            self.transcript.unknown("output", {"call_id": id, "output": output})
            return
        item = self.facts.items.get(id, {})
        text, code, is_failure = _printed(output)
        if item.get("type") == "CommandExecution":
            code = _code(item) if code is None or _code(item) is not None else code
            text = max(text, files.text(item, "aggregated_output"), key=len)
        elif code is not None and self.transcript.action_of(id) == "call_tool_mcp":
            text = text_of(output) or text  # of `write_stdin`, whose result has no other place for the code
        self._result(id, item, text, code, pictures_of(output), is_error=is_failure or bool(_FAILED.match(text)))

    def _result(
        self, id: str, item: JsonObject, text: str, code: int | None, pictures: list[str], *, is_error: bool = False
    ) -> None:
        self._answered.add(id)
        status = files.text(item, "status")
        has_failed = status == "failed" or item.get("success") is False
        has_failed = has_failed or files.inner(item, "result", "Ok").get("isError") is True
        self.transcript.result(
            id,
            text,
            exit_code=code,
            diff=_diff(item.get("changes")),
            pictures=pictures,
            is_error=is_error or has_failed or bool(code),
            is_denied=status == "declined" or (code is None and bool(_DENIED.search(text[:400]))),
        )

    # -- events and turn items -----------------------------------------------------------------------------------------

    def _event(self, record: Record, type: str, *, is_copy: bool) -> None:
        payload, transcript = record.payload, self.transcript
        match type:
            case "agent_message":
                self._said(files.text(payload, "message"), is_event=True)
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self._thought([files.text(payload, "text")], is_event=True)
            case "token_count":
                info = files.inner(payload, "info")
                if info:
                    total, last = (files.inner(info, f"{name}_token_usage") for name in ("total", "last"))
                    self._count(total, last, is_copy=is_copy)
            case "turn_aborted":
                transcript.stopped(files.text(payload, "reason"))
            case "error" | "stream_error":
                transcript.error(files.text(payload, "message"))
            case "item_completed":
                self._turn_item(record.item)
            case _ if item := _item_of_event(record):
                self._turn_item(item)
            case _:
                if type in ("task_started", "turn_started"):
                    self._twins.clear()
                transcript.unknown(type or "event", record.whole)

    def _turn_item(self, item: JsonObject) -> None:
        """An item that is not the other view of a call of the model."""
        id, type = files.text(item, "id"), files.text(item, "type")
        if id in self.facts.calls or self.transcript.has_call(id):
            return
        match type:
            case "AgentMessage" | "Plan":
                self._said(text_of(item.get("content")) or files.text(item, "text"), is_event=True)
            case "Reasoning":
                self._thought(item.get("summary_text") or item.get("raw_content"), is_event=True)
            case "CommandExecution":
                given = {"command": item.get("command"), "cwd": files.text(item, "cwd").removeprefix("file://")}
                self.transcript.call(id, "shell", given, by_user=item.get("source") == "user_shell")
                self._result(id, item, files.text(item, "aggregated_output"), _code(item), [])
            case "FileChange":
                paths = ", ".join(map(str, files.inner(item, "changes")))
                self._call(id, "apply_patch", {"path": paths, "diff": _diff(item.get("changes")) or ""})
                self._result(id, item, files.text(item, "stdout") + files.text(item, "stderr"), None, [])
            case "McpToolCall":
                self._call(id, f"mcp__{files.text(item, 'server')}__{files.text(item, 'tool')}", item.get("arguments"))
                result = files.inner(item, "result")
                content = files.inner(result, "Ok").get("content", result.get("content"))
                error = files.text(result, "Err") or files.text(item, "error")
                self._result(id, item, text_of(content) or error, None, pictures_of(content), is_error=bool(error))
            case "CollabAgentToolCall":
                self._call(id, files.text(item, "tool"), {"message": files.text(item, "prompt")})
            case "WebSearch":
                self._search(id, {"query": item.get("query"), **files.inner(item, "action")})
            case _:
                self.transcript.unknown(f"item.{type}", item)

    # -- both views ----------------------------------------------------------------------------------------------------

    def _said(self, text: str, *, is_event: bool) -> None:
        if self._is_first("said", text, is_event=is_event):
            self.transcript.says(text)

    def _thought(self, parts: Any, *, is_event: bool) -> None:
        for part in parts if isinstance(parts, list) else []:
            text = text_of(part)
            if self._is_first("thought", text, is_event=is_event):
                self.transcript.thinks(text)

    def _is_first(self, what: str, text: str, *, is_event: bool) -> bool:
        """Whether a text was not in the other view already."""
        if self._twins[what, text, not is_event] > 0:
            self._twins[what, text, not is_event] -= 1
            return False
        self._twins[what, text, is_event] += 1
        return True

    def _count(self, total: JsonObject, last: JsonObject, *, is_copy: bool) -> None:
        """Count a model call, unless its total was told before: events are repeated when limits change."""
        names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
        now = tuple(files.number(total, name) for name in names)
        before, self._total = self._total, now
        if is_copy or now == before:
            return
        step = [files.number(last, name) for name in names]
        if not last:
            step = [max(0, new - old) for new, old in zip(now, before or (0, 0, 0, 0), strict=True)]
        prompt, completion, cached, written = step
        self.transcript.spent(Usage(self._model, prompt, completion, cached, written))


def _item_of_event(record: Record) -> JsonObject:
    """The turn item that an event of the legacy mode tells; empty if it tells none."""
    payload, call = record.payload, files.text(record.payload, "call_id")
    if not record.event or not call:
        return {}
    match record.event:
        case "patch_apply_end":
            return {**payload, "id": call, "type": "FileChange"}
        case "exec_command_end":
            return {**payload, "id": call, "type": "CommandExecution"}
        case "mcp_tool_call_end":
            return {**payload, **files.inner(payload, "invocation"), "id": call, "type": "McpToolCall"}
        case "web_search_end":
            return {**payload, "id": call, "type": "WebSearch"}
        case "collab_agent_spawn_end":
            agents = [payload.get("new_thread_id")]
            return {**payload, "id": call, "type": "CollabAgentToolCall", "tool": "spawn_agent",
                    "receiver_thread_ids": agents}  # fmt: skip
    return {}


def _full_name(payload: JsonObject) -> str:
    """The name of a tool; tools of MCP servers have the server's as their namespace."""
    name, space = files.text(payload, "name"), files.text(payload, "namespace")
    return f"{space.rstrip('_')}__{name}" if space.startswith("mcp__") else name


def _printed(output: Any) -> tuple[str, int | None, bool]:
    """What a tool printed, its exit code if it is told, and whether it says that it failed."""
    code, is_failure = None, False
    if isinstance(output, str) and output.startswith('{"output"'):
        with suppress(ValueError, RecursionError):
            output = json.loads(output)
    if isinstance(output, Mapping):
        code, is_failure = _code(files.inner(output, "metadata")), output.get("success") is False
        output = output.get("output", output.get("content", output.get("body")))
    text = text_of(output)
    for _ in range(_HEADERS):
        if (header := _HEADER.match(text)) and header[0] != "Output:\n":  # a command can print that line
            text, told = text[header.end() :], header["code"] or header["ended"]
            code = int(told) if told and code is None else code
    return text, code, is_failure


def _code(fields: JsonObject) -> int | None:
    code = fields.get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31 else None


def _diff(changes: Any) -> str | None:
    """The unified diff of the files that were changed; None if it is not told."""
    found = []
    for path, change in changes.items() if isinstance(changes, dict) else ():
        content = files.text(change, "content")
        match files.text(change, "type"):
            case "add":
                found.append(difference("", content, path))
            case "delete":
                found.append(difference(content, "", path))
            case _ if diff := files.text(change, "unified_diff"):
                head = "" if diff.startswith("--- ") else f"--- {path}\n+++ {files.text(change, 'move_path') or path}\n"
                found.append(head + diff.rstrip("\n"))
    return "\n".join(filter(None, found)) or None
