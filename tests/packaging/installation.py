"""A wheel of this source tree, an environment to install it in, and a folder of modules that must not be imported."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.program import ROOT, Ended

TRAPS = ("core", "tui", "runtime", "handloom", "json", "asyncio")
"""Packages of these names are in the folder."""
ALSO_TRAPS = ("re", "typing", "argparse", "collections", "runpy", "pydantic", "aiohttp", "textual", "litellm", "zmq")
"""Modules that some processes import first."""
_TRAP = """import os, sys
def process():
    with open("/proc/self/cmdline", "rb") as words:
        return words.read().replace(b"\\0", b" ").decode()
with open({marks!r}, "a") as marks:
    marks.write(f"{{__name__}} in {{process()}}\\n")
whose = "the user's"
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel into this folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("handloom-*.whl")
    return wheel


def foreign_wheel(folder: Path) -> Path:
    """A package whose wheel has top-level packages with the names of Handloom's."""
    name = "hostile-1.0"
    info = f"{name}.dist-info"
    files = {f"{package}/__init__.py": b"whose = 'the other package'\n" for package in ("core", "runtime", "tui")}
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return wheel


@dataclass(frozen=True)
class Installation:
    """A separate environment, which sees the dependencies of the one in which the tests run."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *wheels: Path) -> Installation:
        """Make the environment, and install these one after the other."""
        venv.create(folder, symlinks=True)
        made = cls(folder)
        for wheel in wheels:
            pip = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet", "--no-index"]
            subprocess.run([*pip, "--disable-pip-version-check", "--no-deps", "--no-compile", str(wheel)], check=True)
        (made.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        return made

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The environment's site-packages."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def script(self, name: str) -> str:
        """The path of an installed script."""
        return str(self.folder / "bin" / name)


class TrapFolder:
    """A workspace full of modules that write down in which process they are run."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self._home = folder
        self._marks = self.workspace / "marks"
        for name in TRAPS:
            self._write(f"{name}/__init__.py")
        for name in ALSO_TRAPS:
            self._write(f"{name}.py")
        (folder / "link").symlink_to(self.workspace)
        shutil.copytree(self.workspace, folder / "beside")

    def _write(self, path: str) -> None:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_TRAP.format(marks=str(self._marks)))

    @property
    def run(self) -> list[str]:
        """The traps that were run, a line each: its name, and the command of the process."""
        return self._marks.read_text().splitlines() if self._marks.exists() else []

    def environ(self, **variables: str) -> dict[str, str]:
        """The environment of a program: small, and said in full."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "HANDLOOM_HOME": str(self._home / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }

    def start(self, *command: str, cwd: str = "", **variables: str) -> Ended:
        """Run a program in the folder to its end."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=cwd or self.workspace,
            env=self.environ(**variables),
            timeout=100,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)
