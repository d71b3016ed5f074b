"""Settings come from option, environment, file, default, in that order, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.environment import home_folder
from core.errors import ConfigurationError
from core.security.confirmation import ConfirmMode
from core.settings.config import Settings, load


def test_defaults_apply_without_settings(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == Settings()


def test_options_override_environment_and_environment_overrides_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('model = "file/x"\n[agent]\nmax_iterations = 1\nconfirm = "risky"\n')
    environ = {"HANDLOOM_MODEL": "env/x", "HANDLOOM__AGENT__MAX_ITERATIONS": "2"}
    settings = load(tmp_path, environ, agent__max_iterations=3, model=None)
    assert settings.model == "env/x"
    assert settings.agent.max_iterations == 3
    assert settings.agent.confirm is ConfirmMode.RISKY
    assert load(tmp_path, environ).agent.max_iterations == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agent]\nmax_iterations = 0", "agent.max_iterations"),
        ("[agent]\nmax_iteration = 5", "agent.max_iteration"),
        ('runtime = "moon"', "runtime"),
        ('[sandbox]\ngit_tokens = ["git.example.org=glpat-aaaaaaaaaaaaaaaaaaaa"]', "sandbox.git_tokens"),
        ('[sandbox]\ngit_tokens = ["git.example.org=PLACE"]', "sandbox.git_tokens"),
        ('[sandbox]\ngit_host = "https://git.example.org"', "sandbox.git_host"),
        ("model = [", "cannot be read"),
        ("[agent\n", "cannot be read"),
    ],
)
def test_wrong_setting_is_reported_with_its_location(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, {})
    assert told in str(caught.value)
    assert "config.toml" in str(caught.value)


def test_setting_below_a_plain_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="both a value and a section"):
        load(tmp_path, {"HANDLOOM__MODEL__NAME": "x", "HANDLOOM_MODEL": "y"}, model__name="z", model="q")


def test_files_in_the_current_folder_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("HANDLOOM_MODEL=evil/x")
    (tmp_path / "config.toml").write_text('model = "evil/x"')
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path / "home", {}).model == ""


def test_home_is_the_named_one(tmp_path: Path) -> None:
    assert home_folder({"HANDLOOM_HOME": str(tmp_path)}) == tmp_path
    assert home_folder({}).name == "handloom"


def test_list_in_the_environment_is_comma_separated(tmp_path: Path) -> None:
    environ = {"HANDLOOM__SANDBOX__ALLOWED_HOSTS": "example.org, *.example.net:8080,"}
    assert load(tmp_path, environ).sandbox.allowed_hosts == ("example.org", "*.example.net:8080")
    (tmp_path / "config.toml").write_text('[sandbox]\nreadable_paths = ["~/.cargo"]\nprotected_paths = []\n')
    sandbox = load(tmp_path, {}).sandbox
    assert sandbox.readable_paths == (Path("~/.cargo"),)
    assert sandbox.protected_paths == ()
