"""Models by name, and names that are refused before the screen opens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.registry import DEMO_SCRIPT, ModelOffer, create_llm, offers
from core.llm.scripted_model import ScriptedLLM, load_script
from core.llm.settings import LLMSettings
from core.protocols import LLM

KEYS = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}


def create(name: str, environ: dict[str, str] | None = None, settings: LLMSettings | None = None) -> LLM:
    return create_llm(
        name,
        workspace="/w",
        host=ModelHost(),
        settings=settings,
        environ=KEYS if environ is None else environ,
    )


def test_each_form_of_a_name_makes_its_model(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("version: 1\nturns: [{text: a}]")
    for name, kind in (
        ("demo", ScriptedLLM),
        (f"scripted:{script}", ScriptedLLM),
        ("openai/gpt-5.6", HostedLLM),
    ):
        llm = create(name)
        assert isinstance(llm, kind)
        assert llm.name == name


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "No model was chosen. Models are named PROVIDER/NAME"),
        ("gpt-4o", "'gpt-4o' is not a model name.*Known providers: anthropic, openai"),
        ("nobody/model", "'nobody/model' is not a model name"),
        ("openai/", "'openai/' is not a model name"),
        ("scripted:", "needs the name of a script"),
        ("scripted:/does/not/exist.yaml", "cannot be read"),
        ("gemini/gemini-3.1-pro-preview", "needs a key, and GEMINI_API_KEY is not set.*demo needs no key"),
    ],
)
def test_invalid_name_is_refused_with_advice(name: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        create(name)


def test_empty_key_counts_as_no_key() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        create("openai/gpt-5.6", {"OPENAI_API_KEY": ""})


@pytest.mark.parametrize("base", ["http://127.0.0.1:8000/v1", "http://localhost:8000", "http://[::1]:8000/v1"])
def test_local_server_needs_no_key_or_encryption(base: str) -> None:
    assert create("openai/local", {"OPENAI_BASE_URL": base}).name == "openai/local"
    assert create("openai/local", {}, LLMSettings(api_base=base)).name == "openai/local"


@pytest.mark.parametrize("base", ["http://example.org/v1", "http://127.0.0.1.example.org", "http://localhost@evil.org"])
def test_key_is_not_sent_unencrypted_to_another_machine(base: str) -> None:
    for environ, settings in (({**KEYS, "OPENAI_BASE_URL": base}, None), (KEYS, LLMSettings(api_base=base))):
        with pytest.raises(ConfigurationError, match=f"would go to {re.escape(base)} unencrypted. Use https"):
            create("openai/x", environ, settings)


@pytest.mark.parametrize("base", ["ftp://example.org", "https://", "https://[half"])
def test_invalid_address_is_refused(base: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the address of an API"):
        create("openai/x", settings=LLMSettings(api_base=base))


def test_only_the_demo_is_offered_without_a_key() -> None:
    assert offers({"HOME": "/root"}) == [ModelOffer("demo", "Demo, without a model")]


def test_models_with_keys_or_endpoints_in_the_environment_are_offered() -> None:
    found = offers({"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x", "OLLAMA_HOST": "0.0.0.0:11434"})
    assert found == [
        ModelOffer("anthropic/claude-sonnet-5-5", "Anthropic"),
        ModelOffer("openai/gpt-5.6", "OpenAI"),
        ModelOffer("ollama_chat/", "Ollama, at http://127.0.0.1:11434"),
        ModelOffer("demo", "Demo, without a model"),
    ]
    assert [offer.is_complete for offer in found] == [True, True, False, True]


def test_key_beside_an_endpoint_is_offered_only_for_that_endpoint() -> None:
    found = offers({"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert [offer.name for offer in found] == ["openai/", "demo"]


def test_every_complete_offer_can_be_created() -> None:
    environ = {
        variable: "x"
        for name in ("ANTHROPIC", "OPENAI", "GEMINI", "MISTRAL", "DEEPSEEK", "XAI", "GROQ", "MOONSHOT")
        for variable in (f"{name}_API_KEY",)
    }
    found = offers(environ)
    assert len(found) == 9
    for offer in found:
        assert create(offer.name, environ).name == offer.name


def test_demo_is_a_valid_script_of_a_few_seconds() -> None:
    turns = load_script(DEMO_SCRIPT).turns
    seconds = sum(turn.first_token_s + len(turn.text) / 4 / turn.tokens_per_s for turn in turns)
    assert 6 <= len(turns) <= 8
    assert seconds < 15
