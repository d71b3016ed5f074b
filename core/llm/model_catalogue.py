"""What is known about models, from litellm's tables, which only the model host has loaded.

`facts_of` runs in the host and turns the tables into lines; `models_of` turns the lines into models in Handloom's
process. A figure that the tables lack is None, never a guess. Whether a provider can be used is decided by the names of
environment variables; their values are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.llm.local_servers import LocalServer
from core.llm.providers import PROVIDERS, Provider, provider_of
from core.llm.settings import NamedModel

_MODES = ("chat", "responses", None)
"""The kinds of entries that answer in a conversation."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that could be named, with what is known of it."""

    name: str
    """What to write: PROVIDER/NAME."""
    provider: str
    """For people."""
    has_key: bool
    """Whether the provider's variable is set here, or none is needed."""
    needs: str = ""
    """The variable that its provider's key is read from; empty where none is known."""
    context_window: int | None = None
    """Tokens."""
    price_in: float | None = None
    price_out: float | None = None
    """US dollars for a million tokens."""
    vision: bool | None = None
    """Whether it sees pictures."""
    why: str = ""
    """Why it is listed, in place of its provider's key: `named` by the user, or `served` on this machine."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model can do, as far as it is known."""

    context_window: int | None = None
    """Tokens."""
    vision: bool | None = None
    """Whether it sees pictures."""


def named_models(
    models: Mapping[str, NamedModel], tables: Iterable[KnownModel], environ: Mapping[str, str]
) -> list[KnownModel]:
    """The user's own, each with what its section says, else what the tables know of the model that it names."""
    known = {model.name: model for model in tables}
    found = []
    for name, named in models.items():
        base = known.get(named.model) or KnownModel(named.model, "", True)
        vision = base.vision if named.vision == "auto" else named.vision == "yes"
        prices = (named.price_in, named.price_out)
        if None in prices:
            prices = (base.price_in, base.price_out)
        window = named.context_window or base.context_window
        usable = bool(environ.get(named.key_env)) if named.key_env else base.has_key or bool(named.api_base)
        needs = named.key_env or base.needs
        found.append(KnownModel(name, "config.toml", usable, needs, window, *prices, vision, "named"))
    return found


def served_models(servers: Iterable[LocalServer]) -> list[KnownModel]:
    """The models of servers on this machine. What they cost nobody says."""
    return [
        KnownModel(name, f"{server.label} :{server.port}", True, why="served")
        for server in servers
        for name in server.models
    ]


def facts_of(table: Mapping[str, Any]) -> list[list[Any]]:
    """[name, context window, price in, price out, vision] of each model of the known providers, in litellm's order."""
    found: dict[str, list[Any]] = {}
    for key, entry in table.items():
        if not isinstance(entry, Mapping) or entry.get("mode") not in _MODES:
            continue
        prefix = _prefix_of(str(entry.get("litellm_provider") or ""))
        if prefix is None or key.count("/") > 3:
            continue
        name = key if key.startswith(f"{prefix}/") else f"{prefix}/{key}"
        prices = [_price(entry.get(f"{way}_cost_per_token")) for way in ("input", "output")]
        vision = entry.get("supports_vision")
        window = entry.get("max_input_tokens")
        found.setdefault(
            name,
            [
                name,
                window if isinstance(window, int) and window > 0 else None,
                *prices,
                vision if isinstance(vision, bool) else None,
            ],
        )
    return list(found.values())


def models_of(facts: Iterable[Sequence[Any]], environ: Mapping[str, str]) -> list[KnownModel]:
    """The models of these lines, those whose provider can be used here first, by provider and name."""
    models = []
    for name, window, price_in, price_out, vision in facts:
        provider = provider_of(name)
        if provider is not None:
            needs = provider.key_variables[0] if provider.key_variables else ""
            usable = can_be_used(provider, environ)
            models.append(KnownModel(name, provider.label, usable, needs, window, price_in, price_out, vision))
    return sorted(models, key=lambda model: (not model.has_key, model.provider.casefold(), model.name))


def can_be_used(provider: Provider, environ: Mapping[str, str]) -> bool:
    """Whether one of the variables that a provider is used by is set."""
    return any(environ.get(variable) for variable in (*provider.key_variables, *provider.base_variables))


def _prefix_of(litellm_provider: str) -> str | None:
    """Our prefix for litellm's name of a provider, which may say more: `bedrock_converse`, `vertex_ai-llama_models`."""
    fitting = [p for p in PROVIDERS if litellm_provider == p or litellm_provider.startswith((f"{p}-", f"{p}_"))]
    return max(fitting, key=len, default=None)


def _price(per_token: Any) -> float | None:
    return per_token * _MILLION if isinstance(per_token, (int, float)) and per_token >= 0 else None
