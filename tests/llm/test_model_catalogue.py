"""What is known of models: figures of litellm's tables, none of them guessed, and which provider can be used here."""

from __future__ import annotations

import pytest

from core.llm.call import price_of
from core.llm.model_catalogue import KnownModel, facts_of, models_of
from core.llm.model_host_client import ModelHost

TABLE = {
    "sample_spec": {"litellm_provider": "one of https://docs", "mode": "chat"},
    "claude-x": {
        "litellm_provider": "anthropic",
        "mode": "chat",
        "max_input_tokens": 200_000,
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 1.5e-05,
        "supports_vision": True,
    },
    "gpt-x": {"litellm_provider": "openai", "mode": "responses", "max_input_tokens": "many"},
    "openai/gpt-x": {"litellm_provider": "openai", "mode": "chat"},
    "dall-e": {"litellm_provider": "openai", "mode": "image_generation"},
    "amazon.nova": {"litellm_provider": "bedrock_converse", "mode": "chat", "supports_vision": False},
    "elsewhere/m": {"litellm_provider": "nobody_knows", "mode": "chat"},
}


def test_models_that_answer_are_named_as_they_are_written_and_unknown_figures_stay_unknown() -> None:
    assert facts_of(TABLE) == [
        ["anthropic/claude-x", 200_000, 3.0, 15.0, True],
        ["openai/gpt-x", None, None, None, None],
        ["bedrock/amazon.nova", None, None, None, False],
    ]


def test_the_names_are_those_under_which_a_price_is_found_again() -> None:
    for name, *_ in facts_of(TABLE):
        assert price_of(TABLE, name) is not None


def test_providers_whose_key_is_there_come_first_and_no_value_is_needed_to_tell() -> None:
    models = models_of(facts_of(TABLE), {"OPENAI_API_KEY": "never looked at"})
    assert [(model.name, model.has_key) for model in models] == [
        ("openai/gpt-x", True),
        ("bedrock/amazon.nova", False),
        ("anthropic/claude-x", False),
    ]
    assert models[2] == KnownModel(
        "anthropic/claude-x", "Anthropic", False, "ANTHROPIC_API_KEY", 200_000, 3.0, 15.0, True
    )
    assert "never looked at" not in repr(models)


@pytest.mark.timeout(120)
async def test_the_host_tells_what_litellm_knows() -> None:
    host = ModelHost()
    try:
        facts = await host.models()
    finally:
        await host.aclose()
    assert len(facts) > 1000
    by_name = {fact[0]: fact for fact in facts}
    assert by_name["openai/gpt-4o"][1:] == [128_000, 2.5, 10.0, True]
