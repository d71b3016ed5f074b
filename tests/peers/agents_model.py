"""A scripted model for other agents: one server that speaks Anthropic's, OpenAI's and Google's forms.

Each agent has its own first part of the path, under which it finds the form that it uses. A script is a list of
answers; which one comes next follows from the request alone, so that requests may be repeated.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web

JsonObject = dict[str, Any]
PROMPT_TOKENS, CACHED_TOKENS, ANSWER_TOKENS = 100, 30, 40
"""What each answer of a script costs; the cached ones are among those of the prompt. Other answers are free."""
MAX_REQUEST_BYTES = 64 * 1024 * 1024


class Call(NamedTuple):
    """A call of one of the agent's tools."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence, a call, or both."""

    text: str = ""
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of one model to one agent. Requests of other models, or without tools, get a title."""

    model: str
    answers: Sequence[Answer]

    def answer(self, model: str, has_tools: bool, results: int) -> tuple[Answer, bool]:
        """The answer after so many results of calls, and whether it is one of the script."""
        if model != self.model or (not has_tools and any(answer.call for answer in self.answers)):
            return Answer("A title"), False
        return self.answers[min(results, len(self.answers) - 1)], True


class ScriptedModel:
    """Answers HTTP requests by the script of the agent that the path names."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.answered: Counter[str] = Counter()
        """How many answers of its script each agent got."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The address of a server on this machine."""
        application = web.Application(client_max_size=MAX_REQUEST_BYTES)
        application.router.add_post("/{agent}/{path:.*}", self._post)
        application.router.add_get("/{agent}/{path:.*}", self._get)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _get(self, request: web.Request) -> web.Response:
        """The list of models."""
        script = self.scripts[request.match_info["agent"]]
        return web.json_response({"object": "list", "data": [{"id": script.model, "object": "model"}], "models": []})

    async def _post(self, request: web.Request) -> web.Response:
        agent, path = request.match_info["agent"], request.match_info["path"]
        body: JsonObject = await request.json()
        form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
        if form is None:
            return web.json_response({"input_tokens": 1, "totalTokens": 1})
        if ":" in path:  # Google names the model there
            body["model"] = path.rpartition("/")[2].partition(":")[0]
            body["stream"] = "stream" in path
        answer, is_scripted = self.scripts[agent].answer(
            str(body.get("model")), bool(body.get("tools")), _results(body)
        )
        self.answered[agent] += is_scripted
        whole, events = form(answer, str(body.get("model")), int(is_scripted))
        if not body.get("stream"):
            return web.json_response(whole)
        return web.Response(text="".join(events), content_type="text/event-stream")


def _results(body: JsonObject) -> int:
    """How many results of calls a request has; every answer has at most one call."""
    parts: list[JsonObject] = []
    for message in (body.get("messages") or []) + (body.get("contents") or []):
        content = message.get("content") or message.get("parts")
        parts += [message, *(content if isinstance(content, list) else [])]
    parts += body["input"] if isinstance(body.get("input"), list) else []
    return sum(
        part.get("role") == "tool"
        or part.get("type") in ("tool_result", "function_call_output", "custom_tool_call_output")
        or "functionResponse" in part
        for part in parts
        if isinstance(part, dict)
    )


def _event(data: JsonObject, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def _anthropic(answer: Answer, model: str, cost: int) -> tuple[JsonObject, list[str]]:
    blocks: list[tuple[JsonObject, JsonObject, JsonObject]] = []
    """Each block as a whole, at its beginning, and what comes then."""
    if answer.text:
        text = {"type": "text", "text": answer.text}
        blocks.append((text, {**text, "text": ""}, {"type": "text_delta", "text": answer.text}))
    if answer.call:
        use = {"type": "tool_use", "id": f"toolu_{_id()}", "name": answer.call.name, "input": answer.call.arguments}
        change = {"type": "input_json_delta", "partial_json": json.dumps(answer.call.arguments)}
        blocks.append((use, {**use, "input": {}}, change))
    usage = {
        "input_tokens": (PROMPT_TOKENS - CACHED_TOKENS) * cost,
        "cache_read_input_tokens": CACHED_TOKENS * cost,
        "cache_creation_input_tokens": 0,
        "output_tokens": ANSWER_TOKENS * cost,
    }
    end = {"stop_reason": "tool_use" if answer.call else "end_turn", "stop_sequence": None}
    begun = {"id": f"msg_{_id()}", "type": "message", "role": "assistant", "model": model, "usage": usage}
    events: list[JsonObject] = [{"type": "message_start", "message": {**begun, "content": [], "stop_reason": None}}]
    for index, (_whole, first, change) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events.append({"type": "content_block_delta", "index": index, "delta": change})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": end, "usage": usage})
    events.append({"type": "message_stop"})
    whole = {**begun, **end, "content": [block for block, _first, _change in blocks]}
    return whole, [_event(event, event["type"]) for event in events]


def _chat_completion(answer: Answer, model: str, cost: int) -> tuple[JsonObject, list[str]]:
    message: JsonObject = {"role": "assistant", "content": answer.text}
    if answer.call:
        function = {"name": answer.call.name, "arguments": json.dumps(answer.call.arguments)}
        message["tool_calls"] = [{"index": 0, "id": f"call_{_id()}", "type": "function", "function": function}]
    usage = {
        "prompt_tokens": PROMPT_TOKENS * cost,
        "completion_tokens": ANSWER_TOKENS * cost,
        "total_tokens": (PROMPT_TOKENS + ANSWER_TOKENS) * cost,
        "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS * cost},
    }
    reason = "tool_calls" if answer.call else "stop"
    begun = {"id": f"chatcmpl-{_id()}", "created": 1_700_000_000, "model": model}
    whole_choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {**begun, "object": "chat.completion", "choices": [whole_choice], "usage": usage}
    chunk = {**begun, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return whole, [*map(_event, events), "data: [DONE]\n\n"]


def _response(answer: Answer, model: str, cost: int) -> tuple[JsonObject, list[str]]:
    items: list[JsonObject] = []
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "id": f"msg_{_id()}", "content": content})
    if answer.call:
        called = {"name": answer.call.name, "arguments": json.dumps(answer.call.arguments)}
        items.append({"type": "function_call", "id": f"fc_{_id()}", "call_id": f"call_{_id()}", **called})
    usage = {
        "input_tokens": PROMPT_TOKENS * cost,
        "input_tokens_details": {"cached_tokens": CACHED_TOKENS * cost},
        "output_tokens": ANSWER_TOKENS * cost,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": (PROMPT_TOKENS + ANSWER_TOKENS) * cost,
    }
    begun = {"id": f"resp_{_id()}", "object": "response", "created_at": 1_700_000_000, "model": model}
    whole = {**begun, "status": "completed", "output": items, "usage": usage}
    events: list[JsonObject] = [{"type": "response.created", "response": {**begun, "status": "in_progress"}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return whole, [_event(event, event["type"]) for event in events]


def _generated_content(answer: Answer, model: str, cost: int) -> tuple[JsonObject, list[str]]:
    parts: list[JsonObject] = [{"text": answer.text}] if answer.text else []
    if answer.call:
        parts.append({"functionCall": {"name": answer.call.name, "args": answer.call.arguments}})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": PROMPT_TOKENS * cost,
        "cachedContentTokenCount": CACHED_TOKENS * cost,
        "candidatesTokenCount": ANSWER_TOKENS * cost,
        "totalTokenCount": (PROMPT_TOKENS + ANSWER_TOKENS) * cost,
    }
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": _id()}
    return whole, [_event(whole)]


def _id() -> str:
    return uuid.uuid4().hex[:16]


FORMS: Mapping[str, Callable[[Answer, str, int], tuple[JsonObject, list[str]]]] = {
    "/messages": _anthropic,
    "/chat/completions": _chat_completion,
    "/responses": _response,
    ":generateContent": _generated_content,
    ":streamGenerateContent": _generated_content,
}
"""By the end of the path: the answer as a whole, and as the events of a stream. The last argument is 0 for no cost."""
