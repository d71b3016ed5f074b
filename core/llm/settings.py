"""The settings of models: `LLMSettings` is the section `llm`, for all models, `NamedModel` a section `[models.NAME]`.

The section of a model overrides `llm`. Neither contains a key: `key_env` names the environment variable with it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from core.secrets import is_secret_name


def split(value: Any) -> Any:
    """Split a list from the environment, whose parts are separated by commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(split)]
Effort = Literal["auto", "none", "minimal", "low", "medium", "high"]


class SettingsSection(BaseModel):
    """The base of all sections: immutable, without unknown fields. The docstrings of its fields are their help
    (`core.settings.editable_settings`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CallSettings(SettingsSection):
    """How a model is called, and its helpers. Times are in seconds."""

    api_base: str | None = None
    """Address of the provider's API, instead of the usual one. https, or http on this machine."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The sampling temperature; unset uses the provider's default, which some models require."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum length of an answer in tokens; unset uses the provider's default."""
    reasoning_effort: Effort = "auto"
    """How much a model reasons before it answers; auto uses the provider's default."""
    prompt_caching: bool = True
    """Mark the parts of a prompt that the provider can cache, if it needs marks; this makes answers cheaper."""
    vision: Literal["auto", "yes", "no"] = "auto"
    """Whether the model gets images; auto uses litellm's table, which does not have your own models."""
    fallbacks: Names = ()
    """Models that are tried, in order, after all retries of this one failed; a message tells you when they answer."""
    vision_model: str = ""
    """The model that answers while the conversation has an image, if this one does not support images."""
    large_model: str = ""
    """The model that answers when the conversation no longer fits this one."""
    tools: Literal["auto", "yes", "no"] = "auto"
    """Whether the model supports tool calls; otherwise they are written as text. Auto uses litellm's table and the
    provider's errors."""
    connect_timeout_s: float = Field(default=15.0, gt=0)
    """Timeout for the connection to the provider."""
    first_token_timeout_s: float = Field(default=180.0, gt=0)
    """Timeout for the beginning of an answer; models may reason for long before it."""
    idle_timeout_s: float = Field(default=90.0, gt=0)
    """Timeout between two chunks of an answer."""
    total_timeout_s: float = Field(default=1200.0, gt=0)
    """Timeout for a whole answer."""
    num_retries: int = Field(default=5, ge=1, le=20)
    """Maximum number of attempts for a call, including the first."""
    retry_min_wait_s: float = Field(default=1.0, gt=0)
    """The wait before the second attempt; it doubles with each further one."""
    retry_max_wait_s: float = Field(default=64.0, gt=0)
    """The longest wait between two attempts, unless the provider asks for more."""


class LLMSettings(CallSettings):
    """How models are called, and for which tasks. Times are in seconds."""

    api_base: str | None = None
    """Address of an OpenAI-compatible API, for models named openai/...; for other
    providers, use [models.NAME]. https, or http on this machine."""
    title_model: str = ""
    """A cheap model that names new conversations; empty uses the first line of the first message."""
    summary_model: str = ""
    """The model that summarizes the older part of a long conversation; empty uses the conversation's model."""
    agent_models: Names = ()
    """Models for delegates, by agent, as AGENT=MODEL."""
    find_local: bool = True
    """Look for model servers at their default ports on this machine when models are listed."""
    record: str = ""
    """A new file in which all answers of models are recorded as a cassette."""
    cassette_match: Literal["strict", "loose"] = "strict"
    """When a cassette answers: strict requires the same requests in the same order, loose the same conversation with
    any instructions and tools."""


class ModelFacts(SettingsSection):
    """Facts about a model that are in no table. Prices are in US dollars for a million tokens."""

    key_env: str | None = None
    """The environment variable with its key; unset uses the provider's variable, or no key if api_base is set."""
    context_window: int | None = Field(default=None, ge=1)
    """Maximum tokens of prompt and answer together."""
    price_in: float | None = Field(default=None, ge=0)
    """Price of the prompt; only used if price_out is set, too."""
    price_out: float | None = Field(default=None, ge=0)
    """Price of the answer."""
    price_cache_read: float | None = Field(default=None, ge=0)
    """Price of cached parts of a prompt; unset uses price_in."""
    price_cache_write: float | None = Field(default=None, ge=0)
    """Price of writing to the cache; unset uses price_in."""

    @field_validator("key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        if name and not (re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) and is_secret_name(name)):
            raise ValueError(
                "it must be the name of an environment variable, not the key itself, and end in _KEY or _TOKEN, so "
                "that commands of agents do not get it"
            )
        return name


class NamedModel(ModelFacts, CallSettings):
    """A model under your own name. What is not set here is taken from the section llm."""

    model: str = Field(min_length=1)
    """PROVIDER/NAME, local:PORT/NAME, scripted:FILE or cassette:FILE."""

    def over(self, settings: LLMSettings) -> LLMSettings:
        """Return `settings` with what is set here, and with no address except the one that is set here."""
        own = self.model_dump(include=self.model_fields_set & set(CallSettings.model_fields))
        return settings.model_copy(update={"api_base": None, **own})

    @property
    def facts(self) -> ModelFacts:
        """The facts about it; without a key if it has an address and names no variable."""
        facts = ModelFacts.model_validate(self.model_dump(include=set(ModelFacts.model_fields)))
        return facts.model_copy(update={"key_env": ""}) if self.api_base and self.key_env is None else facts


Models = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")], NamedModel]
"""By name, which cannot look like PROVIDER/NAME or scripted:FILE."""
