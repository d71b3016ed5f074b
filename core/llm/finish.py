"""Whether a provider itself has said that its answer is finished. In the model host.

litellm ends every stream as if it were whole, and keeps the provider's own reason to finish on the stream. For Google's
models it does not: it gives every piece a reason, so that an answer that broke off cannot be told from a whole one.
There the provider's words are read where litellm reads them.
"""

from __future__ import annotations

import functools
from typing import Any

from core.llm.providers import provider_of

_GOOGLE = ("gemini", "vertex_ai")
_MARK = "handloom_finished"
"""Set on what litellm reads a stream of Google's from."""


def watch(model: str) -> None:
    """Have the ends of a model's answers be seen. To be called before the answer is asked for."""
    provider = provider_of(model)
    if provider is None or provider.prefix not in _GOOGLE:
        return
    from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as google

    pieces: Any = google.ModelResponseIterator
    if hasattr(pieces, _MARK):
        return
    parse = pieces.chunk_parser

    @functools.wraps(parse)
    def noting(self: Any, chunk: dict[str, Any]) -> Any:
        if any(isinstance(one, dict) and one.get("finishReason") for one in chunk.get("candidates") or ()):
            setattr(self, _MARK, True)
        return parse(self, chunk)

    pieces.chunk_parser = noting
    setattr(pieces, _MARK, False)


def source_of(stream: Any) -> Any:
    """What a stream read its provider's pieces from; to be asked for at its end, before it is closed."""
    return getattr(stream, "completion_stream", None)


def is_finished(stream: Any, source: Any, said: str | None) -> bool:
    """Whether the provider has ended its answer. `said` is the last reason that came with a piece."""
    if (seen := getattr(source, _MARK, None)) is not None:
        return bool(seen)
    if hasattr(stream, "received_finish_reason"):
        return bool(stream.received_finish_reason or getattr(stream, "intermittent_finish_reason", None))
    return bool(said)
