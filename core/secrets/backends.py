"""Where values of secrets are kept: the system's keyring, or a file that nobody else may read where there is none.

`keyring` is loaded here and nowhere else, and only when a secret is used. What it raises is told by its class alone:
its texts may quote what it was given. A keyring that is locked or gone is told; nothing goes into the file in its place
but what the user puts there (`handloom secrets set NAME --file`). Once there is a file, it is where secrets are kept,
and what the keyring has besides is still found.
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
"""Between two questions to a keyring that refused: a dialog that the user closed does not come once for each secret."""
INSTEAD = "Unlock it and try again, or keep a secret in a file that only you can read: handloom secrets set NAME --file"


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

    def __init__(self, keyring: Any, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring, self._clock = keyring, clock
        self._refused_at, self._refused = -PAUSE_S, ""
        self.place = f"the system's keyring ({name})"

    def get(self, key: str) -> str | None:
        """A value. Raises ConfigurationError where the keyring is locked or gone."""
        value = self._ask(lambda: self._keyring.get_password(SERVICE, key))
        return value if isinstance(value, str) else None

    def put(self, key: str, value: str | None) -> None:
        """Keep or forget a value. Raises ConfigurationError."""
        if value is not None:
            self._ask(lambda: self._keyring.set_password(SERVICE, key, value))
        elif self.get(key) is not None:
            self._ask(lambda: self._keyring.delete_password(SERVICE, key))

    def _ask(self, work: Callable[[], Any]) -> Any:
        """Raises ConfigurationError, and then the same for PAUSE_S without asking."""
        if self._clock() - self._refused_at < PAUSE_S:
            raise ConfigurationError(self._refused)
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # boundary: every system's keyring raises what it likes
            self._refused_at = self._clock()
            self._refused = f"The system's keyring does not work ({type(error).__name__}). {INSTEAD}"
            raise ConfigurationError(self._refused) from None


class Both:
    """The file, and behind it the keyring for what the file does not have."""

    def __init__(self, home: Path) -> None:
        self._file = FileBackend(home)
        self._keyring: KeyringBackend | None = None

    @property
    def place(self) -> str:
        return self._file.place

    def get(self, key: str) -> str | None:
        """A value. Raises ConfigurationError."""
        value = self._file.get(key)
        return value if value is not None or (ring := self._ring()) is None else ring.get(key)

    def put(self, key: str, value: str | None) -> None:
        """Keep a value in the file, or forget it everywhere. Raises ConfigurationError."""
        self._file.put(key, value)
        if value is None and (ring := self._ring()) is not None:
            ring.put(key, None)

    def _ring(self) -> KeyringBackend | None:
        self._keyring = self._keyring or _keyring()
        return self._keyring


class OutOfReach:
    """A keyring that has secrets, and is not to be had from where this was started."""

    place = "the system's keyring, which cannot be reached"

    def get(self, key: str) -> str | None:
        """Raises ConfigurationError."""
        raise ConfigurationError(f"Your secrets are in the system's keyring, which cannot be reached. {INSTEAD}")

    def put(self, key: str, value: str | None) -> None:
        """Raises ConfigurationError."""
        self.get(key)


def best_backend(home: Path, *, has_secrets: bool = False) -> Backend:
    """The keyring where there is one that keeps things, else the file; what the file holds already stays there.

    `has_secrets` says that there are some: those that are in no file are in a keyring.
    """
    if (home / VALUES).exists():
        return Both(home)
    return _keyring() or (OutOfReach() if has_secrets else FileBackend(home))


def _keyring() -> KeyringBackend | None:
    try:
        found = import_module("keyring").get_keyring()
        name = type(found).__module__.rpartition(".")[2]
        return KeyringBackend(found, name) if name not in ("fail", "null") and found.priority > 0 else None
    except Exception:  # noqa: BLE001  # boundary: no package, no D-Bus, no session are all the same
        return None


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
