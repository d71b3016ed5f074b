"""Keys of providers and endpoints that the user enters: checked by one call of a model, then stored in the vault.

They are stored with the scope `models`, so that models are called with them and no command of an agent gets them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.llm.provider_errors import PROVIDER_SAID
from core.llm.providers import PROVIDERS
from core.llm.registry import MissingKeyError
from core.llm.settings import NamedModel
from core.secrets.vault import MODELS, wrong_with
from core.settings.config import save_settings

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager


class KeyWanted(NamedTuple):
    """A key that a model needs."""

    model: str
    """The model that the key is checked with."""
    variable: str
    label: str
    """The provider's name."""


class ProviderKeys:
    """Adds keys to one home folder."""

    def __init__(self, manager: ConversationManager) -> None:
        self._manager = manager

    async def wanted_by(self, model: str) -> KeyWanted | None:
        """The key without which a model cannot be called; None if it can. Raises ConfigurationError."""
        manager = self._manager
        create = manager.factory.llms.create
        try:
            await asyncio.to_thread(create, model, "/", manager.settings.llm, manager.settings.models)
        except MissingKeyError as error:
            return KeyWanted(model, error.variable, error.provider.label)
        return None

    def providers(self) -> list[tuple[KeyWanted, bool]]:
        """The providers that one model is known of, by the key that each needs, and whether it has one."""
        known = self._manager.factory.environ
        return [
            (KeyWanted(one.default_model, one.key_variables[0], one.label), one.has_key(known))
            for one in PROVIDERS.values()
            if one.default_model
        ]

    async def add(self, wanted: KeyWanted, key: str) -> str:
        """Check a key with one short call, and store it. Returns where it is stored.

        Raises ModelError if the provider refuses it or cannot be reached, and ConfigurationError; then nothing is
        stored. Takes seconds, at most half a minute.
        """
        manager, settings = self._manager, self._manager.settings
        key = key.strip()
        if any(not char.isprintable() or char.isspace() for char in key):
            raise ConfigurationError("A key has no spaces or line breaks. Copy it again, alone.")
        if wrong := wrong_with(wanted.variable, key):
            raise ConfigurationError(wrong)
        if manager.factory.given_environ.get(wanted.variable):
            raise ConfigurationError(
                f"The environment sets {wanted.variable}, which is used instead of a stored key. Change it there, and "
                f"start Handloom again."
            )
        try:
            await manager.factory.llms.check_key(wanted.model, {wanted.variable: key}, settings.llm, settings.models)
        except ModelError as error:
            if error.kind is not ModelErrorKind.AUTHENTICATION:
                raise
            said = str(error).partition(PROVIDER_SAID)[2]
            text = f"{wanted.label} did not accept this key. Copy it again, or make a new one."
            raise ModelError(error.kind, f"{text}{PROVIDER_SAID}{said}" if said else text) from error
        description = f"The API key of {wanted.label}"
        await asyncio.to_thread(manager.vault.put, wanted.variable, key, description=description, scope=MODELS)
        await manager.learn_secrets()
        return await asyncio.to_thread(lambda: manager.vault.backend.place)

    async def add_endpoint(self, url: str, model: str, key: str) -> str:
        """Add a model of an OpenAI-compatible endpoint that needs a key, after a check. Returns its new name.

        Raises as `add`; if only the settings cannot be saved, the key stays among the secrets.
        """
        manager = self._manager
        before = manager.settings
        name = _free_name(model, before.models)
        variable = re.sub(r"\W", "_", name).upper() + "_API_KEY"
        variable = variable if variable[0].isalpha() else f"MODEL_{variable}"
        named = NamedModel(model=f"openai/{model.removeprefix('openai/')}", api_base=url, key_env=variable)
        manager.settings = before.model_copy(update={"models": {**before.models, name: named}})
        try:
            await self.add(KeyWanted(name, variable, url), key)
            saved = {"model": named.model, "api_base": url, "key_env": variable}
            values = {f"models.{name}.{field}": value for field, value in saved.items()}
            await asyncio.to_thread(save_settings, manager.store.home, values)
        except BaseException:
            manager.settings = before
            raise
        return name

    async def check_endpoint(self, url: str, model: str) -> None:
        """Call a model of an OpenAI-compatible endpoint that needs no key. Takes seconds, at most half a minute.

        Raises ModelError if it does not answer, and ConfigurationError.
        """
        settings = self._manager.settings.llm.model_copy(update={"api_base": url})
        await self._manager.factory.llms.check_key(model, {}, settings, {})


def _free_name(model: str, taken: Mapping[str, object]) -> str:
    """A name for the section of a model that no other has."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", model.rpartition("/")[2]).strip("-_")[:50] or "model"
    return next(name for name in (base, *(f"{base}-{n}" for n in range(2, 1000))) if name not in taken)
