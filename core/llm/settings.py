"""The settings of models, one field each: how they are called, those that stand in for others, those of one's own.

`LLMSettings` is the section `llm` and holds for every model; `NamedModel` is `[models.NAME]` and wins over it for the
model of that name. Neither holds a key: `key_env` is the name of the variable that does.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from core.secrets import is_secret_name


def split(value: Any) -> Any:
    """A list in the environment has commas between its parts."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(split)]
Effort = Literal["auto", "none", "minimal", "low", "medium", "high"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CallSettings(_Settings):
    """How a model is called, and which others help it out. Times are in seconds."""

    api_base: str | None = None
    """Address of the provider's API, in place of its usual one. https, or plain http on this machine."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """How freely the model chooses words; None leaves it to the provider, and some models take no other."""
    max_tokens: int | None = Field(default=None, ge=1)
    """The longest answer, in tokens; None leaves it to the provider."""
    reasoning_effort: Effort = "auto"
    """How long a model thinks before it answers; auto leaves it to the provider."""
    prompt_caching: bool = True
    """Mark what the provider can keep of a prompt, where it asks for marks; answers are the same and cost less."""
    vision: Literal["auto", "yes", "no"] = "auto"
    """Whether the model is shown pictures; auto goes by litellm's table, in which models of your own are missing."""
    fallbacks: Names = ()
    """Models that answer, the first that can, when this one fails after all its tries; it is told when they do."""
    vision_model: str = ""
    """The model that answers while a picture is in view that this one cannot see."""
    large_model: str = ""
    """The model that answers once the conversation no longer fits this one."""
    tools: Literal["auto", "yes", "no"] = "auto"
    """Whether the model calls tools by itself; else calls are written as text. Auto goes by litellm's table and by what
    the provider says."""
    connect_timeout_s: float = Field(default=15.0, gt=0)
    """Until a connection to the provider stands."""
    first_token_timeout_s: float = Field(default=180.0, gt=0)
    """Until the answer begins: models may think long before they speak."""
    idle_timeout_s: float = Field(default=90.0, gt=0)
    """Between two pieces of an answer."""
    total_timeout_s: float = Field(default=1200.0, gt=0)
    """For a whole answer."""
    num_retries: int = Field(default=5, ge=1, le=20)
    """How often a call is tried at most, the first time included."""
    retry_min_wait_s: float = Field(default=1.0, gt=0)
    """The wait before the second try; each further one is twice as long."""
    retry_max_wait_s: float = Field(default=64.0, gt=0)
    """The longest wait between two tries, unless the provider asks for more."""


class LLMSettings(CallSettings):
    """How models are called, and for which tasks. Times are in seconds."""

    api_base: str | None = None
    """Address of an OpenAI-compatible API, for models named openai/...; those of other providers have theirs in
    [models.NAME]. https, or plain http on this machine."""
    title_model: str = ""
    """A cheap model that names new conversations; empty names them by the first line that was said."""
    summary_model: str = ""
    """The model that sums up what is forgotten of a long conversation; empty is the conversation's own."""
    agent_models: Names = ()
    """Agents with a model of their own when they work as delegates, as AGENT=MODEL."""
    find_local: bool = True
    """Look for model servers on this machine, at their usual ports, when models are offered."""
    record: str = ""
    """A file that does not exist yet, into which all answers of models are recorded as a cassette."""
    cassette_match: Literal["strict", "loose"] = "strict"
    """When a cassette answers: strict wants its requests again, equal and in their order; loose takes the answer to an
    equal conversation, whatever its instructions and tools are."""


class ModelFacts(_Settings):
    """What is to be known of a model and stands in no table. Prices are in US dollars for a million tokens."""

    key_env: str | None = None
    """The environment variable with its key; unset takes the provider's own, and none at all beside an api_base."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens that prompt and answer may have together."""
    price_in: float | None = Field(default=None, ge=0)
    """Of a prompt. It counts where price_out is set, too."""
    price_out: float | None = Field(default=None, ge=0)
    """Of an answer."""
    price_cache_read: float | None = Field(default=None, ge=0)
    """Of what the provider had kept of a prompt; unset is price_in."""
    price_cache_write: float | None = Field(default=None, ge=0)
    """Of what it keeps; unset is price_in."""

    @field_validator("key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        if name and not (re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) and is_secret_name(name)):
            raise ValueError(
                "it is the name of an environment variable and not the key itself, and the name ends in _KEY or "
                "_TOKEN, so that commands of agents do not get it"
            )
        return name


class NamedModel(ModelFacts, CallSettings):
    """A model under a name of the user's own. What is not set here is as in the section llm."""

    model: str = Field(min_length=1)
    """PROVIDER/NAME, local:PORT/NAME, scripted:FILE or cassette:FILE."""

    def over(self, settings: LLMSettings) -> LLMSettings:
        """The settings with what is set here, and with no address but the one that is set here."""
        said = self.model_dump(include=self.model_fields_set & set(CallSettings.model_fields))
        return settings.model_copy(update={"api_base": None, **said})

    @property
    def facts(self) -> ModelFacts:
        """What is known of it; no key where it has an address of its own and names none."""
        facts = ModelFacts.model_validate(self.model_dump(include=set(ModelFacts.model_fields)))
        return facts.model_copy(update={"key_env": ""}) if self.api_base and self.key_env is None else facts


Models = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")], NamedModel]
"""By name: letters, digits and `_.-`, so that none looks like PROVIDER/NAME or like scripted:FILE."""
