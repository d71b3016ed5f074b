"""The secrets that a process knows from its start: they are redacted everywhere, and passed to models.

Those of the environment by the names of the variables, those that settings name, those in addresses, and those of the
vault. Pure, except for reading the vault and a key file.
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
    """The secret values in the environment and the settings."""
    named = [environ[name] for name in _key_names(settings) if name in environ]
    written = (text.partition("=") for text in (*settings.sandbox.environment, *settings.docker.environment))
    variables = from_environment({name: value for name, _, value in written})
    return [*from_environment(environ), *variables, *named, *_in_addresses(settings, environ)]


def kept_values(vault: Vault, settings: Settings, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The values in the vault and the key file, and the keys among them that the environment lacks, by name. Blocks."""
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
    """The variables that the settings name for keys."""
    named = [model.key_env for model in settings.models.values()]
    named += [server.key_env for server in settings.mcp.servers.values()]
    return {name for name in [*named, settings.mcp.search_key_env, settings.remote.key_env] if name}


def _in_addresses(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Passwords in addresses, and tokens in the place of a user name."""
    addresses = [settings.llm.api_base, settings.remote.url, settings.docker.engine]
    addresses += [model.api_base for model in settings.models.values()]
    addresses += [server.url for server in settings.mcp.servers.values()]
    for address in [*filter(None, addresses), *(value for value in environ.values() if "://" in value)]:
        yield from (password for password in passwords_in(address) if len(password) >= MIN_LENGTH)
        with suppress(ValueError):
            user = urlsplit(address).username
            if user and certain(user):
                yield unquote(user)
