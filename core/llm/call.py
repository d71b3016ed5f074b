"""One call of one model through litellm, in the model host.

The answer is streamed, assembled and checked. Tool calls are returned only from an answer that the provider itself has
finished. litellm ends every stream as if it were complete and keeps the provider's finish reason on the stream; for
Google's models it reports a reason with every chunk, so there `watch_finish` records the one that Google sent.

Anthropic's models need prompt caching marks, at most four, and continue their reasoning between tool calls: while
reasoning is on, they refuse a request in which a response with tool calls lacks the signed blocks. No other provider
accepts these blocks, so they are sent to no other. A response of another model, or one whose blocks were changed, has
none; then reasoning is off until the next answer.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.errors import ModelErrorKind
from core.llm.host_protocol import Line
from core.llm.inline_images import without_pictures
from core.llm.provider_errors import BadAnswer
from core.llm.providers import provider_of
from core.protocols import THINKING_BLOCKS

Message = dict[str, Any]

OnDelta = Callable[[str, str], None]
"""Takes a chunk of text and its channel, `answer` or `reasoning`."""

MAX_ANSWER_CHARS = 8_000_000
"""More than any model answers; a broken server may send more."""
NO_KEY = "none"
_WITHOUT_API_KEYS = ("bedrock", "sagemaker_chat", "vertex_ai", "github_copilot", "ollama", "ollama_chat")
"""Providers that need no API key: they sign requests, log in, or are local."""
_CACHE_MARK = {"type": "ephemeral"}
_GOOGLE = ("gemini", "vertex_ai")
_FINISH_MARK = "handloom_finished"
"""The attribute on litellm's reader of Google's streams."""
_MILLION = 1_000_000


def needs_cache_marks(model: str) -> bool:
    """Return whether a model caches prompts only where they are marked."""
    provider, _, name = model.partition("/")
    return provider == "anthropic" or (
        provider in ("bedrock", "vertex_ai", "openrouter", "azure_ai", "databricks") and "claude" in name.lower()
    )


def with_cache_marks(messages: Sequence[Message]) -> list[Message]:
    """Return a copy with marks on the instructions and on the two newest user or tool messages.

    The older of the two is the newest of the previous request, so its cache entry is found again.
    """
    marked = list(messages)
    asking = [at for at, message in enumerate(messages) if message.get("role") in ("user", "tool")]
    system = [at for at, message in enumerate(messages[:1]) if message.get("role") == "system"]
    for at in (*system, *asking[-2:]):
        marked[at] = _marked(messages[at])
    return marked


def _marked(message: Message) -> Message:
    """Mark a tool result as a whole, and any other message at its last text."""
    if message.get("role") == "tool":
        return {**message, "cache_control": _CACHE_MARK}
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    last = max((at for at, part in enumerate(parts) if part.get("text")), default=None)
    if last is None:
        return message
    parts[last] = {**parts[last], "cache_control": _CACHE_MARK}
    return {**message, "content": parts}


def price_of(table: Mapping[str, Any], model: str) -> dict[str, Any] | None:
    """Return litellm's entry for a model, or None if it has none for this provider."""
    prefix, _, name = model.partition("/")
    for key in (model, name):
        entry = table.get(key)
        if isinstance(entry, dict) and str(entry.get("litellm_provider", "")).startswith(prefix):
            return entry
    return None


def is_priced(facts: Mapping[str, Any]) -> bool:
    """Return whether the user set the prices of a model, see `settings.ModelFacts`."""
    return facts["price_in"] is not None and facts["price_out"] is not None


def cost_of(counts: Mapping[str, int], facts: Mapping[str, Any]) -> float:
    """Return US dollars by the user's prices. Tokens read from or written to a cache are part of the prompt."""
    read, write = counts["cache_read_tokens"], counts["cache_write_tokens"]
    plain = max(0, counts["prompt_tokens"] - read - write)
    price_in = facts["price_in"]
    read_price, write_price = facts["price_cache_read"], facts["price_cache_write"]
    total = (
        plain * price_in
        + read * (price_in if read_price is None else read_price)
        + write * (price_in if write_price is None else write_price)
        + counts["completion_tokens"] * facts["price_out"]
    )
    return float(total / _MILLION)


def watch_finish(model: str) -> None:
    """Record Google's finish reasons. Call this before the request."""
    provider = provider_of(model)
    if provider is None or provider.prefix not in _GOOGLE:
        return
    from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as google

    pieces: Any = google.ModelResponseIterator
    if hasattr(pieces, _FINISH_MARK):
        return
    parse = pieces.chunk_parser

    @functools.wraps(parse)
    def noting(self: Any, chunk: dict[str, Any]) -> Any:
        if any(isinstance(one, dict) and one.get("finishReason") for one in chunk.get("candidates") or ()):
            setattr(self, _FINISH_MARK, True)
        return parse(self, chunk)

    pieces.chunk_parser = noting
    setattr(pieces, _FINISH_MARK, False)


def is_finished(stream: Any, reader: Any, reason: str | None) -> bool:
    """Return whether the provider finished its answer. `reason` is the last one that came with a chunk."""
    if (seen := getattr(reader, _FINISH_MARK, None)) is not None:
        return bool(seen)
    if hasattr(stream, "received_finish_reason"):
        return bool(stream.received_finish_reason or getattr(stream, "intermittent_finish_reason", None))
    return bool(reason)


class ThinkingBlocks:
    """The signed reasoning of an answer while it is received."""

    def __init__(self) -> None:
        self.blocks: list[Message] = []

    def add(self, pieces: Any) -> int:
        """Add the blocks of a chunk, and return the number of new characters. A signature ends a block."""
        size = 0
        for piece in pieces if isinstance(pieces, list) else []:
            if not isinstance(piece, dict):
                continue
            if piece.get("type") == "redacted_thinking":
                self.blocks.append({"type": "redacted_thinking", "data": str(piece.get("data") or "")})
                size += len(self.blocks[-1]["data"])
                continue
            if not self.blocks or self.blocks[-1].get("signature") or self.blocks[-1]["type"] != "thinking":
                self.blocks.append({"type": "thinking", "thinking": "", "signature": ""})
            block = self.blocks[-1]
            for name in ("thinking", "signature"):
                text = str(piece.get(name) or "")
                block[name] += text
                size += len(text)
        return size

    def complete(self) -> list[Message]:
        """Return the blocks, or none if one of them lacks its signature."""
        return self.blocks if all(block.get("signature") or block.get("data") for block in self.blocks) else []


def with_thinking_blocks(messages: Sequence[Message], model: str, effort: str) -> tuple[list[Message], bool]:
    """Return the messages as the model's provider accepts them, and whether reasoning may be on.

    `effort` is the setting `reasoning_effort`.
    """
    provider, _, name = model.partition("/")
    is_claude = provider == "anthropic" or (
        provider in ("bedrock", "vertex_ai", "azure_ai") and "claude" in name.lower()
    )
    asked_at = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=0)
    calling = [message for message in messages[asked_at:] if message.get("tool_calls")]
    may_think = not is_claude or not calling or THINKING_BLOCKS in calling[-1]
    if is_claude and may_think and effort != "none":
        return list(messages), True
    without = [{name: part for name, part in message.items() if name != THINKING_BLOCKS} for message in messages]
    return without, may_think


class _Answer:
    """An answer while it is received."""

    def __init__(self) -> None:
        self.id = ""
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.thinking = ThinkingBlocks()
        self.calls: list[dict[str, str]] = []
        self.finish_reason: str | None = None
        self.usage: Any = None
        self.is_complete = False
        """Whether the usage came after the end, so that nothing more will come."""
        self._call_at: dict[int, dict[str, str]] = {}
        self._size = 0

    def add(self, chunk: Any, on_delta: OnDelta) -> None:
        """Add one chunk of the stream."""
        self.id = self.id or str(getattr(chunk, "id", "") or "")
        usage = getattr(chunk, "usage", None)
        self.is_complete = bool(self.finish_reason and usage)
        self.usage = usage or self.usage
        for choice in (getattr(chunk, "choices", None) or [])[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            delta = choice.delta
            if reasoning := getattr(delta, "reasoning_content", None):
                self._grow(len(reasoning))
                self.reasoning.append(str(reasoning))
                on_delta(str(reasoning), "reasoning")
            self._grow(self.thinking.add(getattr(delta, "thinking_blocks", None)))
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
    """Execute an order of `host_protocol` and return the content of its `done` line.

    Raises what litellm raises, BadAnswer for a stream that is incomplete or has stopped, TimeoutError. Cancelling
    closes the connection to the provider.
    """
    settings = order["settings"]
    clock = asyncio.get_running_loop().time
    end_at = clock() + settings["total_timeout_s"]
    answer, stream, reader, begun = _Answer(), None, None, False
    watch_finish(order["model"])
    try:
        async with asyncio.timeout_at(min(end_at, clock() + settings["first_token_timeout_s"])) as limit:
            stream = await litellm.acompletion(**_arguments(litellm, order))
            async for chunk in stream:
                begun = True
                limit.reschedule(min(end_at, clock() + settings["idle_timeout_s"]))
                answer.add(chunk, on_delta)
                if answer.is_complete:
                    break  # only litellm's own bookkeeping follows, which takes milliseconds
            reader = getattr(stream, "completion_stream", None)  # closing the stream removes it
    except TimeoutError as error:
        if begun and clock() < end_at:  # like a connection that broke off without a word
            stopped = f"the answer stopped for {settings['idle_timeout_s']:g} s"
            raise BadAnswer(ModelErrorKind.CONNECTION, stopped) from error
        raise TimeoutError(_timeout_message(clock() >= end_at, settings)) from error
    finally:
        if stream is not None and hasattr(stream, "aclose"):
            await stream.aclose()
    if not is_finished(stream, reader, answer.finish_reason):
        raise _broken_off(answer)
    return {**_done(litellm, order, answer), "estimated": _is_estimated(stream, answer.usage)}


def _is_estimated(stream: Any, usage: Any) -> bool:
    """Return whether litellm counted the tokens itself, because no chunk had them."""
    pieces = getattr(stream, "chunks", None)
    return usage is not None and pieces is not None and not any(getattr(one, "usage", None) for one in pieces)


def _has_vision(litellm: Any, model: str, settings: Line) -> bool:
    """Return whether the model gets images."""
    if settings["vision"] != "auto":
        return bool(settings["vision"] == "yes")
    entry = price_of(litellm.model_cost, model)
    return bool(entry and entry.get("supports_vision"))


def _supports_tools(litellm: Any, model: str, settings: Line) -> bool:
    """Return whether the model gets tools. litellm silently drops them for models that it knows not to support them."""
    if settings["tools"] != "auto":
        return bool(settings["tools"] == "yes")
    entry = price_of(litellm.model_cost, model)
    if entry is not None and entry.get("supports_function_calling") is False:
        return False
    try:
        supported = litellm.get_supported_openai_params(model)
    except Exception:  # noqa: BLE001  # boundary: litellm does not know the model; its provider will answer
        return True
    return supported is None or "tools" in supported


def _arguments(litellm: Any, order: Line) -> dict[str, Any]:
    import httpx

    settings, model = order["settings"], order["model"]
    if order["tools"] and not _supports_tools(litellm, model, settings):
        raise BadAnswer(ModelErrorKind.NO_TOOLS, "nothing was sent to it")
    messages, may_think = with_thinking_blocks(_messages(litellm, order), model, settings["reasoning_effort"])
    timeout = httpx.Timeout(settings["total_timeout_s"], connect=settings["connect_timeout_s"])
    arguments: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": timeout,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
    }
    if order["tools"]:
        # Otherwise litellm looks for tools of MCP servers, and fails if its package for those is missing.
        arguments |= {"tools": order["tools"], "_skip_mcp_handler": True}
    if order["stop"]:
        arguments["stop"] = order["stop"]
    for name in ("temperature", "max_tokens", "reasoning_effort", "api_base"):
        if settings[name] not in (None, "auto"):
            arguments[name] = settings[name]
    if not may_think and settings["reasoning_effort"] != "none":
        arguments.pop("reasoning_effort", None)
    return arguments | _key(model, order["facts"]["key_env"])


def _messages(litellm: Any, order: Line) -> Any:
    messages = order["messages"]
    if not _has_vision(litellm, order["model"], order["settings"]):
        messages = without_pictures(messages)
    is_marked = order["settings"]["prompt_caching"] and needs_cache_marks(order["model"])
    return with_cache_marks(messages) if is_marked else messages


def _key(model: str, key_env: str | None) -> Line:
    """Return the key unless it is the provider's usual one, which litellm reads from the environment."""
    provider = provider_of(model)
    if key_env:
        return {"api_key": os.environ.get(key_env) or NO_KEY}
    if key_env == "" and not (provider and provider.prefix in _WITHOUT_API_KEYS):
        return {"api_key": NO_KEY}
    if provider and provider.prefix == "openai" and not os.environ.get("OPENAI_API_KEY"):
        # Local servers need no key, but the client library requires one.
        return {"api_key": NO_KEY}
    return {}


def _timeout_message(at_end: bool, settings: Line) -> str:
    if at_end:
        return f"the answer took longer than {settings['total_timeout_s']:g} s"
    return f"no answer within {settings['first_token_timeout_s']:g} s"


def _broken_off(answer: _Answer) -> BadAnswer:
    """Return the error for an answer that its provider has not finished."""
    if not answer.texts and not answer.calls:
        return BadAnswer(ModelErrorKind.BAD_RESPONSE, "nothing. Is the address of its API right?")
    return BadAnswer(ModelErrorKind.CONNECTION, "the answer broke off before its end")


def _done(litellm: Any, order: Line, answer: _Answer) -> Line:
    usage = answer.usage
    details = getattr(usage, "prompt_tokens_details", None)
    # A server that needs no key is not the provider, whatever its model is called.
    price = None if order["facts"]["key_env"] == "" else price_of(litellm.model_cost, order["model"])
    counts = {
        "prompt_tokens": _count(usage, "prompt_tokens"),
        "completion_tokens": _count(usage, "completion_tokens"),
        "cache_read_tokens": _count(details, "cached_tokens"),
        "cache_write_tokens": _count(usage, "cache_creation_input_tokens"),
    }
    if is_priced(order["facts"]):
        cost = cost_of(counts, order["facts"]) if usage is not None else None
    else:
        cost = _cost(litellm, order["model"], usage, price)
    return {
        "answer_id": answer.id,
        "text": "".join(answer.texts),
        "reasoning": "".join(answer.reasoning),
        "thinking": answer.thinking.complete(),
        "tool_calls": answer.calls,
        "finish_reason": answer.finish_reason or "stop",
        **counts,
        "context_window": order["facts"]["context_window"] or _count(price, "max_input_tokens"),
        "cost": cost,
    }


def _cost(litellm: Any, model: str, usage: Any, price: Line | None) -> float | None:
    """Return US dollars, or None if litellm does not know the price."""
    if usage is None or price is None:
        return None
    try:
        response = litellm.ModelResponse(model=model, usage=usage)
        cost = float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # noqa: BLE001  # boundary: litellm documents no exceptions, and a price must not fail an answer
        return None
    # litellm returns 0 if its entry has no price; accept 0 only if the entry says so.
    return cost if cost > 0 or price.get("input_cost_per_token") == price.get("output_cost_per_token") == 0 else None


def _count(holder: Any, name: str) -> int:
    """Return a number of tokens; 0 if it is missing or implausible."""
    value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    return value if isinstance(value, int) and value > 0 else 0
