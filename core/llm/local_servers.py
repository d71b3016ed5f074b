"""Model servers on this machine: `local:PORT/NAME` names a model of one, and `find_servers` finds them.

Ollama, llama.cpp, vLLM, LM Studio and others listen on known ports and list their models in OpenAI's or Ollama's form.
All ports are asked at once, on loopback only, for half a second. No key is sent and no redirect is followed. Answers
are untrusted: they are bounded, and names that cannot be written in a command are ignored. A conversation with such a
model also connects to `127.0.0.1` without a key.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import ConfigurationError

USUAL_PORTS: Mapping[int, str] = {
    11434: "Ollama",
    8080: "llama.cpp",
    1234: "LM Studio",
    8000: "vLLM",
    1337: "Jan",
    5001: "KoboldCpp",
    4000: "LiteLLM proxy",
}
"""Where servers listen unless they are told otherwise, and whose port it is."""

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 0.5
"""For one server to say what it has: it is on this machine."""
MAX_ANSWER_BYTES = 1024 * 1024
MAX_MODELS = 100
"""Of one server; nobody chooses from more."""
_NAME = re.compile(r"[\w][\w.:/@+-]{0,199}", re.ASCII)
_LISTS = ("/v1/models", "/api/tags")


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answered, with the models that it has."""

    port: int
    label: str
    """For people: what usually listens there."""
    models: tuple[str, ...]
    """As `local:PORT/NAME`."""


def port_and_model(name: str) -> tuple[int, str]:
    """The parts of `local:PORT/NAME`. Raises ConfigurationError."""
    port, _, model = name.removeprefix("local:").partition("/")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536 and model):
        raise ConfigurationError(
            f"{name!r} is no model's name. Write local:PORT/NAME, such as local:11434/qwen3-coder."
        )
    return int(port), model


def base_of(port: int) -> str:
    """The address of the API of the server at a port."""
    return f"http://{LOOPBACK}:{port}/v1"


async def find_servers(ports: Iterable[int] = tuple(USUAL_PORTS), timeout_s: float = TIMEOUT_S) -> list[LocalServer]:
    """The servers at these ports that have models. Takes `timeout_s` at most; never raises for what a server does."""
    found = await asyncio.gather(*(_ask(port, timeout_s) for port in ports))
    return [
        LocalServer(port, USUAL_PORTS.get(port, "OpenAI-compatible"), tuple(f"local:{port}/{name}" for name in names))
        for port, names in zip(ports, found, strict=True)
        if names
    ]


async def _ask(port: int, timeout_s: float) -> Sequence[str]:
    """The names of the models of the server at a port; none where nobody listens or it is something else."""
    try:
        async with asyncio.timeout(timeout_s):
            for path in _LISTS:
                if names := _names(await _get(port, path)):
                    return names
    except (OSError, TimeoutError):
        pass
    return ()


async def _get(port: int, path: str) -> bytes:
    """The body of an answer of status 200, as far as it may be read; empty for any other. Raises OSError."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        # HTTP/1.0 has no chunks and ends with the connection, so that all that follows the head is the body.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}:{port}\r\nAccept: application/json\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) <= MAX_ANSWER_BYTES and (data := await reader.read(65536)):
            answer += data
    finally:
        writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    return body if re.match(rb"HTTP/1\.[01] 200\b", head) and len(answer) <= MAX_ANSWER_BYTES else b""


def _names(body: bytes) -> Sequence[str]:
    """The models in a list of OpenAI's form or of Ollama's."""
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
