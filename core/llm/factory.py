"""Models by name: makes an LLM from what the user writes, and says what could be written here.

    demo              the demo that comes with Handloom
    scripted:FILE     a scripted model of one's own
    cassette:FILE     the recorded answers of a model
    local:PORT/NAME   a model of an OpenAI-compatible server on this machine
    PROVIDER/NAME     a provider's model, as litellm names it
    NAME              a model of the user's own, from [models.NAME] in config.toml

What can be seen to be wrong is refused here, before the screen opens. Keys are looked for and never read. A provider's
key goes to the provider, or where its own variable says; an address in config.toml gets the key that is named beside
it, or none. Loads neither litellm nor aiohttp.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from core.errors import ConfigurationError
from core.llm.cassette_model import CassetteLLM
from core.llm.local_servers import base_of, port_and_model
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.no_model import AGAIN, WITHOUT, NoModel
from core.llm.providers import PROVIDERS, Provider, provider_of
from core.llm.scripted_model import ScriptedLLM
from core.llm.settings import LLMSettings, ModelFacts, NamedModel
from core.protocols import LLM

DEMO = "demo"
DEMO_SCRIPT = Path(__file__).with_name("demo.yaml")

HOW_NAMES_LOOK = (
    "Models are named PROVIDER/NAME, such as anthropic/claude-sonnet-5-5, openai/gpt-5.6 or "
    "ollama_chat/qwen3-coder, or by a section [models.NAME] of config.toml; scripted:FILE plays a script, "
    "cassette:FILE a record, and demo shows what Handloom does without any key."
)
_TAKES_API_BASE = ("openai", "ollama", "ollama_chat")
"""The providers whose models `llm.api_base` is for. It stands beside no key, so that of another provider goes to its
own address alone."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that could be used here and now."""

    name: str
    """What to write; ends in `/` where the user has to add which model the endpoint has."""
    label: str
    """For people."""
    why: str = ""
    """Why it can be used, where not for a provider's key: `named` by the user, or `served` on this machine."""

    @property
    def is_complete(self) -> bool:
        """Whether the name can be used as it is."""
        return not self.name.endswith("/")


def create_llm(
    name: str,
    *,
    workspace: str,
    host: ModelHost,
    settings: LLMSettings | None = None,
    models: Mapping[str, NamedModel] = MappingProxyType({}),
    environ: Mapping[str, str] | None = None,
) -> LLM:
    """The model of this name, by itself. `workspace` is the folder that scripts speak of.

    Raises ConfigurationError that says what to do next. Starts nothing: the host starts with the first call.
    """
    environ = os.environ if environ is None else environ
    settings = settings or LLMSettings()
    named = models.get(name)
    title, facts = name, None
    if named is not None:
        name, settings, facts = named.model, named.over(settings), named.facts
    kind, colon, rest = name.partition(":")
    if name == DEMO:
        return ScriptedLLM(DEMO_SCRIPT, workspace, name=title)
    if name in (AGAIN, WITHOUT):
        return NoModel(name)
    if kind in ("scripted", "cassette") and colon:
        if not rest:
            what, such_as = ("script", "demo.yaml") if kind == "scripted" else ("cassette", "demo.jsonl")
            raise ConfigurationError(f"{kind}: needs the name of a {what}, such as {kind}:{such_as}.")
        if kind == "scripted":
            return ScriptedLLM(Path(rest).expanduser(), workspace, name=title)
        return CassetteLLM(Path(rest).expanduser(), workspace, environ, settings.cassette_match, name=title)
    if not name.strip():
        raise ConfigurationError(f"No model was chosen. {HOW_NAMES_LOOK}")
    if kind == "local" and colon:
        port, model = port_and_model(name)
        settings = settings.model_copy(update={"api_base": base_of(port)})
        facts = (facts or ModelFacts()).model_copy(update={"key_env": ""})
        return HostedLLM(host, f"openai/{model}", settings, title=title, facts=facts)
    provider = provider_of(name)
    if provider is None:
        own = f" Of your own: {', '.join(models)}." if models else ""
        raise ConfigurationError(
            f"{name!r} is no model's name. {HOW_NAMES_LOOK} Known providers: {', '.join(PROVIDERS)}.{own}"
        )
    facts = facts or ModelFacts()
    said = settings.api_base if named is not None or provider.prefix in _TAKES_API_BASE else None
    base = said or _base_in(provider, environ)
    _check_base(provider, base, facts.key_env)
    if facts.key_env:
        _check_variable(title, facts.key_env, environ)
    elif facts.key_env is None and not (base and is_loopback(base)):
        _check_key(title, provider, environ)
    settings = settings.model_copy(update={"api_base": base or None})
    return HostedLLM(host, name, settings, title=title, facts=facts)


def offers(environ: Mapping[str, str], models: Mapping[str, NamedModel] = MappingProxyType({})) -> list[ModelOffer]:
    """What could be used here: the user's own, providers whose key is there, endpoints that are named, the demo."""
    found = [ModelOffer(name, named.model, "named") for name, named in models.items()]
    for provider in PROVIDERS.values():
        base = _base_in(provider, environ)
        if base:
            found.append(ModelOffer(f"{provider.prefix}/", f"{provider.label}, at {base}"))
        elif provider.default_model and _has_key(provider, environ):
            found.append(ModelOffer(provider.default_model, provider.label))
    return [*found, ModelOffer(DEMO, "Demo, without a model")]


def _has_key(provider: Provider, environ: Mapping[str, str]) -> bool:
    return any(environ.get(variable) for variable in provider.key_variables)


def _check_variable(name: str, variable: str, environ: Mapping[str, str]) -> None:
    if not environ.get(variable):
        raise ConfigurationError(
            f"{name} needs a key, and {variable} is not set. Set it, or name another variable in models.{name}.key_env."
        )


def _check_key(name: str, provider: Provider, environ: Mapping[str, str]) -> None:
    if provider.key_variables and not _has_key(provider, environ):
        raise ConfigurationError(
            f"{name} needs a key, and {provider.key_variables[0]} is not set. Set it, or choose another "
            f"model with --model; demo needs no key."
        )


def _base_in(provider: Provider, environ: Mapping[str, str]) -> str:
    """The address that the environment gives a provider's API; empty where it gives none."""
    for variable in provider.base_variables:
        if value := environ.get(variable):
            # Ollama's own variable holds what its server listens on: no scheme, and 0.0.0.0 for everywhere.
            address = value if "://" in value else f"http://{value}"
            return address.replace("://0.0.0.0", "://127.0.0.1", 1)
    return ""


def _check_base(provider: Provider, base: str, key_env: str | None) -> None:
    """A key is sent over an encrypted connection, or to this machine, or not at all."""
    if not base:
        return
    try:
        url = urlsplit(base)
        usable = url.scheme in ("http", "https") and bool(url.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"{base!r} is no address of an API. Write it as https://HOST/PATH.")
    has_key = bool(provider.key_variables) if key_env is None else bool(key_env)
    if url.scheme == "http" and has_key and not is_loopback(base):
        raise ConfigurationError(
            f"The key for {provider.label} would go to {base} unencrypted. Use https, or an address on this machine."
        )


def is_loopback(base: str) -> bool:
    """Whether an address is this machine's."""
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
