"""Backends for the values of secrets: the system's keyring, or a file that only the user can read.

The package `keyring` is imported only here, and only when a secret is used. Its exceptions are reported by their class,
because their texts may contain a value. If the keyring is locked, nothing is written to the file instead, except what
the user puts there (`handloom secrets set NAME --file`). Once the file exists, new values go there, and the keyring is
still read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.secrets.vault import VALUES, Backend, read_private, write_private

SERVICE = "handloom"
PAUSE_S = 5.0
"""Time without access to a keyring that failed, so that a closed dialog does not reappear for each secret."""
HINT = "Unlock it and try again, or store a secret in a file that only you can read: handloom secrets set NAME --file"


class FileBackend:
    """A file in the home folder with mode 0600."""

    def __init__(self, home: Path) -> None:
        self._file = home / VALUES

    @property
    def place(self) -> str:
        return str(self._file)

    def get(self, key: str) -> str | None:
        """Return a value. Raises ConfigurationError if other users can read the file."""
        value = self._values().get(key)
        return value if isinstance(value, str) else None

    def put(self, key: str, value: str | None) -> None:
        """Store or delete a value. Raises ConfigurationError."""
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
    """The system's keyring."""

    def __init__(self, keyring: Any, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring, self._clock = keyring, clock
        self._refused_at, self._refused = -PAUSE_S, ""
        self.place = f"the system's keyring ({name})"

    def get(self, key: str) -> str | None:
        """Return a value. Raises ConfigurationError if the keyring is not available."""
        value = self._ask(lambda: self._keyring.get_password(SERVICE, key))
        return value if isinstance(value, str) else None

    def put(self, key: str, value: str | None) -> None:
        """Store or delete a value. Raises ConfigurationError."""
        if value is not None:
            self._ask(lambda: self._keyring.set_password(SERVICE, key, value))
        elif self.get(key) is not None:
            self._ask(lambda: self._keyring.delete_password(SERVICE, key))

    def _ask(self, work: Callable[[], Any]) -> Any:
        """Raises ConfigurationError; for PAUSE_S after a failure, without access to the keyring."""
        if self._clock() - self._refused_at < PAUSE_S:
            raise ConfigurationError(self._refused)
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # boundary: keyrings raise anything
            self._refused_at = self._clock()
            self._refused = f"The system's keyring does not work ({type(error).__name__}). {HINT}"
            raise ConfigurationError(self._refused) from None


class FileAndKeyring:
    """The file, and the keyring for values that the file does not have."""

    def __init__(self, home: Path) -> None:
        self._file = FileBackend(home)
        self._keyring: KeyringBackend | None = None

    @property
    def place(self) -> str:
        return self._file.place

    def get(self, key: str) -> str | None:
        """Return a value. Raises ConfigurationError."""
        value = self._file.get(key)
        return value if value is not None or (ring := self._ring()) is None else ring.get(key)

    def put(self, key: str, value: str | None) -> None:
        """Store a value in the file, or delete it everywhere. Raises ConfigurationError."""
        self._file.put(key, value)
        if value is None and (ring := self._ring()) is not None:
            ring.put(key, None)

    def _ring(self) -> KeyringBackend | None:
        self._keyring = self._keyring or _keyring()
        return self._keyring


class UnavailableKeyring:
    """A keyring that has secrets but cannot be reached from this session."""

    place = "the system's keyring, which cannot be reached"

    def get(self, key: str) -> str | None:
        """Raises ConfigurationError."""
        raise ConfigurationError(f"Your secrets are in the system's keyring, which cannot be reached. {HINT}")

    def put(self, key: str, value: str | None) -> None:
        """Raises ConfigurationError."""
        self.get(key)


def best_backend(home: Path, *, has_secrets: bool = False) -> Backend:
    """The keyring if it is available, else the file; the file if it exists already.

    `has_secrets` tells that secrets exist. If they are not in the file, they are in a keyring.
    """
    if (home / VALUES).exists():
        return FileAndKeyring(home)
    return _keyring() or (UnavailableKeyring() if has_secrets else FileBackend(home))


def _keyring() -> KeyringBackend | None:
    try:
        found = import_module("keyring").get_keyring()
        name = type(found).__module__.rpartition(".")[2]
        return KeyringBackend(found, name) if name not in ("fail", "null") and found.priority > 0 else None
    except Exception:  # noqa: BLE001  # boundary: no package, no D-Bus or no session
        return None


def wrong_mode(file: Path) -> str:
    """The problem with the permissions of a file, and what to do; empty if there is none."""
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        return f"{file} is not your file. Move it away and set its secrets again."
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"Other users can read {file} and your secrets in it. Run chmod 600 on it, and change those secrets."
    return ""
