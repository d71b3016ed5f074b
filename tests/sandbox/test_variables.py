"""The user's variables for the sandbox: from the settings, and from the environment by their prefix."""

from __future__ import annotations

import pytest

from core.errors import ConfigurationError
from core.sandbox_types import sandbox_variables
from core.secrets.known_secrets import values_of
from core.settings.config import Settings

ENVIRON = {"SANDBOX_ENV_COLOUR": "blue", "SANDBOX_ENV_SIZE": "1", "MINE": "here", "OTHER": "not asked for"}


def test_prefix_is_removed_and_settings_come_first() -> None:
    assert sandbox_variables(["MINE", "SIZE=2=3", "EMPTY="], ENVIRON) == {
        "COLOUR": "blue", "SIZE": "2=3", "MINE": "here", "EMPTY": ""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1A=x", "'1A' cannot be the name of a variable"),
        ("NOT_SET", "sandbox.environment names NOT_SET, which is not set"),
        ("=x", "sandbox.environment cannot be '=x'"),
    ],
)
def test_invalid_variables_are_named(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        sandbox_variables([text], ENVIRON)


@pytest.mark.parametrize("section", ["sandbox", "docker"])
def test_secret_in_the_settings_is_redacted(section: str) -> None:
    settings = Settings.model_validate({section: {"environment": ["SERVICE_TOKEN=abcdefgh12", "COLOUR=turquoise"]}})
    assert "abcdefgh12" in values_of(settings, {})
    assert "turquoise" not in values_of(settings, {})
