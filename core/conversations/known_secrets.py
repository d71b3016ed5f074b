"""Which secrets a process knows from its start: to be masked wherever they come up, and to be handed to models.

The environment's by the names of its variables, those that settings name, those that stand in addresses, and the
vault's. Pure but for what is read of the vault and of a key file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from core.errors import ConfigurationError
from core.llm.providers import PROVIDERS
from core.regular_files import read_text
from core.secrets import MIN_LENGTH, from_environment
from core.secrets.token_patterns import certain
from core.secrets.variable_names import passwords_in
from core.secrets.vault import Vault
from core.settings.config import Settings

MAX_KEY_FILE_BYTES = 65_536


def values_of(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The values that the environment and the settings hold."""
    named = [environ[name] for name in _key_names(settings) if name in environ]
    return [*from_environment(environ), *named, *_in_addresses(settings, environ)]


def kept_values(vault: Vault, settings: Settings, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What vault and key file hold, and the keys among it that the environment lacks, by name. Blocks."""
    values, keys = vault.values(), dict[str, str]()
    if values:
        variables = {name for provider in PROVIDERS.values() for name in provider.key_variables}
        for name in variables.union(_key_names(settings)).difference(environ):
            with suppress(ConfigurationError):
                if (value := vault.value_of(name)) is not None:
                    keys[name] = value
    if (file := settings.remote.key_file) is not None:
        with suppress(OSError, UnicodeDecodeError):
            values.append(read_text(file.expanduser(), MAX_KEY_FILE_BYTES).strip())
    return values, keys


def _key_names(settings: Settings) -> set[str]:
    """Variables that the settings name because a key is in them."""
    named = [model.key_env for model in settings.models.values()]
    named += [server.key_env for server in settings.mcp.servers.values()]
    return {name for name in [*named, settings.remote.key_env] if name}


def _in_addresses(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Passwords of addresses, and tokens that stand in place of a user's name."""
    addresses = [settings.llm.api_base, settings.remote.url, settings.docker.engine]
    addresses += [model.api_base for model in settings.models.values()]
    addresses += [server.url for server in settings.mcp.servers.values()]
    for address in [*filter(None, addresses), *(value for value in environ.values() if "://" in value)]:
        yield from (password for password in passwords_in(address) if len(password) >= MIN_LENGTH)
        with suppress(ValueError):
            user = urlsplit(address).username
            if user and certain(user):
                yield unquote(user)
