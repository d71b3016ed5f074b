"""Models under names of the user's own: what their sections say counts, and no key goes where it was not meant to."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from core.errors import ConfigurationError
from core.llm.call_pipeline import CallPipeline
from core.llm.model_catalogue import KnownModel, named_models
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.registry import LLMRegistry, ModelOffer, Task, create_llm, model_for, model_of_agent, offers
from core.llm.router import Router
from core.llm.settings import LLMSettings, NamedModel
from core.settings.config import load

KEYS = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
CONFIG = """
model = "fast"
[llm]
temperature = 0.5
num_retries = 3
fallbacks = ["cheap"]
[models.fast]
model = "anthropic/claude-x"
max_tokens = 1000
price_in = 1.0
price_out = 5.0
[models.cheap]
model = "openai/small"
api_base = "https://models.example.org/v1"
key_env = "EXAMPLE_API_KEY"
temperature = 0.0
"""


def made(name: str, models: dict[str, NamedModel], settings: LLMSettings | None = None) -> HostedLLM:
    llm = create_llm(
        name, workspace="/w", host=ModelHost({}), settings=settings, models=models, environ={**KEYS, "MY_KEY": "x"}
    )
    assert isinstance(llm, HostedLLM)
    return llm


def order_of(llm: HostedLLM) -> tuple[object, object, object]:
    """To whom it goes, where, and with which key."""
    return llm._model, llm._settings.api_base, llm._facts.key_env


def test_named_section_overrides_the_general_section(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    settings = load(tmp_path, {})
    fast, cheap = settings.models["fast"], settings.models["cheap"]
    assert (fast.over(settings.llm).temperature, fast.over(settings.llm).max_tokens) == (0.5, 1000)
    assert (cheap.over(settings.llm).temperature, cheap.over(settings.llm).num_retries) == (0.0, 3)
    environ = {**KEYS, "EXAMPLE_API_KEY": "y"}
    llm = LLMRegistry(environ).create_chat("fast", "/w", settings.llm, settings.models)
    assert isinstance(llm, CallPipeline)
    assert [type(step) for step in llm.steps] == [Router]
    assert llm.name == "fast"
    with pytest.raises(ConfigurationError, match=r"The fallback of fast cannot be used\. cheap needs a key, and"):
        LLMRegistry(KEYS).create_chat("fast", "/w", settings.llm, settings.models)


def test_model_in_the_environment_needs_no_file(tmp_path: Path) -> None:
    settings = load(tmp_path, {"HANDLOOM__MODELS__FAST__MODEL": "openai/x", "HANDLOOM_MODEL": "fast"})
    assert (settings.model, settings.models["fast"].model) == ("fast", "openai/x")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[models.x]\n", "models.x.model cannot be .*Field required"),
        ('[models.x]\nmodel = "a/b"\ntemperature = 9', "models.x.temperature cannot be 9: .*less than or equal to 2"),
        ('[models."a/b"]\nmodel = "a/b"', "models.a/b"),
        ('[models.x]\nmodel = "a/b"\nspeed = 1', "models.x.speed cannot be 1: Extra inputs are not permitted"),
        (
            '[models.x]\nmodel = "a/b"\nkey_env = "sk-CANARY"',
            "models.x.key_env is invalid: it must be the name",
        ),
        ('[models.x]\nmodel = "a/b"\nkey_env = "CANARY"', "and end in _KEY or _TOKEN"),
        ('[models.x]\nmodel = "a/b"\napi_key = "sk-CANARY"', "no setting models.x.api_key: put the key into an env"),
        ('[llm]\nprovider_token = "sk-CANARY"', "no setting llm.provider_token: put the key into an environment"),
    ],
)
def test_wrong_section_is_reported_without_its_key(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=told) as caught:
        load(tmp_path, {})
    assert "CANARY" not in str(caught.value)
    assert "CANARY" not in repr(caught.value.__cause__)
    assert "Correct it in" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "order"),
    [
        ({"model": "anthropic/c"}, ("anthropic/c", None, None)),
        ({"model": "anthropic/c", "api_base": "https://b.example"}, ("anthropic/c", "https://b.example", "")),
        ({"model": "openai/c", "api_base": "https://b.example/v1"}, ("openai/c", "https://b.example/v1", "")),
        (
            {"model": "openai/c", "api_base": "https://b.example/v1", "key_env": "MY_KEY"},
            ("openai/c", "https://b.example/v1", "MY_KEY"),
        ),
        ({"model": "openai/c", "key_env": "MY_KEY"}, ("openai/c", None, "MY_KEY")),
        ({"model": "local:8080/c"}, ("openai/c", "http://127.0.0.1:8080/v1", "")),
    ],
)
def test_address_gets_only_the_key_named_beside_it(
    section: dict[str, str], order: tuple[object, object, object]
) -> None:
    models = {"mine": NamedModel.model_validate(section)}
    for settings in (LLMSettings(), LLMSettings(api_base="https://elsewhere.example/v1")):
        assert order_of(made("mine", models, settings)) == order


def test_general_address_does_not_apply_to_providers_with_keys() -> None:
    settings = LLMSettings(api_base="https://elsewhere.example/v1")
    assert order_of(made("openai/x", {}, settings)) == ("openai/x", "https://elsewhere.example/v1", None)
    assert order_of(made("anthropic/x", {}, settings)) == ("anthropic/x", None, None)


def test_named_key_is_not_sent_unencrypted() -> None:
    models = {"mine": NamedModel(model="openai/c", api_base="http://b.example/v1", key_env="MY_KEY")}
    with pytest.raises(ConfigurationError, match="The key for OpenAI would go to"):
        made("mine", models)


def test_unknown_name_is_reported_with_the_known_names() -> None:
    with pytest.raises(ConfigurationError, match=r"'fats' is not a model name.*Of your own: fast\."):
        made("fats", {"fast": NamedModel(model="openai/x")})


def test_name_may_not_refer_to_another_name() -> None:
    models = {"one": NamedModel(model="two"), "two": NamedModel(model="one")}
    with pytest.raises(ConfigurationError, match="'two' is not a model name"):
        made("one", models)


@pytest.mark.parametrize("name", ["local:", "local:80", "local:/x", "local:99999/x", "local:x/y", "local:-1/x"])
def test_local_model_needs_a_port_and_a_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="Write local:PORT/NAME"):
        made(name, {})


def test_each_task_has_its_model() -> None:
    settings = LLMSettings(title_model="t/t", summary_model="s/s", vision_model="v/v", agent_models=("Browsing = b/b",))
    tasks = get_args(Task)
    assert [model_for(task, "c/c", settings) for task in tasks] == ["c/c", "t/t", "s/s", "v/v"]
    assert [model_for(task, "c/c", LLMSettings()) for task in tasks] == ["c/c", "", "c/c", "c/c"]
    assert [model_of_agent(agent, settings) for agent in ("Browsing", "CodeActAgent")] == ["b/b", ""]
    with pytest.raises(ConfigurationError, match="'Browsing' is not AGENT=MODEL"):
        model_of_agent("CodeActAgent", LLMSettings(agent_models=("Browsing",)))


def test_models_of_the_user_are_offered_first_with_their_figures() -> None:
    models = {
        "fast": NamedModel(model="anthropic/c", price_in=1, price_out=2, context_window=5),
        "mine": NamedModel(model="openai/c", api_base="https://b.example", key_env="MY_KEY", vision="yes"),
    }
    assert offers({}, models)[:2] == [
        ModelOffer("fast", "anthropic/c", "named"),
        ModelOffer("mine", "openai/c", "named"),
    ]
    tables = [KnownModel("anthropic/c", "Anthropic", True, "ANTHROPIC_API_KEY", 200_000, 3.0, 15.0, True)]
    assert named_models(models, tables, {}) == [
        KnownModel("fast", "config.toml", True, "ANTHROPIC_API_KEY", 5, 1.0, 2.0, True, "named"),
        KnownModel("mine", "config.toml", False, "MY_KEY", None, None, None, True, "named"),
    ]
