"""The models that can be chosen: those of litellm's tables, of config.toml and of servers on this machine.

`facts_of` runs in the model host, which alone has litellm loaded, and turns its tables into lines; `models_of` turns
the lines into models in Handloom's process. A figure that the tables lack is None, never a guess. Whether a provider
can be used is decided by the names of environment variables; their values are not read.

Ollama, llama.cpp, vLLM, LM Studio and others listen on known ports and list their models in OpenAI's or Ollama's form;
`local:PORT/NAME` names one. `find_servers` asks all ports at once, on loopback only, for half a second. No key is sent
and no redirect is followed. Answers are untrusted: they are bounded, and names that cannot be written in a command are
ignored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from core.errors import ConfigurationError
from core.llm.providers import PROVIDERS, provider_of
from core.llm.settings import NamedModel

USUAL_PORTS: Mapping[int, str] = {
    11434: "Ollama",
    8080: "llama.cpp",
    1234: "LM Studio",
    8000: "vLLM",
    1337: "Jan",
    5001: "KoboldCpp",
    4000: "LiteLLM proxy",
}
"""The default ports of model servers."""
LOOPBACK = "127.0.0.1"
TIMEOUT_S = 0.5
"""For the answer of one server, which is on this machine."""
MAX_ANSWER_BYTES = 1024 * 1024
MAX_MODELS = 100
"""The models of one server; nobody chooses from more."""
_NAME = re.compile(r"[\w][\w.:/@+-]{0,199}", re.ASCII)
_REGION = re.compile(r"(?:us|eu|apac|au|jp|global|us-gov|[a-z]{2}(?:-[a-z]+)+-\d)[./]")
_DATED = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d|latest|\d{4})(?=$|[-:/])")
_LISTS = ("/v1/models", "/api/tags")
_MODES = ("chat", "responses", None)
"""The kinds of litellm's entries that answer in a conversation."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be chosen, with what is known about it."""

    name: str
    provider: str
    """For people."""
    has_key: bool
    """Whether the provider's variable is set here, or none is needed."""
    needs: str = ""
    """The variable with the provider's key; empty if none is known."""
    context_window: int | None = None
    """In tokens."""
    price_in: float | None = None
    price_out: float | None = None
    """US dollars for a million tokens."""
    vision: bool | None = None
    """Whether it supports images."""
    why: str = ""
    """Why it is listed, if not because of its provider: `named` by the user, or `served` on this machine."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do, as far as it is known."""

    context_window: int | None = None
    """In tokens."""
    vision: bool | None = None
    """Whether it supports images."""
    price_in: float | None = None
    """US dollars for a million tokens of the prompt; `price_out` for those of the answer."""
    price_out: float | None = None


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answered, with its models."""

    port: int
    label: str
    """The program that usually listens there, for people."""
    models: tuple[str, ...]
    """As `local:PORT/NAME`."""


def facts_of(table: Mapping[str, Any]) -> list[list[Any]]:
    """Return [name, context window, price in, price out, vision] of each model of known providers, in their order."""
    found: dict[str, list[Any]] = {}
    for key, entry in table.items():
        if not isinstance(entry, Mapping) or entry.get("mode") not in _MODES:
            continue
        prefix = _prefix_of(str(entry.get("litellm_provider") or ""))
        if prefix is None or key.count("/") > 3:
            continue
        name = key if key.startswith(f"{prefix}/") else f"{prefix}/{key}"
        window, vision = entry.get("max_input_tokens"), entry.get("supports_vision")
        window = window if isinstance(window, int) and window > 0 else None
        prices = [_price(entry.get(f"{way}_cost_per_token")) for way in ("input", "output")]
        found.setdefault(name, [name, window, *prices, vision if isinstance(vision, bool) else None])
    return list(found.values())


def models_of(facts: Iterable[Sequence[Any]], environ: Mapping[str, str]) -> list[KnownModel]:
    """Return the models of these lines, usable providers first, then in the order of PROVIDERS.

    Of each provider the offered model comes first; other names of a model, with a date or a region, come last.
    """
    models = []
    for name, window, price_in, price_out, vision in facts:
        provider = provider_of(name)
        if provider is not None:
            needs = provider.key_variables[0] if provider.key_variables else ""
            usable = provider.is_usable(environ)
            models.append(KnownModel(name, provider.label, usable, needs, window, price_in, price_out, vision))
    names = {model.name for model in models}
    places = {provider.label: place for place, provider in enumerate(PROVIDERS.values())}
    offered = {provider.default_model for provider in PROVIDERS.values()}

    def rank(model: KnownModel) -> tuple[bool, int, bool, bool, str]:
        place = places[model.provider]
        return not model.has_key, place, model.name not in offered, _is_other_name(model.name, names), model.name

    return sorted(models, key=rank)


def _is_other_name(name: str, names: AbstractSet[str]) -> bool:
    """Whether a name is that of another model with a region before it or a date behind it."""
    provider, _, rest = name.partition("/")
    return bool(_REGION.match(rest)) or f"{provider}/{_DATED.sub('', rest)}" in names - {name}


def named_models(
    models: Mapping[str, NamedModel], tables: Iterable[KnownModel], environ: Mapping[str, str]
) -> list[KnownModel]:
    """Return the models of config.toml. What their sections do not say is taken from the tables."""
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
    """Return the models of servers on this machine; their prices are unknown."""
    return [
        KnownModel(name, f"{server.label} :{server.port}", True, why="served")
        for server in servers
        for name in server.models
    ]


def _prefix_of(litellm_provider: str) -> str | None:
    """Return our prefix for litellm's provider name, which may be longer: `bedrock_converse`, `vertex_ai-llama`."""
    fitting = [p for p in PROVIDERS if litellm_provider == p or litellm_provider.startswith((f"{p}-", f"{p}_"))]
    return max(fitting, key=len, default=None)


def _price(per_token: Any) -> float | None:
    return per_token * _MILLION if isinstance(per_token, (int, float)) and per_token >= 0 else None


# -- servers on this machine -----------------------------------------------------------------------------------------


def parse_local_model(name: str) -> tuple[int, str]:
    """Return the port and the model of `local:PORT/NAME`. Raises ConfigurationError."""
    port, _, model = name.removeprefix("local:").partition("/")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536 and model):
        raise ConfigurationError(
            f"{name!r} is not a model name. Write local:PORT/NAME, such as local:11434/qwen3-coder."
        )
    return int(port), model


def local_url(port: int) -> str:
    """Return the address of the API of the server at a port."""
    return f"http://{LOOPBACK}:{port}/v1"


async def find_servers(ports: Iterable[int] = tuple(USUAL_PORTS), timeout_s: float = TIMEOUT_S) -> list[LocalServer]:
    """Return the servers at these ports that have models, after `timeout_s` at most. Never raises for a server."""
    found = await asyncio.gather(*(_list_models(port, timeout_s) for port in ports))
    return [
        LocalServer(port, USUAL_PORTS.get(port, "OpenAI-compatible"), tuple(f"local:{port}/{name}" for name in names))
        for port, names in zip(ports, found, strict=True)
        if names
    ]


async def _list_models(port: int, timeout_s: float) -> Sequence[str]:
    """Return the names of a server's models; none if there is no such server."""
    try:
        async with asyncio.timeout(timeout_s):
            for path in _LISTS:
                if names := _parse_names(await _get(port, path)):
                    return names
    except (OSError, TimeoutError):
        pass
    return ()


async def _get(port: int, path: str) -> bytes:
    """Return the body of an answer with status 200; empty for any other, or one that is too long. Raises OSError."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        # HTTP/1.0 has no chunks and ends with the connection, so everything after the head is the body.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}:{port}\r\nAccept: application/json\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) <= MAX_ANSWER_BYTES and (data := await reader.read(65536)):
            answer += data
    finally:
        writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    return body if re.match(rb"HTTP/1\.[01] 200\b", head) and len(answer) <= MAX_ANSWER_BYTES else b""


def _parse_names(body: bytes) -> Sequence[str]:
    """Return the models in a list of OpenAI's or Ollama's form."""
    try:
        listed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    items = (listed.get("data") or listed.get("models")) if isinstance(listed, dict) else None
    names = []
    for item in items if isinstance(items, list) else []:
        name = (item.get("id") or item.get("model") or item.get("name")) if isinstance(item, dict) else None
        if isinstance(name, str) and _NAME.fullmatch(name):
            names.append(name)
    return list(dict.fromkeys(names))[:MAX_MODELS]
