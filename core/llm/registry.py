"""LLMRegistry: the models of one process, by name and by task.

    demo              the demo that comes with Handloom
    scripted:FILE     a scripted model
    cassette:FILE     the recorded answers of a model
    local:PORT/NAME   a model of an OpenAI-compatible server on this machine
    PROVIDER/NAME     a provider's model, as litellm names it
    NAME              a model of the section [models.NAME] in config.toml

The registry owns the model host and the cassette that is recorded. Settings are passed with each call, because they
change while it exists. `create_llm` refuses wrong names and missing keys before the screen opens; it checks whether a
key is set and never reads it. A provider's key goes to the provider, or to the address that its own variable names; an
address in config.toml gets the key that is named beside it, or none. Loads neither litellm nor aiohttp. Named as in
OpenHands V0 (`openhands/llm/llm_registry.py`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.llm.budget import Budget, KeepBudget
from core.llm.call_pipeline import CallPipeline, CallStep
from core.llm.cassette import CassetteLLM, Recorder, Scrubber
from core.llm.model_catalogue import (
    KnownModel,
    find_servers,
    local_url,
    models_of,
    named_models,
    parse_local_model,
    served_models,
)
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.permits import KeepPermits, Permits
from core.llm.providers import PROVIDERS, Provider, provider_of
from core.llm.router import Router, helpers_of
from core.llm.scripted_model import ScriptedLLM
from core.llm.settings import LLMSettings, ModelFacts, NamedModel
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.secrets import Redactor

log = logging.getLogger(__name__)

DEMO = "demo"
DEMO_SCRIPT = Path(__file__).with_name("demo.yaml")
RERUN = "again"
"""The model name of a conversation that reruns another one."""
NO_MODEL = "none"
"""The model name of a conversation whose agent brings its own model, if none is configured here."""

NAME_HELP = (
    "Models are named PROVIDER/NAME, such as anthropic/claude-sonnet-5-5, openai/gpt-5.6 or "
    "ollama_chat/qwen3-coder, or by a section [models.NAME] of config.toml; scripted:FILE plays a script, "
    "cassette:FILE a recording, and demo shows what Handloom does without any key."
)
_TAKES_API_BASE = ("openai", "ollama", "ollama_chat")
"""The providers whose models `llm.api_base` is for. It has no key beside it, so the key of another provider only goes
to that provider's own address."""

_BRIEF = {"max_tokens": 16, "num_retries": 1, "first_token_timeout_s": 30.0, "total_timeout_s": 30.0}
"""The settings of the call that checks a key."""
_KEY_ACCEPTED = (
    *(ModelErrorKind.RATE_LIMIT, ModelErrorKind.NO_TOOLS, ModelErrorKind.BAD_RESPONSE),
    *(ModelErrorKind.CONTENT_POLICY, ModelErrorKind.CONTEXT_WINDOW),
)
"""Errors that a provider answers only after it has accepted the key."""

NamedModels = Mapping[str, NamedModel]
Task = Literal["chat", "title", "summary", "vision"]


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that can be used here and now."""

    name: str
    """Ends in `/` if the user has to add which model of the endpoint."""
    label: str
    why: str = ""
    """Why it can be used, if not because of a provider's key: `named` by the user, or `served` on this machine."""

    @property
    def is_complete(self) -> bool:
        """Whether the name can be used as it is."""
        return not self.name.endswith("/")


class NoModel:
    """The model of a conversation that has none: every call raises ModelError. `name` is RERUN or NO_MODEL."""

    def __init__(self, name: str = RERUN) -> None:
        self.name = name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Raise ModelError."""
        why = "This conversation has no model, because its agent brings its own. To use another agent, choose a model."
        if self.name == RERUN:
            why = "This conversation is a rerun and has no model. To go on from here, choose a model."
        raise ModelError(ModelErrorKind.NOT_FOUND, why)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class LLMRegistry:
    """Creates models. Close it after the last of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ` says which keys and addresses are set; the host runs with Handloom's own environment."""
        self.host = ModelHost()
        self._environ = environ
        self.redactor: Redactor | None = None
        """Redacts secrets in recordings; None redacts those of the environment."""
        self.budget: Budget | None = None
        """What the calls of all models may cost together; None for no limit and no sum."""
        self.permits: Callable[[str], Permits] | None = None
        """Returns the permits of a model; None lets any number of calls run at once."""
        self._facts: Sequence[Sequence[Any]] = ()
        self._recorder: tuple[Path, Recorder] | None = None

    def create(self, name: str, workspace: str, settings: LLMSettings, models: NamedModels) -> LLM:
        """Create a model without helpers. Reads files. Raises ConfigurationError."""
        llm = create_llm(
            name, workspace=workspace, host=self.host, settings=settings, models=models, environ=self._environ
        )
        steps: list[CallStep] = [] if self.budget is None else [KeepBudget(self.budget, llm)]
        if self.permits is not None:
            steps.append(KeepPermits(self.permits(name), name))
        return CallPipeline(llm, *steps) if steps else llm

    def create_chat(self, name: str, workspace: str, settings: LLMSettings, models: NamedModels) -> LLM:
        """Create the model of a conversation, with its helpers, and recorded if the settings say so.

        Reads files, and creates the recording. Raises ConfigurationError.
        """
        create = partial(self.create, workspace=workspace, settings=settings, models=models)
        if name in (DEMO, RERUN, NO_MODEL):  # they call no provider, so nothing replaces them
            return create(name)
        named = models.get(name)
        chosen, steps = create(name), list[CallStep]()
        helpers = helpers_of(name, named.over(settings) if named is not None else settings, create)
        if helpers.all():
            steps.append(Router(chosen, helpers))
        if settings.record:
            scrubber = Scrubber(workspace, self._environ, self.redactor)
            steps.append(self._recorder_for(settings.record, name).thread(scrubber))
        return CallPipeline(chosen, *steps) if steps else chosen

    async def warm(self, llm: LLM) -> None:
        """Start the model host if the model needs it: it loads for seconds, while the user still types."""
        if isinstance(llm, CallPipeline):
            llm = llm.model
        if isinstance(llm, HostedLLM):
            await self.host.start()

    async def local_models(self, settings: LLMSettings, models: NamedModels) -> list[KnownModel]:
        """Return the models of config.toml and of servers on this machine, after half a second at most."""
        servers = await find_servers() if settings.find_local else []
        tables = await asyncio.to_thread(models_of, self._facts, self._environ)
        return [*named_models(models, tables, self._environ), *served_models(servers)]

    async def check_key(self, model: str, keys: Mapping[str, str], settings: LLMSettings, models: NamedModels) -> None:
        """Call the model once, with keys that are not stored yet, in a host of its own. Takes seconds.

        Returns if the provider accepts the call, even if the model cannot answer now. Raises ModelError if it refuses
        the key or cannot be reached, and ConfigurationError.
        """
        host = ModelHost()
        host.keys = {**self.host.keys, **keys}
        brief = settings.model_copy(update=_BRIEF)
        llm = create_llm(
            model, workspace="/", host=host, settings=brief, models=models, environ={**self._environ, **keys}
        )
        try:
            await llm.complete(LLMRequest([{"role": "user", "content": "Hi"}]), lambda frame: None, 0)
        except ModelError as error:
            lacks_model = (
                error.kind is ModelErrorKind.NOT_FOUND and model not in models
            )  # at the provider's own address
            if error.kind not in _KEY_ACCEPTED and not lacks_model:
                raise
        finally:
            await host.aclose()

    async def known_models(self) -> list[KnownModel]:
        """Return the models of litellm's tables, or none after an error. Takes seconds while the model host loads."""
        try:
            self._facts = self._facts or await self.host.models()
        except ModelError as error:
            log.warning("the list of models cannot be loaded: %s", error)
        return await asyncio.to_thread(models_of, self._facts, self._environ)

    async def aclose(self) -> None:
        """End the model host. May be called twice."""
        await self.host.aclose()

    def _recorder_for(self, file: str, model: str) -> Recorder:
        """Return the recorder of this file; it is created with the first model that is recorded there."""
        path = Path(os.path.abspath(Path(file).expanduser()))
        if self._recorder is None or self._recorder[0] != path:
            self._recorder = (path, Recorder(path, model))
        return self._recorder[1]


def model_for(task: Task, chat: str, settings: LLMSettings) -> str:
    """Return the model of a task in a conversation with the model `chat`, or "" if no model has it."""
    match task:
        case "title":
            return settings.title_model
        case "summary":
            return settings.summary_model or chat
        case "vision":
            return settings.vision_model or chat
        case "chat":
            return chat


def model_of_agent(agent: str, settings: LLMSettings) -> str:
    """Return the model that an agent of this name uses as a delegate, or "" if none is configured.

    Raises ConfigurationError for a line that is not AGENT=MODEL.
    """
    for line in settings.agent_models:
        name, equals, model = (part.strip() for part in line.partition("="))
        if not (name and equals and model):
            raise ConfigurationError(f"llm.agent_models: {line!r} is not AGENT=MODEL. Correct it in config.toml.")
        if name == agent:
            return model
    return ""


def create_llm(
    name: str,
    *,
    workspace: str,
    host: ModelHost,
    settings: LLMSettings | None = None,
    models: NamedModels = MappingProxyType({}),
    environ: Mapping[str, str] | None = None,
) -> LLM:
    """Create the model of this name. `workspace` replaces `{workspace}` in scripts.

    Raises ConfigurationError that says what to do next. Starts nothing: the host starts with the first call.
    """
    environ = os.environ if environ is None else environ
    settings = settings or LLMSettings()
    named = models.get(name)
    title, facts = name, ModelFacts()
    if named is not None:
        name, settings, facts = named.model, named.over(settings), named.facts
    kind, colon, rest = name.partition(":")
    if name == DEMO:
        return ScriptedLLM(DEMO_SCRIPT, workspace, name=title)
    if name in (RERUN, NO_MODEL):
        return NoModel(name)
    if kind in ("scripted", "cassette") and colon:
        if not rest:
            what, example = ("script", "demo.yaml") if kind == "scripted" else ("cassette", "demo.jsonl")
            raise ConfigurationError(f"{kind}: needs the name of a {what}, such as {kind}:{example}.")
        if kind == "scripted":
            return ScriptedLLM(Path(rest).expanduser(), workspace, name=title)
        return CassetteLLM(Path(rest).expanduser(), workspace, environ, settings.cassette_match, name=title)
    if not name.strip():
        raise ConfigurationError(f"No model was chosen. {NAME_HELP}")
    if kind == "local" and colon:
        port, model = parse_local_model(name)
        settings = settings.model_copy(update={"api_base": local_url(port)})
        facts = facts.model_copy(update={"key_env": ""})
        return HostedLLM(host, f"openai/{model}", settings, title=title, facts=facts)
    provider = provider_of(name)
    if provider is None:
        yours = f" Of your own: {', '.join(models)}." if models else ""
        raise ConfigurationError(
            f"{name!r} is not a model name. {NAME_HELP} Known providers: {', '.join(PROVIDERS)}.{yours}"
        )
    configured = settings.api_base if named is not None or provider.prefix in _TAKES_API_BASE else None
    base = configured or _base_in(provider, environ)
    _check_base(provider, base, facts.key_env)
    _check_key(title, provider, base, facts.key_env, environ)
    return HostedLLM(host, name, settings.model_copy(update={"api_base": base or None}), title=title, facts=facts)


def offers(environ: Mapping[str, str], models: NamedModels = MappingProxyType({})) -> list[ModelOffer]:
    """Return the named models, the providers with a key, the endpoints in the environment, and the demo."""
    found = [ModelOffer(name, named.model, "named") for name, named in models.items()]
    for provider in PROVIDERS.values():
        base = _base_in(provider, environ)
        if base:
            found.append(ModelOffer(f"{provider.prefix}/", f"{provider.label}, at {base}"))
        elif provider.default_model and provider.has_key(environ):
            found.append(ModelOffer(provider.default_model, provider.label))
    return [*found, ModelOffer(DEMO, "Demo, without a model")]


class MissingKeyError(ConfigurationError):
    """A model needs a key, and its variable is not set."""

    def __init__(self, message: str, variable: str, provider: Provider) -> None:
        super().__init__(message)
        self.variable, self.provider = variable, provider


def _check_key(name: str, provider: Provider, base: str, key_env: str | None, environ: Mapping[str, str]) -> None:
    """Raises MissingKeyError."""
    if key_env and not environ.get(key_env):
        text = (
            f"{name} needs a key, and {key_env} is not set. Set it, or name another variable in models.{name}.key_env."
        )
        raise MissingKeyError(text, key_env, provider)
    needs_key = key_env is None and provider.key_variables and not (base and is_loopback(base))
    if needs_key and not provider.has_key(environ):
        variable = provider.key_variables[0]
        text = (
            f"{name} needs a key, and {variable} is not set. Set it, store one with `handloom secrets set {variable} "
            f"--models`, or choose another model with --model; demo needs no key."
        )
        raise MissingKeyError(text, variable, provider)


def _base_in(provider: Provider, environ: Mapping[str, str]) -> str:
    """Return the address of a provider's API that the environment sets, or ""."""
    for variable in provider.base_variables:
        if value := environ.get(variable):
            # Ollama's own variable holds what its server listens on: no scheme, and 0.0.0.0 for everywhere.
            address = value if "://" in value else f"http://{value}"
            return address.replace("://0.0.0.0", "://127.0.0.1", 1)
    return ""


def _check_base(provider: Provider, base: str, key_env: str | None) -> None:
    """Refuse to send a key over an unencrypted connection to another machine. Raises ConfigurationError."""
    if not base:
        return
    try:
        url = urlsplit(base)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigurationError(f"{base!r} is not the address of an API. Write it as https://HOST/PATH.")
    has_key = bool(provider.key_variables) if key_env is None else bool(key_env)
    if url.scheme == "http" and has_key and not is_loopback(base):
        raise ConfigurationError(
            f"The key for {provider.label} would go to {base} unencrypted. Use https, or an address on this machine."
        )


def is_loopback(base: str) -> bool:
    """Return whether an address is this machine's."""
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
