"""Reading and changing settings: each has help and an origin, and other content of the file is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from core.errors import ConfigurationError
from core.settings.config import Origin, Settings, load, remember_model, save_settings
from core.settings.editable_settings import (
    EFFECTS,
    EditableSettings,
    Effect,
    Kind,
    Setting,
    as_text,
    checked,
    empty_is_default,
    fields,
    kind_of,
    sections,
)

FIELDS = fields(Settings)
CONFIG = """\
# How I like it.
model = "mistral/devstral-latest"  # cheap

[agent]
# not more
max_iterations = 50
"""


BOUND_BY_OTHERS = {
    "sandbox.git_host": "git.example.org:8443",
    "sandbox.git_tokens": "a.example.org=ONE_TOKEN, b.example.org=TWO_TOKEN",
    "condenser.keep_first": "7",
    "condenser.window_share": "0.5",
    "condenser.pipeline": "noop, amortized",
}
"""Values of fields that do not take any."""


def sample(name: str, info: FieldInfo) -> str | bool:
    """A value of a field that is not its default."""
    if name in BOUND_BY_OTHERS:
        return BOUND_BY_OTHERS[name]
    match kind_of(info):
        case Kind.SWITCH:
            return not info.default
        case Kind.CHOICE:
            choices = named(name).choices
            return next((choice for choice in choices if choice != as_text(info.default)), choices[0])
        case Kind.WHOLE:
            return "17" if name.endswith("num_retries") else "1777"
        case Kind.NUMBER:
            return "1.25"
        case Kind.LIST:
            return "one, two"
        case _:
            return "https://example.org/v1" if "base" in name else "some text"


def named(name: str, home: Path = Path("/nonexistent"), environ: dict[str, str] | None = None, **given: Any) -> Setting:
    return next(s for s in EditableSettings(home, environ or {}, given).read()[1] if s.name == name)


@pytest.mark.parametrize(("name", "info"), FIELDS, ids=[name for name, _ in FIELDS])
def test_every_setting_has_help_and_round_trips_through_the_file(name: str, info: FieldInfo, tmp_path: Path) -> None:
    book, value = EditableSettings(tmp_path, {}, {}), sample(name, info)
    _, listed = book.change(name, value)
    setting = next(setting for setting in listed if setting.name == name)
    assert setting.help.endswith(".")
    assert (setting.value if isinstance(value, bool) else setting.text) == value
    assert setting.origin is Origin.FILE
    assert load(tmp_path, {}) == book.read()[0]
    _, listed = book.reset(name)
    setting = next(setting for setting in listed if setting.name == name)
    assert (setting.value, setting.origin) == (setting.default, Origin.DEFAULT)


def test_every_section_has_a_description() -> None:
    assert set(sections()) == {name.rpartition(".")[0] for name, _ in FIELDS}
    assert all(sections().values())


def test_no_setting_looks_like_a_secret() -> None:
    secret = ("key", "token", "password", "secret")
    assert not [name for name, _ in FIELDS if name.rpartition(".")[2].endswith(secret)]


def test_other_content_of_the_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    book = EditableSettings(tmp_path, {}, {})
    book.change("agent.confirm", "risky")
    book.change("agent.max_iterations", "60")
    expected = CONFIG.replace("50", "60").rstrip("\n") + '\nconfirm = "risky"\n'
    assert (tmp_path / "config.toml").read_text() == expected
    book.reset("agent.confirm")
    assert (tmp_path / "config.toml").read_text().startswith("# How I like it.")
    assert "confirm" not in (tmp_path / "config.toml").read_text()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("agent.max_iterations", "0", "greater than or equal to 1"),
        ("agent.max_iterations", "many", "valid integer"),
        ("agent.confirm", "maybe", "'auto-edit', 'plan' or 'never'"),
        ("llm.temperature", "3", "less than or equal to 2"),
        ("sandbox.max_processes", "1", "greater than or equal to 16"),
    ],
)
def test_wrong_value_is_reported_and_the_file_unchanged(name: str, value: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with pytest.raises(ConfigurationError, match=told):
        EditableSettings(tmp_path, {}, {}).change(name, value)
    assert (tmp_path / "config.toml").read_text() == CONFIG


def test_each_setting_shows_its_source_and_why_it_is_fixed(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    environ = {"HANDLOOM__AGENT__MAX_ITERATIONS": "5", "HANDLOOM_RUNTIME": "local"}
    assert named("agent.max_iterations", tmp_path).origin is Origin.FILE
    of_environment = named("agent.max_iterations", tmp_path, environ)
    assert of_environment.origin is Origin.ENVIRONMENT
    assert "HANDLOOM__AGENT__MAX_ITERATIONS" in of_environment.fixed
    assert "HANDLOOM_RUNTIME" in named("runtime", tmp_path, environ).fixed
    of_option = named("model", tmp_path, environ, model="demo")
    assert (of_option.origin, of_option.text) == (Origin.COMMAND_LINE, "demo")
    assert "--model" in of_option.fixed
    assert named("agent.confirm", tmp_path, environ).fixed == ""


def test_empty_number_is_the_default_and_empty_list_a_list(tmp_path: Path) -> None:
    book = EditableSettings(tmp_path, {}, {})
    book.change("sandbox.max_processes", "99")
    assert book.change("sandbox.max_processes", "")[0].sandbox.max_processes == 1024
    assert book.change("sandbox.plugins", "")[0].sandbox.plugins == ()
    assert checked("llm.vision", "yes") == "yes"


def test_effects_are_described_only_for_existing_settings() -> None:
    known = {name for name, _ in FIELDS} | set(sections())
    assert set(EFFECTS) <= known
    assert named("conversations.max_age_days").effect is Effect.AT_ONCE
    assert named("agent.max_iterations").effect is Effect.NEXT_CONVERSATION


def test_unwritable_file_is_reported_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = [")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        save_settings(tmp_path, {"model": "demo"})
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_model_and_address_are_stored_together(tmp_path: Path) -> None:
    remember_model(tmp_path, "openai/x", "http://localhost:1/v1")
    settings = load(tmp_path, {})
    assert (settings.model, settings.llm.api_base) == ("openai/x", "http://localhost:1/v1")


@pytest.mark.parametrize(
    ("name", "is_default"),
    [("agent.max_iterations", True), ("llm.api_base", True), ("model", False), ("sandbox.plugins", False)],
)
def test_empty_text_is_the_default_unless_it_is_a_value(name: str, is_default: bool) -> None:
    assert empty_is_default(name) is is_default
