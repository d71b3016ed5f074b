"""What goes into the sandbox's image: our code, the locked packages, the user, and the tag that is made from all of it.

Holds that the same content has the same tag on every machine: files are taken by name and bytes, never by time, mode or
owner. The sandbox gets what runs in it and nothing else: of `core` the vocabulary, of `runtime` all but the launchers
that have a folder of their own; no settings, no store, no screen, no model.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

REPOSITORY = "handloom-sandbox"
"""What our images are called; the tag follows after a colon."""
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
"""The folder of the packages: the working copy's, or that of installed packages."""
CODE = (
    "core/__init__.py",
    "core/errors.py",
    "core/events",
    "core/globs.py",
    "core/image_types.py",
    "core/interpreter.py",
    "core/plugin_requirements.py",
    *(f"core/secrets/{name}.py" for name in ("__init__", "byte_dumps", "byte_search", "command_secrets", "encodings")),
    *(f"core/secrets/{name}.py" for name in ("layouts", "redactor", "token_patterns", "variable_names")),
    "core/sandbox_types.py",
    "runtime",
)
"""Files and folders that the action server imports, and little more; a test follows its imports."""
LEFT_OUT = ("runtime/image", "runtime/docker")
SUFFIXES = frozenset({".py", ".js", ".json", ".toml", ".txt", ".md"})
"""Of files that are part of a package; editors and interpreters leave others beside them."""
BUILD = ("packages", "requirements.lock")
NOT_ROOT = 1000
"""The user's number where Handloom runs as root: nothing in a sandbox does."""


@dataclass(frozen=True, slots=True)
class User:
    """Whom the image's programs run as: numbers, for the host knows files by them."""

    uid: int
    gid: int

    @classmethod
    def of_host(cls) -> User:
        """Who runs Handloom, and never root."""
        return cls(os.getuid() or NOT_ROOT, os.getgid() or NOT_ROOT)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything of an image but its base."""

    user: User
    repository: str = REPOSITORY
    root: Path = ROOT

    def content(self) -> str:
        """The digest of all that goes in but the base. Reads files again only where one changed: some milliseconds."""
        stats = tuple((name, str(file), _version(file)) for name, file in self._files())
        return _digest(stats, self.user)

    def tag(self, base: str) -> str:
        """The image's name with its tag; `base` is the base's id, or its name where it is not on this machine."""
        return f"{self.repository}:{hashlib.sha256(f'{self.content()} {base}'.encode()).hexdigest()[:12]}"

    def named(self, tag: str) -> bool:
        """Whether a tag is one of this recipe's, whatever its content."""
        return tag.startswith(f"{self.repository}:")

    def tar(self) -> bytes:
        """The build context. Reads and packs some two hundred files: some ten milliseconds."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, file in self._files():
                data = file.read_bytes()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Each by its name in the context, in a fixed order."""
        yield "Dockerfile", HERE / "Dockerfile"
        for name in BUILD:
            yield f"build/{name}", HERE / name
        for part in CODE:
            path = self.root / part
            found = [path] if path.is_file() else sorted(path.rglob("*"))
            for file in found:
                name = file.relative_to(self.root).as_posix()
                if file.suffix in SUFFIXES and not name.startswith(LEFT_OUT) and file.is_file():
                    yield f"code/{name}", file


def _version(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _digest(stats: tuple[tuple[str, str, tuple[int, int]], ...], user: User) -> str:
    """Keyed by what changes with every write, so that an unchanged file is read once in a process's life."""
    digest = hashlib.sha256(f"{user.uid} {user.gid}\n".encode())
    for name, file, _ in stats:
        data = Path(file).read_bytes()
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
