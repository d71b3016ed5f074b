"""Where values of secrets are kept: the system's keyring, or a file that nobody else may read where there is none.

`keyring` is an optional package, loaded here and nowhere else, and only when a secret is used. What it raises is told
by its class alone: its texts may quote what it was given.
"""

from __future__ import annotations

import os
import stat
from importlib import import_module
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.secrets.vault import VALUES, Backend, read_private, write_private

SERVICE = "handloom"


class FileBackend:
    """A file in the home with mode 0600."""

    def __init__(self, home: Path) -> None:
        self._file = home / VALUES

    @property
    def place(self) -> str:
        return str(self._file)

    def get(self, key: str) -> str | None:
        """A value. Raises ConfigurationError where others may read the file."""
        value = self._values().get(key)
        return value if isinstance(value, str) else None

    def put(self, key: str, value: str | None) -> None:
        """Keep or forget a value. Raises ConfigurationError."""
        values = self._values()
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        write_private(self._file, values)

    def _values(self) -> dict[str, Any]:
        if wrong := wrong_mode(self._file):
            raise ConfigurationError(wrong)
        return read_private(self._file)


class KeyringBackend:
    """The system's keyring, as the package `keyring` finds it."""

    def __init__(self, keyring: Any, name: str) -> None:
        self._keyring = keyring
        self.place = f"the system's keyring ({name})"

    def get(self, key: str) -> str | None:
        """A value. Raises ConfigurationError where the keyring is locked or gone."""
        try:
            value = self._keyring.get_password(SERVICE, key)
        except Exception as error:  # noqa: BLE001  # boundary: every system's keyring raises what it likes
            raise ConfigurationError(_refused(error)) from None
        return value if isinstance(value, str) else None

    def put(self, key: str, value: str | None) -> None:
        """Keep or forget a value. Raises ConfigurationError."""
        try:
            if value is not None:
                self._keyring.set_password(SERVICE, key, value)
            elif self._keyring.get_password(SERVICE, key) is not None:
                self._keyring.delete_password(SERVICE, key)
        except Exception as error:  # noqa: BLE001  # boundary: every system's keyring raises what it likes
            raise ConfigurationError(_refused(error)) from None


def best_backend(home: Path) -> Backend:
    """The keyring where there is one that keeps things, else the file; what the file holds already stays there."""
    if (home / VALUES).exists():
        return FileBackend(home)
    try:
        found = import_module("keyring").get_keyring()
        name = type(found).__module__.rpartition(".")[2]
        if name not in ("fail", "null") and found.priority > 0:
            return KeyringBackend(found, name)
    except Exception:  # noqa: BLE001, S110  # boundary: no package, no D-Bus, no session are all the same
        pass
    return FileBackend(home)


def wrong_mode(file: Path) -> str:
    """What is wrong with who may read a file, and what to do; empty where nothing is, or there is no file."""
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        return f"{file} is no file of yours. Move it away; its secrets have to be set again."
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"Others may read {file}, and with it your secrets. Run chmod 600 on it, and change those secrets."
    return ""


def _refused(error: Exception) -> str:
    return f"The system's keyring does not work ({type(error).__name__}). Unlock it, and try again."
