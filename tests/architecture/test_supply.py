"""The installed packages are the locked ones, and none runs code unexpectedly."""

from __future__ import annotations

import re
import site
import sysconfig
import tomllib
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest

from tests.blocking import ROOT

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
LOCKS = {"users": LOCK, "docs": (ROOT / "docs" / "requirements.lock").read_text("utf-8")}
"""The locks of what users get, and of what builds the web site of the manual."""
TROJANED = {"1.82.7", "1.82.8"}
"""Releases of litellm that steal keys."""
OWN_START_UP = {"distutils-precedence.pth": "setuptools"}
"""Files that run code whenever Python starts, and which package is known to bring them."""


def locked(lock: str = LOCK) -> dict[str, str]:
    """Name and version of every requirement; names as pip compares them."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def declared() -> list[str]:
    """The requirements of the package, those for its development too. What else is optional is not locked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["dev"]]


def requirements(lock: str) -> list[str]:
    """The logical lines of a lock."""
    lines = lock.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_every_line_of_the_lock_file_has_a_version_and_hashes(lock: str) -> None:
    lines = requirements(lock)
    assert len(lines) > (50 if lock == LOCK else 20)
    for line in lines:
        assert re.match(r"^[A-Za-z0-9._\[\]-]+==\S+", line), line[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), f"{line[:40]} has no hash"
        assert "--" not in re.sub(r"--hash=\S+", "", line), f"{line[:40]} carries an option"


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_lock_file_names_no_index_or_url(lock: str) -> None:
    assert "://" not in lock
    assert not re.search(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)\b", lock, re.MULTILINE)


def test_documentation_tools_are_locked_separately() -> None:
    docs, users = locked(LOCKS["docs"]), locked()
    assert "mkdocs-material" in docs
    assert "mkdocs" not in users
    assert {name: version for name, version in docs.items() if name in users}.items() <= users.items()


def test_every_direct_dependency_is_locked() -> None:
    names = {re.split(r"[\s<>=!~;\[(]", text, maxsplit=1)[0] for text in declared()}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in names} <= locked().keys()


def test_litellm_is_no_compromised_release_and_has_no_proxy() -> None:
    assert locked()["litellm"] not in TROJANED
    assert distribution("litellm").version not in TROJANED
    assert "litellm[" not in LOCK
    wanted = next(text for text in declared() if text.startswith("litellm"))
    assert all(f"!={version}" in wanted.replace(" ", "") for version in TROJANED)


def start_up_files() -> list[Path]:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    return [file for folder in folders for file in Path(folder).glob("*.pth")]


def test_only_setuptools_runs_code_at_python_start() -> None:
    """The way of the trojaned litellm: a `.pth` file needs no import to run."""
    owners = {
        file.name: dist.metadata["Name"]
        for dist in distributions()
        for file in dist.files or []
        if file.suffix == ".pth" and len(file.parts) == 1
    }
    for file in start_up_files():
        code = [line for line in file.read_text("utf-8").splitlines() if line.startswith(("import ", "import\t"))]
        if code:
            is_known = file.name in OWN_START_UP and OWN_START_UP[file.name] == owners.get(file.name)
            assert is_known, f"{file} runs: {code[0][:100]}"
            assert len(code) == 1


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_no_package_customizes_the_interpreter(name: str) -> None:
    assert not list(Path(sysconfig.get_path("purelib")).glob(f"{name}*"))
