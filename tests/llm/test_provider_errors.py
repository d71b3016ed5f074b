"""The classification of provider errors, and the message for the user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ModelErrorKind
from core.llm.provider_errors import SHOWN_CHARS, BadAnswer, Failure, clean, failure_of, retry_after_s

NOW = datetime(2025, 6, 1, 12, 0, 0, tzinfo=UTC)
SECRET = "zz-very-secret-value"


def provider_error(name: str, message: str, **attributes: object) -> Exception:
    """An exception of the class that litellm would raise, without litellm."""
    error: Exception = type(name, (Exception,), {})(message)
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def failure(error: BaseException, model: str = "anthropic/claude") -> Failure:
    return failure_of(error, model, [SECRET], NOW)


@pytest.mark.parametrize(
    ("name", "message", "status", "kind"),
    [
        ("AuthenticationError", "bad key", 401, ModelErrorKind.AUTHENTICATION),
        ("APIError", "not allowed", 403, ModelErrorKind.AUTHENTICATION),
        ("NotFoundError", "no such model", 404, ModelErrorKind.NOT_FOUND),
        ("RateLimitError", "slow down", 429, ModelErrorKind.RATE_LIMIT),
        ("RateLimitError", "error code: insufficient_quota", 429, ModelErrorKind.BUDGET),
        ("BadRequestError", "Your credit balance is too low", 400, ModelErrorKind.BUDGET),
        ("Timeout", "too late", 408, ModelErrorKind.TIMEOUT),
        ("TimeoutError", "no answer within 1 s", None, ModelErrorKind.TIMEOUT),
        ("APIStatusError", "Redirect response to https://elsewhere.example", 307, ModelErrorKind.NOT_FOUND),
        ("InternalServerError", "oops", 500, ModelErrorKind.SERVER),
        ("InternalServerError", "Connection error.", 500, ModelErrorKind.CONNECTION),
        ("APIError", "overloaded", 529, ModelErrorKind.SERVER),
        ("APIConnectionError", "[Errno -2] Name or service not known", 500, ModelErrorKind.CONNECTION),
        ("APIConnectionError", "certificate verify failed", 500, ModelErrorKind.CONNECTION),
        ("APIConnectionError", "overloaded", 500, ModelErrorKind.SERVER),
        ("APIConnectionError", "Expecting value: line 1", 500, ModelErrorKind.BAD_RESPONSE),
        ("BadRequestError", "prompt is too long: 300000", 400, ModelErrorKind.CONTEXT_WINDOW),
        ("BadRequestError", "This model's maximum context length is 8192 tokens", 400, ModelErrorKind.CONTEXT_WINDOW),
        ("BadRequestError", "error code: context_length_exceeded", 400, ModelErrorKind.CONTEXT_WINDOW),
        ("ContextWindowExceededError", "no", 400, ModelErrorKind.CONTEXT_WINDOW),
        ("ContentPolicyViolationError", "no", 400, ModelErrorKind.CONTENT_POLICY),
        ("BadRequestError", "unknown field", 400, ModelErrorKind.BAD_REQUEST),
        ("APIResponseValidationError", "what?", 500, ModelErrorKind.BAD_RESPONSE),
        ("KeyError", "choices", None, ModelErrorKind.BAD_RESPONSE),
    ],
)
def test_each_failure_has_its_kind(name: str, message: str, status: int | None, kind: ModelErrorKind) -> None:
    assert failure(provider_error(name, message, status_code=status)).kind is kind


def test_authentication_error_names_the_variable_and_not_the_key() -> None:
    found = failure(provider_error("AuthenticationError", f"invalid x-api-key: {SECRET}", status_code=401))
    assert found == Failure(
        ModelErrorKind.AUTHENTICATION,
        "The key for this provider was not accepted (401). Enter another one with /login, set ANTHROPIC_API_KEY or "
        "ANTHROPIC_AUTH_TOKEN, or choose another model. Its message: invalid x-api-key: [key]",
    )


@pytest.mark.parametrize(
    ("key_env", "told"),
    [
        (
            "MY_KEY",
            "The key for this provider was not accepted (401). Enter another one with /login, set MY_KEY, or choose "
            "another model.",
        ),
        ("", "It needs a key (401), and none was sent. Name its variable in key_env of [models.NAME]."),
    ],
)
def test_authentication_error_names_the_configured_variable(key_env: str, told: str) -> None:
    error = provider_error("AuthenticationError", "no", status_code=401)
    assert failure_of(error, "openai/x", [SECRET], NOW, key_env).message == f"{told} Its message: no"


def test_stream_error_is_classified_by_its_cause() -> None:
    inner = provider_error("RateLimitError", "slow down", status_code=429)
    outer = provider_error("MidStreamFallbackError", "wrapped", status_code=503, original_exception=inner)
    assert failure(outer).kind is ModelErrorKind.RATE_LIMIT


def test_missing_answer_is_an_error() -> None:
    found = failure(BadAnswer(ModelErrorKind.CONNECTION, "the answer broke off before its end"))
    assert found.kind is ModelErrorKind.CONNECTION
    assert found.message.endswith("Its message: the answer broke off before its end")


@pytest.mark.parametrize(
    "text",
    [
        f"key {SECRET}!",
        "Incorrect API key provided: sk-proj-abcd****wxyz1234.",
        "header Authorization: Bearer abcdefgh was wrong",
        "AIzaSyA1234567890abcdefghij",
    ],
)
def test_strings_that_look_like_keys_are_redacted(text: str) -> None:
    shown = clean(text, [SECRET])
    assert "[key]" in shown
    for part in (SECRET, "wxyz1234", "abcdefgh", "AIzaSyA1234"):
        assert part not in shown


def test_details_of_libraries_are_removed() -> None:
    said = (
        "litellm.InternalServerError: InternalServerError: AnthropicException - Cannot connect to host a.example:443 "
        "ssl:<ssl.SSLContext object at 0x7fd2ff298950> [Name or service not known]. Handle with "
        "`litellm.InternalServerError`."
    )
    assert clean(said, []) == "Cannot connect to host a.example:443 [Name or service not known]."


def test_short_values_are_not_redacted() -> None:
    assert clean("18 tries", ["18"]) == "18 tries"


@given(st.text())
def test_error_is_one_short_printable_line(text: str) -> None:
    shown = clean(text, [])
    assert len(shown) <= SHOWN_CHARS + 3
    assert shown == "" or shown.isprintable()


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("99999", 300.0),
        ("inf", 300.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20.0),
        (format_datetime(NOW - timedelta(days=2), usegmt=True), 0.0),
        (format_datetime(NOW + timedelta(days=400), usegmt=True), 300.0),
    ],
)
def test_retry_after_of_the_provider_is_limited(value: str, wait_s: float | None) -> None:
    assert retry_after_s({"retry-after": value}, NOW) == wait_s
