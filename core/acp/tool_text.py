"""What another agent reports about its tool calls, as text to store. Pure."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from acp.schema import (
    AgentPlanUpdate,
    ContentToolCallContent,
    FileEditToolCallContent,
    RequestPermissionRequest,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

MAX_TITLE = 200
MAX_TEXT = 20_000
"""Of what one tool call is told with."""
MAX_CALLS = 1000
"""Tool calls of one prompt that are kept in mind."""
DONE = ("completed", "failed")
_FENCE = re.compile(r"`{3,}")

Call = ToolCallStart | ToolCallProgress | ToolCallUpdate


class Tools:
    """The tool calls of one prompt, each as all its updates make it."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def told(self, update: Call) -> str:
        """The text of a tool call that is done with this update; empty for any other."""
        call = self.take(update)
        if call.get("status") not in DONE or call.get("told"):
            return ""
        call["told"] = True
        title = one_line(call.get("title") or update.tool_call_id, MAX_TITLE)
        body = content_text(call.get("content") or [])
        head = f"\n\nThe other agent used a tool of its own ({call.get('kind') or 'other'}, {call['status']}): {title}"
        return f"{head}\n{fenced(body)}\n\n" if body else f"{head}\n\n"

    def take(self, update: Call) -> dict[str, Any]:
        """The call with what an update says of it."""
        while len(self._calls) >= MAX_CALLS and update.tool_call_id not in self._calls:
            del self._calls[next(iter(self._calls))]
        call = self._calls.setdefault(update.tool_call_id, {})
        for name in ("title", "kind", "status", "content", "raw_input"):
            if (value := getattr(update, name, None)) is not None:
                call[name] = value
        return call


def question_of(request: RequestPermissionRequest, tools: Tools) -> tuple[str, dict[str, Any]]:
    """What a permission is asked for: a title, and everything that the user has to see before a yes."""
    call = tools.take(request.tool_call)
    arguments: dict[str, Any] = {"kind": str(call.get("kind") or "other")}
    if (given := call.get("raw_input")) is not None:
        arguments["input"] = json.loads(json.dumps(given, default=str))
    if body := content_text(call.get("content") or [], limit=None):
        arguments["content"] = body
    return one_line(call.get("title") or request.tool_call.tool_call_id, MAX_TITLE), arguments


def plan_text(plan: AgentPlanUpdate) -> str:
    """A plan as a list."""
    marks = {"completed": "x", "in_progress": "~"}
    lines = [f"- [{marks.get(entry.status, ' ')}] {one_line(entry.content, MAX_TITLE)}" for entry in plan.entries[:100]]
    return "\n\nPlan:\n" + "\n".join(lines) + "\n\n" if lines else ""


def content_text(content: list[Any], limit: int | None = MAX_TEXT) -> str:
    """The content of a tool call as text; an edit as its diff. The middle is left out beyond `limit` characters."""
    parts: list[str] = []
    for item in content:
        match item:
            case ContentToolCallContent(content=TextContentBlock(text=text)):
                parts.append(text)
            case FileEditToolCallContent(path=path, old_text=old, new_text=new):
                before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
                parts.append("".join(difflib.unified_diff(before, after, path, path)))
    text = "\n".join(parts).strip("\n")
    if limit is None or len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters are left out …]\n{text[-limit // 2 :]}"


def one_line(text: str, limit: int) -> str:
    """A text without line breaks, at most so long."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def fenced(text: str) -> str:
    """A block of code that nothing in the text can end."""
    fence = "`" * (max((len(run) for run in _FENCE.findall(text)), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"
