"""Moves keys from config.toml into the vault. The file keeps the name of the secret in `key_env`.

All values are stored before the file is replaced, so that none is lost. Blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.environment import CONFIG
from core.errors import ConfigurationError
from core.llm.providers import key_variables_of
from core.regular_files import read_text, write_private
from core.secrets import is_secret_name
from core.secrets.token_patterns import certain
from core.secrets.vault import Vault
from core.settings.sections import MCPSettings

_NAMES_A_VARIABLE = frozenset({"key_env", "key_file", "env"})
SEARCH_KEY = MCPSettings().search_key_env
_WITH_KEY_ENV = re.compile(r"models\.[^.]+|mcp\.servers\.[^.]+|remote")


def keys_in(home: Path) -> list[str]:
    """Return the settings of the user's file that contain a key. Raises ConfigurationError."""
    return [f"{section}.{field}".lstrip(".") for _, section, field, _ in _found(_document(home / CONFIG))]


def adopt(home: Path, vault: Vault) -> list[tuple[str, str]]:
    """Move every key, and return each setting with the name of its secret. Raises ConfigurationError."""
    import tomlkit  # on first use: a start does not need it

    file = home / CONFIG
    document, moved = _document(file), list[tuple[str, str]]()
    for table, section, field, value in list(_found(document)):
        setting = f"{section}.{field}".lstrip(".")
        known = key_variables_of(str(document.get("model", ""))) if section == "llm" and field == "api_key" else ()
        if field == "search_api_key":  # as V0 names it
            known = (SEARCH_KEY,)
        name = known[0] if known else _name_for(section, field)
        vault.put(name, value, description=f"Was {setting} in {CONFIG}.")
        del table[field]
        if _WITH_KEY_ENV.fullmatch(section) and "key_env" not in table:
            table["key_env"] = name
        moved.append((setting, name))
    if moved:
        try:
            write_private(file, tomlkit.dumps(document))
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be written: {error.strerror}. The keys are still there.") from None
    return moved


def _document(file: Path) -> Any:
    import tomlkit

    try:
        return tomlkit.parse(read_text(file))
    except FileNotFoundError:
        return tomlkit.document()
    except (OSError, UnicodeDecodeError, tomlkit.exceptions.ParseError):
        raise ConfigurationError(f"{file} cannot be read. Correct it first.") from None


def _found(table: Any, section: str = "") -> Iterator[tuple[Any, str, str, str]]:
    """Yield (table, its name, field, value) of each setting that contains a key."""
    for field, value in table.items():
        if isinstance(value, dict):
            yield from _found(value, f"{section}.{field}".lstrip("."))
        elif isinstance(value, str) and field not in _NAMES_A_VARIABLE and (is_secret_name(field) or certain(value)):
            yield table, section, field, str(value)


def _name_for(section: str, field: str) -> str:
    """Return the name of the secret for a setting, such as MODELS_FAST_API_KEY."""
    name = re.sub(r"[^A-Z0-9]+", "_", f"{section}_{field}".upper()).strip("_")
    return name[:64] if is_secret_name(name) else f"{name[:60]}_KEY"
