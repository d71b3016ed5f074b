"""Secrets are redacted in every string at every depth, and harmless text is left alone."""

from __future__ import annotations

import pytest

from core.events import to_json
from core.secrets import PLACEHOLDER, Redactor, from_environment

SECRET = "sk-very-secret-123"


def test_secret_is_redacted_at_every_depth_in_lists_and_keys() -> None:
    redacted = Redactor([SECRET]).redact({"a": [{"b": f"x {SECRET} y"}, (SECRET,)], f"k{SECRET}": 1})
    assert redacted == {"a": [{"b": f"x {PLACEHOLDER} y"}, [PLACEHOLDER]], f"k{PLACEHOLDER}": 1}


def test_values_under_eight_characters_are_never_patterns() -> None:
    assert Redactor(["18", "true", "1234567"]).redact_text("18 is true 1234567") == "18 is true 1234567"


def test_longer_of_two_secrets_wins() -> None:
    assert Redactor(["password", "password-extended"]).redact_text("password-extended") == PLACEHOLDER


def test_value_without_secrets_is_returned_as_the_same_object() -> None:
    value = {"a": ["b", {"c": 1}]}
    assert Redactor([SECRET]).redact(value) is value


@pytest.mark.parametrize(
    "secret", ["plain-words", 'with "quotes"', "back\\slash\t\n", "ключ-слово", "half \ud800 pair", "\x1b[31mred"]
)
def test_may_redact_finds_secrets_in_json(secret: str) -> None:
    redactor = Redactor([secret, "another one"])
    for value in ({"a": [f"x{secret}y"]}, {f"k{secret}": "\ud800"}, {"a": f"ü{secret}"}):
        assert redactor.redact(value) != value
        assert redactor.may_redact(to_json(value))
    assert not redactor.may_redact(to_json({"a": [secret[:-1], secret[1:], "ordinary"]}))
    assert not Redactor().may_redact(to_json({"a": secret}))


def test_protected_fields_are_not_redacted() -> None:
    data = {"args": {"agent_state": "awaiting_user_input", "note": "awaiting_user_input"}}
    assert Redactor(["awaiting_user_input"]).redact(data) == {
        "args": {"agent_state": "awaiting_user_input", "note": PLACEHOLDER}
    }


def test_environment_secrets_are_known_by_their_variable_names() -> None:
    environ = {
        "OPENAI_API_KEY": "value-number-1",
        "GH_TOKEN": "value-number-2",
        "AWS_SECRET_ACCESS_KEY": "value-number-3",
        "KEYBOARD": "value-number-4",
        "SHORT_API_KEY": "abc",
    }
    assert from_environment(environ) == ["value-number-1", "value-number-2", "value-number-3"]


def test_other_objects_are_redacted_whatever_their_keys() -> None:
    redactor = Redactor(["canary-value"])
    event = {
        "action": "call_tool_mcp",
        "args": {"arguments": {"action": "canary-value", "observation": ["canary-value"]}},
    }
    assert redactor.redact(event) == {
        "action": "call_tool_mcp",
        "args": {"arguments": {"action": PLACEHOLDER, "observation": [PLACEHOLDER]}},
    }
    assert Redactor(["awaiting_user_input"]).redact({"extras": {"agent_state": "awaiting_user_input"}}) == {
        "extras": {"agent_state": "awaiting_user_input"}
    }
