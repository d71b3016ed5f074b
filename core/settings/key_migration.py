"""Keys that stand in config.toml, moved into the vault: the file keeps the name of the secret in `key_env`.

First all values are kept, then the file is written anew, so that none is ever lost. Blocks.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.home import CONFIG
from core.llm.providers import key_variables_of
from core.regular_files import read_text
from core.secrets import is_secret_name
from core.secrets.token_patterns import certain
from core.secrets.vault import Vault

_NAMES_A_VARIABLE = frozenset({"key_env", "key_file", "env"})
_WITH_KEY_ENV = re.compile(r"models\.[^.]+|mcp\.servers\.[^.]+|remote")


def keys_in(home: Path) -> list[str]:
    """The settings of the user's file that hold a key. Raises ConfigurationError."""
    return [f"{section}.{field}".lstrip(".") for _, section, field, _ in _found(_document(home / CONFIG))]


def adopt(home: Path, vault: Vault) -> list[tuple[str, str]]:
    """Move every key; the settings that held one, and the secrets that do now. Raises ConfigurationError."""
    import tomlkit  # on first use: a start does not need it

    file = home / CONFIG
    document, moved = _document(file), list[tuple[str, str]]()
    for table, section, field, value in list(_found(document)):
        setting = f"{section}.{field}".lstrip(".")
        known = key_variables_of(str(document.get("model", ""))) if section == "llm" and field == "api_key" else ()
        name = known[0] if known else _name_for(section, field)
        vault.put(name, value, description=f"Was {setting} in {CONFIG}.")
        del table[field]
        if _WITH_KEY_ENV.fullmatch(section) and "key_env" not in table:
            table["key_env"] = name
        moved.append((setting, name))
    if moved:
        try:
            with tempfile.NamedTemporaryFile("w", dir=home, delete=False, encoding="utf-8") as new:  # 0600 by itself
                new.write(tomlkit.dumps(document))
            os.replace(new.name, file)
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be written: {error.strerror}. It still holds the keys.") from None
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
    """(table, its name, field, value) of each setting that holds a key."""
    for field, value in table.items():
        if isinstance(value, dict):
            yield from _found(value, f"{section}.{field}".lstrip("."))
        elif isinstance(value, str) and field not in _NAMES_A_VARIABLE and (is_secret_name(field) or certain(value)):
            yield table, section, field, str(value)


def _name_for(section: str, field: str) -> str:
    """A secret's name for a setting, such as MODELS_FAST_API_KEY."""
    name = re.sub(r"[^A-Z0-9]+", "_", f"{section}_{field}".upper()).strip("_")
    return name[:64] if is_secret_name(name) else f"{name[:60]}_KEY"
