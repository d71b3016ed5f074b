"""Vault: the user's secrets, which agents can use in commands without seeing their values.

Names and descriptions are in `secrets.json` of the home folder. Values are in the system's keyring, or in
`secret-values.json`, which only the user can read. A secret applies everywhere, in one project or in one conversation;
the most specific one of a name is used. All methods block. No error message contains a value.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from core.errors import ConfigurationError
from core.regular_files import read_text
from core.secrets.command_secrets import MAX_BYTES, is_usable, referenced
from core.secrets.variable_names import MIN_LENGTH

INDEX, VALUES, LOCK = "secrets.json", "secret-values.json", "secrets.lock"
EVERYWHERE = "everywhere"
GIT = "git"
"""The scope of a token that git on this machine uses for the agent, and no command gets."""
MODELS = "models"
"""The scope of a provider's key that models are called with, and no command gets."""
FOLDER, CONVERSATION = "folder:", "conversation:"
MAX_SECRETS = 500
MAX_DESCRIPTION = 300
MISSING_VALUE = "{place} has no value for {names}. Set it again: handloom secrets set NAME"
USED_EVERY = timedelta(minutes=1)
"""The precision of `used_at`, so that not every command writes the file."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret without its value."""

    name: str
    description: str = ""
    scope: str = EVERYWHERE
    """`everywhere`, `folder:PATH`, `conversation:ID`, or `git` and `models`, whose values no command gets."""
    created_at: str = ""
    """ISO 8601, UTC, as is `used_at`."""
    used_at: str = ""
    """When a command last got it; empty for never."""

    @property
    def key(self) -> str:
        """The key of its value in a backend."""
        return f"{self.scope}/{self.name}"

    def is_for(self, workspace: str, conversation_id: str) -> bool:
        """Whether a conversation in this workspace can use it."""
        if self.scope.startswith(FOLDER):
            return Path(workspace).is_relative_to(self.scope.removeprefix(FOLDER))
        return self.scope in (EVERYWHERE, CONVERSATION + conversation_id)


class Backend(Protocol):
    """Storage of values. All methods block and raise ConfigurationError."""

    @property
    def place(self) -> str:
        """Where the values are, for the user."""
        ...

    def get(self, key: str) -> str | None:
        """Return a value, or None."""
        ...

    def put(self, key: str, value: str | None) -> None:
        """Store a value; None deletes it."""
        ...


class Vault:
    """The secrets in one home folder, which several processes can use at once."""

    def __init__(self, home: Path, backend: Backend | None = None) -> None:
        self._home = home
        self._backend = backend

    @property
    def backend(self) -> Backend:
        """The keyring or the file, loaded on first use."""
        if self._backend is None:
            from core.secrets.backends import best_backend

            self._backend = best_backend(self._home, has_secrets=bool(self._read()))
        return self._backend

    def all(self) -> list[Secret]:
        """All secrets, sorted by name. Raises ConfigurationError if the file cannot be read."""
        return sorted(self._read(), key=lambda secret: (secret.name, secret.scope))

    def usable(self, workspace: str, conversation_id: str) -> dict[str, Secret]:
        """The secrets that a conversation can use, by name. Raises ConfigurationError."""
        found = [secret for secret in self._read() if secret.is_for(workspace, conversation_id)]
        return {secret.name: secret for secret in sorted(found, key=_specificity)}

    def descriptions(self, workspace: str, conversation_id: str) -> dict[str, str]:
        """Names and descriptions for the agent. Empty if the file cannot be read."""
        try:
            return {name: secret.description for name, secret in self.usable(workspace, conversation_id).items()}
        except ConfigurationError:
            return {}

    def named_in(self, text: str, workspace: str, conversation_id: str) -> dict[str, str]:
        """The values of the secrets that a command or cell names; updates `used_at`. Raises ConfigurationError."""
        usable = self.usable(workspace, conversation_id)
        used = [usable[name] for name in referenced(text, usable.keys())]
        values = {secret.name: value for secret in used if (value := self.backend.get(secret.key)) is not None}
        if missing := [secret.name for secret in used if secret.name not in values]:
            raise ConfigurationError(MISSING_VALUE.format(names=", ".join(missing), place=self.backend.place))
        self._note_use(used)
        return values

    def values(self) -> list[str]:
        """All values that can be read, for redaction."""
        found: list[str] = []
        with suppress(ConfigurationError):
            for secret in self._read():
                with suppress(ConfigurationError):
                    if (value := self.backend.get(secret.key)) is not None:
                        found.append(value)
        return found

    def value_of(self, name: str) -> str | None:
        """The value of a key for models, or of a secret that applies everywhere. Raises ConfigurationError."""
        known = {secret.scope for secret in self._read() if secret.name == name}
        return next((self.backend.get(f"{scope}/{name}") for scope in (MODELS, EVERYWHERE) if scope in known), None)

    def for_git(self, name: str, workspace: str, conversation_id: str) -> str | None:
        """The value of this name that git may use in a conversation: that of the scope `git` before others; updates
        `used_at`. Raises ConfigurationError.
        """
        of_git = next((secret for secret in self._read() if (secret.name, secret.scope) == (name, GIT)), None)
        secret = of_git or self.usable(workspace, conversation_id).get(name)
        if secret is None:
            return None
        if (value := self.backend.get(secret.key)) is None:
            raise ConfigurationError(MISSING_VALUE.format(names=name, place=self.backend.place))
        self._note_use([secret])
        return value

    def put(self, name: str, value: str, *, description: str | None = None, scope: str = EVERYWHERE) -> Secret:
        """Store a secret, and replace one of the same name and scope. Raises ConfigurationError."""
        if wrong := wrong_with(name, value):
            raise ConfigurationError(wrong)
        with self._changing() as secrets:
            old = next((secret for secret in secrets if (secret.name, secret.scope) == (name, scope)), None)
            text = " ".join((description or "").split())[:MAX_DESCRIPTION]
            fresh = old or Secret(name, scope=scope, created_at=_now())
            fresh = replace(fresh, description=text) if description is not None else fresh
            if old is None and len(secrets) >= MAX_SECRETS:
                raise ConfigurationError(f"There are {MAX_SECRETS} secrets already. Remove one first.")
            self.backend.put(fresh.key, value)
            secrets[:] = [secret for secret in secrets if secret != old] + [fresh]
        return fresh

    def remove(self, name: str, scope: str = EVERYWHERE) -> bool:
        """Delete a secret. Returns whether it existed. Raises ConfigurationError."""
        with self._changing() as secrets:
            gone = [secret for secret in secrets if (secret.name, secret.scope) == (name, scope)]
            for secret in gone:
                self.backend.put(secret.key, None)
            secrets[:] = [secret for secret in secrets if secret not in gone]
        return bool(gone)

    def _note_use(self, used: list[Secret]) -> None:
        now = datetime.now(UTC)
        late = [one.key for one in used if not one.used_at or now - datetime.fromisoformat(one.used_at) > USED_EVERY]
        if late:
            with self._changing() as secrets:
                secrets[:] = [replace(one, used_at=_now()) if one.key in late else one for one in secrets]

    @contextmanager
    def _changing(self) -> Iterator[list[Secret]]:
        """Yields the list of secrets under a lock, and saves it if nothing is raised."""
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"Secrets cannot be stored in {self._home}: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            secrets = self._read()
            yield secrets
            write_private(self._home / INDEX, {"version": 1, "secrets": [asdict(secret) for secret in secrets]})
        finally:
            os.close(lock)

    def _read(self) -> list[Secret]:
        data = read_private(self._home / INDEX)
        try:
            return [Secret(**{name: str(value) for name, value in item.items()}) for item in data.get("secrets", [])]
        except (AttributeError, TypeError):
            raise ConfigurationError(f"{self._home / INDEX} is not a list of secrets. Move it away.") from None


def wrong_with(name: str, value: str) -> str:
    """Why a secret cannot be stored, for the user; empty if it can."""
    if not is_usable(name):
        return f"{name!r} cannot be a secret's name: take letters, digits and _, such as GITHUB_TOKEN, and not PATH."
    if len(value) < MIN_LENGTH:
        return f"The value has fewer than {MIN_LENGTH} characters. Redacting it would also redact ordinary text."
    if "\0" in value or len(value.encode("utf-8", "replace")) >= MAX_BYTES:
        return f"The value contains a NUL or is longer than {MAX_BYTES} bytes. Use a file instead."
    return ""


def scope_of(folder: str = "", conversation_id: str = "", *, git: bool = False, models: bool = False) -> str:
    """The scope for git alone, models alone, a folder, a conversation, or everywhere."""
    if git or models:
        return GIT if git else MODELS
    if conversation_id:
        return CONVERSATION + conversation_id
    return FOLDER + str(Path(folder).expanduser().absolute()) if folder else EVERYWHERE


def read_private(file: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file does not exist. Raises ConfigurationError without quoting the file."""
    try:
        data = json.loads(read_text(file))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise ConfigurationError(f"{file} cannot be read: {reason}. Correct it or move it away.") from None
    if not isinstance(data, dict):
        raise ConfigurationError(f"{file} is not a list of secrets. Move it away.")
    return data


def write_private(file: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, readable only by its owner. Raises ConfigurationError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, new = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # with mode 0600
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as out:
                json.dump(data, out, indent=1)
                out.flush()
                os.fsync(out.fileno())
            os.replace(new, file)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.") from None


def _specificity(secret: Secret) -> tuple[int, int]:
    """A sort key: everywhere, then folders from the outermost, then the conversation."""
    rank = (EVERYWHERE, FOLDER, CONVERSATION).index(
        EVERYWHERE if secret.scope == EVERYWHERE else secret.scope.partition(":")[0] + ":"
    )
    return rank, len(secret.scope)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
