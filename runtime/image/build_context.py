"""The content of the sandbox's image: Handloom's code, the locked packages, the user, and the tag computed from them.

Invariant: the same content has the same tag on every machine, because only names and bytes of files count, not times,
modes or owners. The image only contains what runs in it: the event types and the terminal emulator of `core`, and
`runtime` without image and docker; no settings, no store, no screen, no models.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

REPOSITORY = "handloom-sandbox"
"""Name of Handloom's images, before the colon and the tag."""
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
"""The folder with the packages `core` and `runtime`: the working copy, or site-packages."""
CODE = (
    "core/__init__.py",
    "core/environment.py",
    "core/errors.py",
    "core/events",
    "core/globs.py",
    "core/image_types.py",
    "core/interpreter.py",
    "core/plugin_requirements.py",
    *(f"core/secrets/{name}.py" for name in ("__init__", "byte_dumps", "byte_search", "command_secrets", "encodings")),
    *(f"core/secrets/{name}.py" for name in ("redactor", "token_patterns", "variable_names")),
    "core/sandbox_types.py",
    "core/status_messages.py",
    "core/terminal",
    "runtime",
)
"""Files and folders that the action server imports, and little more. A test checks its imports."""
LEFT_OUT = ("runtime/image", "runtime/docker")
SUFFIXES = frozenset({".py", ".js", ".json", ".toml", ".txt", ".md"})
"""Suffixes of files that belong to a package; other files are left by editors and interpreters."""
BUILD = ("packages", "requirements.lock", "vscode", "vscode.lock")
EXTRAS = ("vscode",)
"""What an image can have in addition, each added by the script of its name."""
NOT_ROOT = 1000
"""The user id if Handloom runs as root, because nothing in a sandbox runs as root."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of the image's programs, by the numbers that own files on the host."""

    uid: int
    gid: int

    @classmethod
    def of_host(cls) -> User:
        """Return the user who runs Handloom, but never root."""
        return cls(os.getuid() or NOT_ROOT, os.getgid() or NOT_ROOT)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that an image consists of, except its base."""

    user: User
    repository: str = REPOSITORY
    root: Path = ROOT
    extras: tuple[str, ...] = ()
    """Names of EXTRAS, in their order."""

    def sufficient(self) -> Iterator[Recipe]:
        """Yield the recipes whose images have all that this one's has, those with more first."""
        for extras in dict.fromkeys((EXTRAS, self.extras)):
            yield replace(self, extras=extras)

    def content(self) -> str:
        """Return the digest of everything but base and extras. Takes some milliseconds if no file has changed."""
        stats = tuple((name, str(file), _version(file)) for name, file in self._files())
        return _digest(stats, self.user)

    def tag(self, base: str) -> str:
        """Return the image's name with its tag; `base` is the base's id, or its name if it is not on this machine."""
        whole = " ".join((self.content(), base, *self.extras))
        return f"{self.repository}:{hashlib.sha256(whole.encode()).hexdigest()[:12]}"

    def named(self, tag: str) -> bool:
        """Whether a tag belongs to this repository, whatever its content."""
        return tag.startswith(f"{self.repository}:")

    def tar(self) -> bytes:
        """Return the build context as a tar archive. Packs some two hundred files in some ten milliseconds."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, file in self._files():
                data = file.read_bytes()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield name in the context and path of each file, in a fixed order."""
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
    """Compute the digest. Cached by modification times and sizes, so that unchanged files are read once."""
    digest = hashlib.sha256(f"{user.uid} {user.gid}\n".encode())
    for name, file, _ in stats:
        data = Path(file).read_bytes()
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
