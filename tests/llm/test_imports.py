"""What choosing and calling models must not load into Handloom's own process."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "core.llm.registry",
        "core.llm.model_host_client",
        "core.llm.scripted_model",
        "core.agent.registry",
        "core.memory.memory",
    ],
)
def test_provider_libraries_are_loaded_only_in_the_model_host(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert module in loaded
    assert not loaded & {"litellm", "aiohttp", "openai", "httpx", "yaml", "textual"}
