"""Models by name: makes an LLM from what the user writes, and says what could be written here.

    demo              the demo that comes with Handloom
    scripted:FILE     a scripted model of one's own
    PROVIDER/NAME     a provider's model, as litellm names it

What can be seen to be wrong is refused here, before the screen opens. Keys are looked for and never read.
Loads neither litellm nor aiohttp.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import ConfigurationError
from core.llm.absent import AGAIN, NoModel
from core.llm.hosted import HostedLLM, ModelHost
from core.llm.providers import PROVIDERS, Provider, provider_of
from core.llm.scripted import ScriptedLLM
from core.llm.settings import LLMSettings
from core.ports import LLM

DEMO = "demo"
DEMO_SCRIPT = Path(__file__).with_name("demo.yaml")

HOW_NAMES_LOOK = (
    "Models are named PROVIDER/NAME, such as anthropic/claude-sonnet-5-5, openai/gpt-5.6 or "
    "ollama_chat/qwen3-coder; scripted:FILE plays a script, and demo shows what Handloom does without any "
    "key."
)


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that could be used here and now."""

    name: str
    """What to write; ends in `/` where the user has to add which model the endpoint has."""
    label: str
    """For people."""

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
    environ: Mapping[str, str] | None = None,
) -> LLM:
    """The model of this name. `workspace` is the folder that scripts speak of.

    Raises ConfigurationError that says what to do next. Starts nothing: the host starts with the first call.
    """
    environ = os.environ if environ is None else environ
    settings = settings or LLMSettings()
    kind, colon, rest = name.partition(":")
    if name == DEMO:
        return ScriptedLLM(DEMO_SCRIPT, workspace, name=DEMO)
    if name == AGAIN:
        return NoModel()
    if kind == "scripted" and colon:
        if not rest:
            raise ConfigurationError("scripted: needs the name of a script, such as scripted:demo.yaml.")
        return ScriptedLLM(Path(rest).expanduser(), workspace, name=name)
    if not name.strip():
        raise ConfigurationError(f"No model was chosen. {HOW_NAMES_LOOK}")
    provider = provider_of(name)
    if provider is None:
        raise ConfigurationError(
            f"{name!r} is no model's name. {HOW_NAMES_LOOK} Known providers: {', '.join(PROVIDERS)}."
        )
    base = settings.api_base or _base_in(provider, environ)
    _check_base(provider, base)
    if not base or not _is_loopback(base):
        _check_key(name, provider, environ)
    return HostedLLM(host, name, settings.model_copy(update={"api_base": base or None}))


def offers(environ: Mapping[str, str]) -> list[ModelOffer]:
    """What could be used here: providers whose key is there, endpoints that are named, and the demo."""
    found: list[ModelOffer] = []
    for provider in PROVIDERS.values():
        base = _base_in(provider, environ)
        if base:
            found.append(ModelOffer(f"{provider.prefix}/", f"{provider.label}, at {base}"))
        elif provider.default_model and _has_key(provider, environ):
            found.append(ModelOffer(provider.default_model, provider.label))
    return [*found, ModelOffer(DEMO, "Demo, without a model")]


def _has_key(provider: Provider, environ: Mapping[str, str]) -> bool:
    return any(environ.get(variable) for variable in provider.key_variables)


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


def _check_base(provider: Provider, base: str) -> None:
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
    if url.scheme == "http" and provider.key_variables and not _is_loopback(base):
        raise ConfigurationError(
            f"The key for {provider.label} would go to {base} unencrypted. Use https, or an address on this machine."
        )


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
