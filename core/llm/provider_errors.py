"""Turns litellm's exceptions into kinds of errors, and messages that say what to do next.

Pure functions. Exceptions are recognised by class name and status, so litellm need not be loaded here. Texts of
providers are untrusted and may repeat the key: they are sanitised, truncated and redacted before they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from core.errors import ModelErrorKind
from core.llm.providers import key_variables_of
from core.secrets import MIN_LENGTH

MAX_RETRY_AFTER_S = 300.0
"""The longest wait that a provider may ask for, because a user waits."""
SHOWN_CHARS = 400
"""The limit of a provider's text in a message."""

CONTEXT_WINDOW_TEXTS = (
    "contextwindowexceedederror",
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    "please reduce the length of either one",
    "the request exceeds the available context size",
    "context length exceeded",
    "context_length_exceeded",
    "maximum context length",
)
"""How providers say that a conversation is too long; OpenHands V0's list."""
NO_TOOLS_TEXTS = (
    "does not support tools",
    "does not support tool",
    "do not support tool",
    "not support function call",
    "no endpoints found that support tool use",
    "tool use is not supported",
    "tools are not supported",
    "tool calling is not supported",
    "function calling is not supported",
    "function calling is not enabled",
    "unsupported parameter: 'tools'",
    "requires --enable-auto-tool-choice",
)
"""How providers and servers say that a model takes no tools: Ollama, OpenRouter, vLLM and others."""
BUDGET_TEXTS = (
    "insufficient_quota",
    "credit balance is too low",
    "exceeded your current quota",
    "billing_hard_limit",
)

_KIND_OF_CLASS = {
    "ContextWindowExceededError": ModelErrorKind.CONTEXT_WINDOW,
    "ContentPolicyViolationError": ModelErrorKind.CONTENT_POLICY,
    "BudgetExceededError": ModelErrorKind.BUDGET,
    "PaymentRequiredError": ModelErrorKind.BUDGET,
    "AuthenticationError": ModelErrorKind.AUTHENTICATION,
    "PermissionDeniedError": ModelErrorKind.AUTHENTICATION,
    "NotFoundError": ModelErrorKind.NOT_FOUND,
    "RateLimitError": ModelErrorKind.RATE_LIMIT,
    "Timeout": ModelErrorKind.TIMEOUT,
    "TimeoutError": ModelErrorKind.TIMEOUT,
    "TimeoutException": ModelErrorKind.TIMEOUT,
    "APIResponseValidationError": ModelErrorKind.BAD_RESPONSE,
    "JSONDecodeError": ModelErrorKind.BAD_RESPONSE,
    "UnicodeDecodeError": ModelErrorKind.BAD_RESPONSE,
    "BadRequestError": ModelErrorKind.BAD_REQUEST,
    "UnprocessableEntityError": ModelErrorKind.BAD_REQUEST,
}
_KIND_OF_STATUS = {
    401: ModelErrorKind.AUTHENTICATION,
    402: ModelErrorKind.BUDGET,
    403: ModelErrorKind.AUTHENTICATION,
    404: ModelErrorKind.NOT_FOUND,
    408: ModelErrorKind.TIMEOUT,
    429: ModelErrorKind.RATE_LIMIT,
}
PROVIDER_SAID = " Its message: "
"""Comes before what the provider itself said."""
_WRONG_KEY = ("api_key_invalid", "api key not valid")
"""Google's texts for a wrong key, which it sends with status 400."""
_GARBLED = (
    "jsondecodeerror",
    "expecting value",
    "unterminated string",
    "codec can't decode",
    "expecting property",
    "an event of more than",
)
_BROKEN_OFF = (
    "connection error.",
    "connection reset",
    "connection closed",
    "connection refused",
    "connection attempts failed",
    "disconnected",
    "cannot connect",
    "name or service not known",
    "name resolution",
    "nodename nor servname",
    "certificate verify failed",
    "payload is not completed",
    "peer closed connection",
    "incomplete chunked read",
)

_NEXT = {
    ModelErrorKind.NOT_FOUND: "The provider does not have this model or address{status}. Check the model's name.",
    ModelErrorKind.RATE_LIMIT: "The provider's rate limit was reached{status}. Wait, or choose another model.",
    ModelErrorKind.TIMEOUT: "The provider did not answer in time. Try again, or raise the time limits.",
    ModelErrorKind.CONNECTION: "The connection to the provider failed. Check the network, try again.",
    ModelErrorKind.SERVER: "The provider failed{status}. Try again later, or choose another model.",
    ModelErrorKind.CONTEXT_WINDOW: "The conversation is too long for this model. Start a new one, or choose "
    "a model with a larger context.",
    ModelErrorKind.CONTENT_POLICY: "The provider's content policy refused the request. Rephrase it.",
    ModelErrorKind.BUDGET: "The account has no credit left{status}. Add credit, or choose another model.",
    ModelErrorKind.NO_TOOLS: "The model does not support tools{status}. Choose another model.",
    ModelErrorKind.BAD_REQUEST: "The provider refused the request{status}. Choose another model.",
    ModelErrorKind.BAD_RESPONSE: "The provider's answer is invalid. Try again, or choose another model.",
}


class BadAnswer(Exception):
    """The provider's answer is incomplete or invalid, which `kind` says."""

    def __init__(self, kind: ModelErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call, ready to be shown."""

    kind: ModelErrorKind
    message: str
    retry_after_s: float | None = None


def failure_of(
    error: BaseException, model: str, secrets: Iterable[str], now: datetime, key_env: str | None = None
) -> Failure:
    """Describe the exception of a call.

    `secrets` are removed from the message. `key_env` is the variable with the key if it is not the provider's own, and
    empty if no key was sent.
    """
    error = _innermost(error)
    status = _status_of(error)
    text = clean(str(error), secrets)
    kind = error.kind if isinstance(error, BadAnswer) else kind_of(error, status, text)
    if kind is ModelErrorKind.AUTHENTICATION:
        variables = key_env or " or ".join(key_variables_of(model)) or "its key"
        advice = (
            "The key for this provider was not accepted{status}. Enter another one with /login, "
            f"set {variables}, or choose another model."
        )
        if key_env == "":
            advice = "It needs a key{status}, and none was sent. Name its variable in key_env of [models.NAME]."
    else:
        advice = _NEXT[kind]
    message = advice.format(status=f" ({status})" if status else "")
    return Failure(kind, f"{message}{PROVIDER_SAID}{text}" if text else message, retry_after_s(_headers_of(error), now))


def kind_of(error: BaseException, status: int | None, text: str) -> ModelErrorKind:
    """Return the kind of an exception: by known texts, then by class, then by status."""
    names = {cls.__name__ for cls in type(error).__mro__}
    lowered = f"{type(error).__name__} {text}".lower()
    if any(part in lowered for part in CONTEXT_WINDOW_TEXTS):
        return ModelErrorKind.CONTEXT_WINDOW
    if any(part in lowered for part in NO_TOOLS_TEXTS):
        return ModelErrorKind.NO_TOOLS
    if any(part in lowered for part in BUDGET_TEXTS):
        return ModelErrorKind.BUDGET
    if any(part in lowered for part in _WRONG_KEY):
        return ModelErrorKind.AUTHENTICATION
    for name, kind in _KIND_OF_CLASS.items():
        if name in names:
            return kind
    if any(part in lowered for part in _GARBLED):
        return ModelErrorKind.BAD_RESPONSE
    if names & {"ConnectionError", "TransportError"} or any(part in lowered for part in _BROKEN_OFF):
        return ModelErrorKind.CONNECTION
    # litellm raises APIConnectionError for any error that it does not know, also inside a stream.
    if "APIConnectionError" in names or (status is not None and status >= 500):
        return ModelErrorKind.SERVER
    if status is not None and status < 400:
        return ModelErrorKind.NOT_FOUND  # a redirect, which is not followed
    return _KIND_OF_STATUS.get(status or 0, ModelErrorKind.BAD_REQUEST if status else ModelErrorKind.BAD_RESPONSE)


def clean(text: str, secrets: Iterable[str]) -> str:
    """Return a provider's text as one printable line without secrets, at most SHOWN_CHARS long."""
    for secret in sorted((s for s in secrets if len(s) >= MIN_LENGTH), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    text = re.sub(r"(?i)\b(bearer)\s+[^\s\"',}]+", r"\1 [key]", text)
    text = re.sub(r"\b(?:sk|pk|gsk|xai|AIza)[-_]?[A-Za-z0-9_*-]{12,}", "[key]", text)
    text = re.sub(r"^(?:litellm\.)?(?:\w[\w ]*Error: |Timeout Error: )*(?:\w+Exception - )?", "", text)
    text = re.sub(r"\s*ssl:<[^>]*>|\s*Handle with `litellm\.\w+`\.?", "", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return how long the provider asks to wait, at most MAX_RETRY_AFTER_S, or None."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        wait = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        wait = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(wait, 0.0), MAX_RETRY_AFTER_S) if wait == wait else None  # noqa: PLR0124  # NaN is not itself


def _headers_of(error: BaseException) -> Mapping[str, str]:
    """Return the headers of the provider's answer, from the two places where litellm may keep them."""
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        if isinstance(headers, Mapping) and headers:
            return headers
    return {}


def _innermost(error: BaseException) -> BaseException:
    """Return the provider's exception: litellm wraps errors in the middle of a stream."""
    seen = 0
    while isinstance(inner := getattr(error, "original_exception", None), BaseException) and seen < 5:
        error, seen = inner, seen + 1
    return error


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status, or None."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and 300 <= status < 600 else None
