"""One call of one model through litellm, in the model host: stream it, put it together, then check that it is
whole.

Tool calls are handed on only from an answer that the provider has declared finished. litellm ends every
stream as if it were whole, so the finish reason is taken from what the provider itself sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from core.errors import ModelErrorKind
from core.llm.failures import BadAnswer
from core.llm.pictures import without_pictures
from core.llm.providers import provider_of
from core.llm.wire import Line

MAX_ANSWER_CHARS = 8_000_000
"""No model answers at such length; a broken server may."""

OnDelta = Callable[[str, str], None]
"""Takes a piece of text and its channel, `answer` or `reasoning`."""


class _Answer:
    """An answer while it comes in."""

    def __init__(self) -> None:
        self.id = ""
        self.texts: list[str] = []
        self.calls: list[dict[str, str]] = []
        self.finish_reason: str | None = None
        self.usage: Any = None
        self._call_at: dict[int, dict[str, str]] = {}
        self._size = 0

    def add(self, chunk: Any, on_delta: OnDelta) -> None:
        """Take in one chunk of the stream."""
        self.id = self.id or str(getattr(chunk, "id", "") or "")
        self.usage = getattr(chunk, "usage", None) or self.usage
        for choice in (getattr(chunk, "choices", None) or [])[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            delta = choice.delta
            if reasoning := getattr(delta, "reasoning_content", None):
                on_delta(str(reasoning), "reasoning")
            if text := getattr(delta, "content", None):
                self._grow(len(text))
                self.texts.append(text)
                on_delta(text, "answer")
            for part in getattr(delta, "tool_calls", None) or []:
                self._add_call_part(part)

    def _add_call_part(self, part: Any) -> None:
        """Add to the call at the part's index; a new id at an old index begins another call."""
        index = part.index or 0
        call = self._call_at.get(index)
        if call is None or (part.id and call["id"] and part.id != call["id"]):
            call = {"id": part.id or "", "name": "", "arguments": ""}
            self._call_at[index] = call
            self.calls.append(call)
        function = part.function
        name, arguments = (function.name or "", function.arguments or "") if function else ("", "")
        self._grow(len(name) + len(arguments))
        call["id"] = call["id"] or part.id or ""
        call["name"] += name
        call["arguments"] += arguments

    def _grow(self, chars: int) -> None:
        self._size += chars
        if self._size > MAX_ANSWER_CHARS:
            raise BadAnswer(ModelErrorKind.BAD_RESPONSE, f"an answer of more than {MAX_ANSWER_CHARS} characters")


async def complete(litellm: Any, order: Line, on_delta: OnDelta) -> Line:
    """Carry out an order of `wire` and give what its `done` line says.

    Raises what litellm raises, BadAnswer for a stream that is not whole, TimeoutError. Cancelling closes the
    connection to the provider.
    """
    settings = order["settings"]
    clock = asyncio.get_running_loop().time
    end_at = clock() + settings["total_timeout_s"]
    answer, stream, begun = _Answer(), None, False
    try:
        async with asyncio.timeout_at(min(end_at, clock() + settings["first_token_timeout_s"])) as limit:
            stream = await litellm.acompletion(**_arguments(litellm, order))
            async for chunk in stream:
                begun = True
                limit.reschedule(min(end_at, clock() + settings["idle_timeout_s"]))
                answer.add(chunk, on_delta)
    except TimeoutError as error:
        raise TimeoutError(_late(begun, clock() >= end_at, settings)) from error
    finally:
        if stream is not None and hasattr(stream, "aclose"):
            await stream.aclose()
    _check_whole(answer, stream)
    return _done(litellm, order["model"], answer)


def _sees(litellm: Any, model: str, settings: Line) -> bool:
    """Whether the model is to be shown pictures."""
    if settings["vision"] != "auto":
        return bool(settings["vision"] == "yes")
    entry = price_of(litellm.model_cost, model)
    return bool(entry and entry.get("supports_vision"))


def _takes_tools(litellm: Any, model: str, settings: Line) -> bool:
    """Whether the model may be given tools. litellm silently drops what it knows a model not to take."""
    if settings["tools"] != "auto":
        return bool(settings["tools"] == "yes")
    entry = price_of(litellm.model_cost, model)
    if entry is not None and entry.get("supports_function_calling") is False:
        return False
    try:
        taken = litellm.get_supported_openai_params(model)
    except Exception:  # noqa: BLE001  # boundary: litellm does not know the model; then its provider says
        return True
    return taken is None or "tools" in taken


def _arguments(litellm: Any, order: Line) -> dict[str, Any]:
    import httpx

    settings, model = order["settings"], order["model"]
    if order["tools"] and not _takes_tools(litellm, model, settings):
        raise BadAnswer(ModelErrorKind.NO_TOOLS, "nothing was sent to it")
    timeout = httpx.Timeout(settings["total_timeout_s"], connect=settings["connect_timeout_s"])
    arguments: dict[str, Any] = {
        "model": model,
        "messages": order["messages"] if _sees(litellm, model, settings) else without_pictures(order["messages"]),
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": timeout,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
    }
    if order["tools"]:
        # Without this, litellm looks for tools of MCP servers, and fails where the package for those is
        # missing.
        arguments |= {"tools": order["tools"], "_skip_mcp_handler": True}
    if order["stop"]:
        arguments["stop"] = order["stop"]
    if settings["temperature"] is not None:
        arguments["temperature"] = settings["temperature"]
    if settings["api_base"]:
        arguments["api_base"] = settings["api_base"]
    provider = provider_of(model)
    if provider and provider.prefix == "openai" and not os.environ.get("OPENAI_API_KEY"):
        # Servers on this machine want no key, but the client library refuses to go without.
        arguments["api_key"] = "none"
    return arguments


def _late(begun: bool, at_end: bool, settings: Line) -> str:
    if at_end:
        return f"the answer took longer than {settings['total_timeout_s']:g} s"
    if begun:
        return f"nothing more came for {settings['idle_timeout_s']:g} s"
    return f"no answer began within {settings['first_token_timeout_s']:g} s"


def _check_whole(answer: _Answer, stream: Any) -> None:
    """Raise BadAnswer unless the provider itself said that the answer is finished."""
    finished = answer.finish_reason
    if hasattr(stream, "received_finish_reason"):
        finished = stream.received_finish_reason or getattr(stream, "intermittent_finish_reason", None)
    if finished:
        return
    if not answer.texts and not answer.calls:
        raise BadAnswer(ModelErrorKind.BAD_RESPONSE, "nothing. Is the address of its API right?")
    raise BadAnswer(ModelErrorKind.CONNECTION, "the answer broke off before its end")


def _done(litellm: Any, model: str, answer: _Answer) -> Line:
    usage = answer.usage
    details = getattr(usage, "prompt_tokens_details", None)
    price = price_of(litellm.model_cost, model)
    return {
        "answer_id": answer.id,
        "text": "".join(answer.texts),
        "tool_calls": answer.calls,
        "finish_reason": answer.finish_reason or "stop",
        "prompt_tokens": _count(usage, "prompt_tokens"),
        "completion_tokens": _count(usage, "completion_tokens"),
        "cache_read_tokens": _count(details, "cached_tokens"),
        "cache_write_tokens": _count(usage, "cache_creation_input_tokens"),
        "context_window": _count(price, "max_input_tokens"),
        "cost": _cost(litellm, model, usage) if price is not None else None,
    }


def price_of(table: dict[str, Any], model: str) -> dict[str, Any] | None:
    """What litellm's table says about a model; None where it has no entry, or one for another provider's."""
    prefix, _, name = model.partition("/")
    for key in (model, name):
        entry = table.get(key)
        if isinstance(entry, dict) and str(entry.get("litellm_provider", "")).startswith(prefix):
            return entry
    return None


def _cost(litellm: Any, model: str, usage: Any) -> float | None:
    """US dollars; None where litellm cannot say, for the price is unknown then and not nothing."""
    if usage is None:
        return None
    try:
        response = litellm.ModelResponse(model=model, usage=usage)
        return float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # noqa: BLE001  # boundary: litellm documents no exceptions, and a price must not fail an answer
        return None


def _count(holder: Any, name: str) -> int:
    """A number of tokens, wherever it stands; 0 where it is missing or no sensible number."""
    value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    return value if isinstance(value, int) and value > 0 else 0
