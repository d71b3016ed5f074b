"""One call of one model through litellm, in the model host: stream it, put it together, then check that it is
whole.

Tool calls are handed on only from an answer that the provider has declared finished, see `finish`.

Marks in a prompt for what the provider can keep of it. Pure.

Some providers keep by themselves what requests have in common; Anthropic's models do where it is marked, at four
places at most. Marked are the instructions, and the two newest messages that answers are made for: the one before the
newest is the newest of the last request, so that what was kept then is found again.

What an answer costs: from the prices that the user gives a model, and litellm's entry for it. Pure.

Whether a provider itself has said that its answer is finished. In the model host.

litellm ends every stream as if it were whole, and keeps the provider's own reason to finish on the stream. For Google's
models it does not: it gives every piece a reason, so that an answer that broke off cannot be told from a whole one.
There the provider's words are read where litellm reads them.
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
from core.llm.reasoning_blocks import Thoughts, sent_back

Message = dict[str, Any]

_MARK = {"type": "ephemeral"}
_NEWEST = 2


def takes_marks(model: str) -> bool:
    """Whether requests to a model are to be marked."""
    provider, _, name = model.partition("/")
    return provider == "anthropic" or (
        provider in ("bedrock", "vertex_ai", "openrouter", "azure_ai", "databricks") and "claude" in name.lower()
    )


def with_marks(messages: Sequence[Message]) -> list[Message]:
    """The messages with their marks; the given ones stay as they are."""
    marked = list(messages)
    asking = [at for at, message in enumerate(messages) if message.get("role") in ("user", "tool")]
    system = [at for at, message in enumerate(messages[:1]) if message.get("role") == "system"]
    for at in (*system, *asking[-_NEWEST:]):
        marked[at] = _marked(messages[at])
    return marked


def _marked(message: Message) -> Message:
    """A result takes its mark as a whole, any other message on its last text."""
    if message.get("role") == "tool":
        return {**message, "cache_control": _MARK}
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    last = max((at for at, part in enumerate(parts) if part.get("text")), default=None)
    if last is None:
        return message
    parts[last] = {**parts[last], "cache_control": _MARK}
    return {**message, "content": parts}


_MILLION = 1_000_000


def price_of(table: Mapping[str, Any], model: str) -> dict[str, Any] | None:
    """What litellm's table says about a model; None where it has no entry, or one for another provider's."""
    prefix, _, name = model.partition("/")
    for key in (model, name):
        entry = table.get(key)
        if isinstance(entry, dict) and str(entry.get("litellm_provider", "")).startswith(prefix):
            return entry
    return None


def is_priced(facts: Mapping[str, Any]) -> bool:
    """Whether the user gave a model its prices, see `settings.ModelFacts`."""
    return facts["price_in"] is not None and facts["price_out"] is not None


def cost_of(counts: Mapping[str, int], facts: Mapping[str, Any]) -> float:
    """US dollars by the user's prices. What was read from a cache or written to it is a part of the prompt."""
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


_GOOGLE = ("gemini", "vertex_ai")
_FINISH_MARK = "handloom_finished"
"""Set on what litellm reads a stream of Google's from."""


def watch(model: str) -> None:
    """Have the ends of a model's answers be seen. To be called before the answer is asked for."""
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


def source_of(stream: Any) -> Any:
    """What a stream read its provider's pieces from; to be asked for at its end, before it is closed."""
    return getattr(stream, "completion_stream", None)


def is_finished(stream: Any, source: Any, said: str | None) -> bool:
    """Whether the provider has ended its answer. `said` is the last reason that came with a piece."""
    if (seen := getattr(source, _FINISH_MARK, None)) is not None:
        return bool(seen)
    if hasattr(stream, "received_finish_reason"):
        return bool(stream.received_finish_reason or getattr(stream, "intermittent_finish_reason", None))
    return bool(said)


MAX_ANSWER_CHARS = 8_000_000
"""No model answers at such length; a broken server may."""

NO_KEY = "none"
_WITHOUT_API_KEYS = ("bedrock", "sagemaker_chat", "vertex_ai", "github_copilot", "ollama", "ollama_chat")
"""Whoever knows them signs requests or logs in, or needs nothing."""

OnDelta = Callable[[str, str], None]
"""Takes a piece of text and its channel, `answer` or `reasoning`."""


class _Answer:
    """An answer while it comes in."""

    def __init__(self) -> None:
        self.id = ""
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.signed = Thoughts()
        self.calls: list[dict[str, str]] = []
        self.finish_reason: str | None = None
        self.usage: Any = None
        self.is_counted = False
        """Whether its usage came behind its end: then nothing more will come."""
        self._call_at: dict[int, dict[str, str]] = {}
        self._size = 0

    def add(self, chunk: Any, on_delta: OnDelta) -> None:
        """Take in one chunk of the stream."""
        self.id = self.id or str(getattr(chunk, "id", "") or "")
        usage = getattr(chunk, "usage", None)
        self.is_counted = bool(self.finish_reason and usage)
        self.usage = usage or self.usage
        for choice in (getattr(chunk, "choices", None) or [])[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            delta = choice.delta
            if reasoning := getattr(delta, "reasoning_content", None):
                self._grow(len(reasoning))
                self.thoughts.append(str(reasoning))
                on_delta(str(reasoning), "reasoning")
            self._grow(self.signed.add(getattr(delta, "thinking_blocks", None)))
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
    answer, stream, source, begun = _Answer(), None, None, False
    watch(order["model"])
    try:
        async with asyncio.timeout_at(min(end_at, clock() + settings["first_token_timeout_s"])) as limit:
            stream = await litellm.acompletion(**_arguments(litellm, order))
            async for chunk in stream:
                begun = True
                limit.reschedule(min(end_at, clock() + settings["idle_timeout_s"]))
                answer.add(chunk, on_delta)
                if answer.is_counted:
                    break  # what litellm does behind it is its own bookkeeping, which takes milliseconds
            source = source_of(stream)
    except TimeoutError as error:
        raise TimeoutError(_late(begun, clock() >= end_at, settings)) from error
    finally:
        if stream is not None and hasattr(stream, "aclose"):
            await stream.aclose()
    if not is_finished(stream, source, answer.finish_reason):
        raise _broken_off(answer)
    return {**_done(litellm, order, answer), "estimated": _is_estimated(stream, answer.usage)}


def _is_estimated(stream: Any, usage: Any) -> bool:
    """Whether litellm counted the tokens itself, because no piece of the provider's had them."""
    pieces = getattr(stream, "chunks", None)
    return usage is not None and pieces is not None and not any(getattr(one, "usage", None) for one in pieces)


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
    messages, may_think = sent_back(_messages(litellm, order), model, settings["reasoning_effort"])
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
        # Without this, litellm looks for tools of MCP servers, and fails where the package for those is
        # missing.
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
    if not _sees(litellm, order["model"], order["settings"]):
        messages = without_pictures(messages)
    wants_marks = order["settings"]["prompt_caching"] and takes_marks(order["model"])
    return with_marks(messages) if wants_marks else messages


def _key(model: str, key_env: str | None) -> Line:
    """The key where it is not the provider's own; litellm reads that by itself where it is given none."""
    provider = provider_of(model)
    if key_env:
        return {"api_key": os.environ.get(key_env) or NO_KEY}
    if key_env == "" and not (provider and provider.prefix in _WITHOUT_API_KEYS):
        return {"api_key": NO_KEY}
    if provider and provider.prefix == "openai" and not os.environ.get("OPENAI_API_KEY"):
        # Servers on this machine want no key, but the client library refuses to go without.
        return {"api_key": NO_KEY}
    return {}


def _late(begun: bool, at_end: bool, settings: Line) -> str:
    if at_end:
        return f"the answer took longer than {settings['total_timeout_s']:g} s"
    if begun:
        return f"nothing more came for {settings['idle_timeout_s']:g} s"
    return f"no answer began within {settings['first_token_timeout_s']:g} s"


def _broken_off(answer: _Answer) -> BadAnswer:
    """What is raised for an answer that its provider has not finished."""
    if not answer.texts and not answer.calls:
        return BadAnswer(ModelErrorKind.BAD_RESPONSE, "nothing. Is the address of its API right?")
    return BadAnswer(ModelErrorKind.CONNECTION, "the answer broke off before its end")


def _done(litellm: Any, order: Line, answer: _Answer) -> Line:
    usage = answer.usage
    details = getattr(usage, "prompt_tokens_details", None)
    # Whoever answers without a key is not the provider, whatever its model is called.
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
        "reasoning": "".join(answer.thoughts),
        "thinking": answer.signed.signed(),
        "tool_calls": answer.calls,
        "finish_reason": answer.finish_reason or "stop",
        **counts,
        "context_window": order["facts"]["context_window"] or _count(price, "max_input_tokens"),
        "cost": cost,
    }


def _cost(litellm: Any, model: str, usage: Any, price: Line | None) -> float | None:
    """US dollars; None where litellm cannot say, for the price is unknown then and not nothing."""
    if usage is None or price is None:
        return None
    try:
        response = litellm.ModelResponse(model=model, usage=usage)
        cost = float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # noqa: BLE001  # boundary: litellm documents no exceptions, and a price must not fail an answer
        return None
    # litellm says 0 where its entry has no price; it is 0 where the entry says so.
    return cost if cost > 0 or price.get("input_cost_per_token") == price.get("output_cost_per_token") == 0 else None


def _count(holder: Any, name: str) -> int:
    """A number of tokens, wherever it stands; 0 where it is missing or no sensible number."""
    value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    return value if isinstance(value, int) and value > 0 else 0
