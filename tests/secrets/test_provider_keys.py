"""Keys of providers: checked by a real call over HTTP, stored for models alone, used from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.protocols import LLMRequest
from core.secrets.backends import FileBackend
from core.secrets.provider_keys import KeyWanted
from core.secrets.vault import MODELS, Vault
from core.settings.config import load
from tests.doubles import ScriptedRuntime
from tests.openai_server import KEY, OpenAIServer, fails

WRONG = "sk-wrong-wrong-wrong"


@asynccontextmanager
async def manager_in(home: Path, **environ: str) -> AsyncIterator[ConversationManager]:
    settings = load(home, environ)
    async with ConversationManager(
        home, settings, make_runtime=lambda _: ScriptedRuntime(), environ=environ
    ) as manager:
        manager.vault = manager.factory.vault = Vault(home, FileBackend(home))
        yield manager


async def ask(manager: ConversationManager, model: str) -> str:
    settings = manager.settings
    llm = await asyncio.to_thread(manager.factory.llms.create, model, "/", settings.llm, settings.models)
    return (await llm.complete(LLMRequest([{"role": "user", "content": "x"}]), lambda frame: None, 0)).text


async def test_endpoint_with_a_key_is_used_now_and_after_a_restart(tmp_path: Path) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path) as manager:
        name = await manager.keys.add_endpoint(server.base_url, "org/qwen 3", f" {KEY}\n")
        assert name == "qwen-3"
        assert await ask(manager, name) == "Hello."
        (secret,) = manager.vault.all()
        assert (secret.name, secret.scope) == ("QWEN_3_API_KEY", MODELS)
        assert manager.vault.usable(str(tmp_path), "c") == {}, "no command gets it"
        assert KEY not in (tmp_path / "config.toml").read_text()
        assert KEY not in manager.redact(f"it is {KEY}")
        async with manager_in(tmp_path) as again:
            again.settings = load(tmp_path, {})
            await again.learn_secrets()
            assert await ask(again, name) == "Hello."
        assert "second" not in manager.settings.models
        assert await manager.keys.add_endpoint(server.base_url, "qwen-3", KEY) == "qwen-3-2", "the first one stays"


async def test_refused_key_leaves_nothing_behind(tmp_path: Path) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path) as manager:
        with pytest.raises(ModelError) as caught:
            await manager.keys.add_endpoint(server.base_url, "m", WRONG)
        assert caught.value.kind is ModelErrorKind.AUTHENTICATION
        assert "did not accept this key" in str(caught.value)
        assert WRONG not in str(caught.value)
        assert manager.vault.all() == []
        assert manager.settings.models == {}
        assert not (tmp_path / "config.toml").exists()


@pytest.mark.parametrize("key", ["", "short", "two words", "a\nb-and-more-of-it"])
async def test_what_is_no_key_is_refused_without_a_call(tmp_path: Path, key: str) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path) as manager:
        with pytest.raises(ConfigurationError):
            await manager.keys.add_endpoint(server.base_url, "m", key)
        assert server.exchanges == []


async def test_key_counts_as_accepted_if_only_the_rate_limit_is_reached(tmp_path: Path) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path) as manager:
        server.then(fails(429))
        await manager.keys.add_endpoint(server.base_url, "m", KEY)
        assert [secret.name for secret in manager.vault.all()] == ["M_API_KEY"]


async def test_key_of_a_provider_reaches_a_host_that_runs_already(tmp_path: Path) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path, OPENAI_BASE_URL=server.base_url) as manager:
        with pytest.raises(ModelError):
            await ask(manager, "openai/m")
        (openai,) = [wanted for wanted, has_key in manager.keys.providers() if wanted.label == "OpenAI" and not has_key]
        await manager.keys.add(openai, KEY)
        assert await ask(manager, "openai/m") == "Hello."
        assert await manager.keys.wanted_by("openai/m") is None
        assert all(has_key for wanted, has_key in manager.keys.providers() if wanted.label == "OpenAI")


async def test_new_key_replaces_the_stored_one(tmp_path: Path) -> None:
    async with OpenAIServer() as server, manager_in(tmp_path, OPENAI_BASE_URL=server.base_url) as manager:
        openai = KeyWanted("openai/m", "OPENAI_API_KEY", "OpenAI")
        await manager.keys.add(openai, KEY)
        server.key = "sk-the-second-key"
        await manager.keys.add(openai, server.key)
        assert await ask(manager, "openai/m") == "Hello."


async def test_key_of_the_environment_is_not_shadowed(tmp_path: Path) -> None:
    async with manager_in(tmp_path, ANTHROPIC_API_KEY=WRONG) as manager:
        with pytest.raises(ConfigurationError, match="The environment sets ANTHROPIC_API_KEY"):
            await manager.keys.add(KeyWanted("anthropic/m", "ANTHROPIC_API_KEY", "Anthropic"), KEY)
        assert await manager.keys.wanted_by("anthropic/m") is None


async def test_model_without_a_key_says_which_it_wants(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        assert await manager.keys.wanted_by("mistral/new") == KeyWanted("mistral/new", "MISTRAL_API_KEY", "Mistral")
        for name in ("demo", "ollama_chat/q"):
            assert await manager.keys.wanted_by(name) is None
        with pytest.raises(ConfigurationError, match="'no such name' is not a model name"):
            await manager.keys.wanted_by("no such name")
