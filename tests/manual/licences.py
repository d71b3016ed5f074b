"""The table of docs/licences.md: every package that Handloom installs for its users, with its version and licence.

The packages are those that `handloom` and its extras `documents` and `cluster` need, directly or not, on Linux and
macOS and on every Python that is supported. Names and versions are those of requirements.lock, and of .ci/cluster.lock
for what only `cluster` needs; the licences are those of the installed packages' metadata. What metadata does not say is
in `STATED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.manual.pages import ROOT

EXTRAS = frozenset({"documents"})
STATED: Mapping[str, str] = {
    "agent-client-protocol": "Apache-2.0",
    "appnope": "BSD-2-Clause",
    "backports-tarfile": "MIT",
    "grpcio": "Apache-2.0",
    "msgpack": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "pysqlite3": "Zlib",
    "ray": "Apache-2.0",
}
"""Licences that the metadata does not name, and of packages that only some platforms or Python versions install."""
SPDX: Mapping[str, str] = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
    "ISC License (ISCL)": "ISC",
    "ISC license": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The MIT License (MIT)": "MIT",
}
"""The identifiers of licences that metadata writes in words."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(-[A-Za-z0-9.]+)*( (AND|OR) [A-Za-z]+(-[A-Za-z0-9.]+)*)*")
_PLATFORMS = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
)
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def table() -> str:
    """One row a package, in the order of their names. Raises KeyError for a package without a known licence."""
    rows = ["| package | version | licence |", "|---|---|---|"]
    versions = locked() | of_cluster()
    rows += [f"| {name} | {versions[name]} | {licence(name)} |" for name in sorted(packages() | of_cluster().keys())]
    return "\n".join(rows)


def locked() -> dict[str, str]:
    """The versions in requirements.lock; where platforms differ, all of them."""
    return _versions("requirements.lock")


def of_cluster() -> dict[str, str]:
    """The versions of what only the extra `cluster` needs."""
    return {name: version for name, version in _versions(".ci/cluster.lock").items() if name not in locked()}


def _versions(lock: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    text = (ROOT / lock).read_text("utf-8")
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(name), []).append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def packages() -> set[str]:
    """The names of all packages that users get, on any supported platform."""
    needed: set[str] = set()
    todo = [("handloom", EXTRAS)]
    seen = set(todo)
    while todo:
        name, extras = todo.pop()
        for below in _needs(name, extras):
            if below not in seen:
                seen.add(below)
                todo.append(below)
                needed.add(below[0])
    return needed & locked().keys()


def _needs(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The packages that a package requires on any platform, given its requested extras."""
    found = installed(name)
    for line in (found.requires if found is not None else None) or ():
        requirement = Requirement(line)
        if _applies(requirement, extras):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    if marker is None:
        return True
    environments = (
        {**platform, "python_version": python, "python_full_version": f"{python}.9", "extra": extra}
        for platform in _PLATFORMS
        for python in _PYTHONS
        for extra in ("", *extras)
    )
    return any(marker.evaluate(environment) for environment in environments)


def installed(name: str) -> Distribution | None:
    """The metadata of an installed package; None where it is not installed here."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence(name: str) -> str:
    """The licence of a package. Raises KeyError if neither its metadata nor `STATED` has one."""
    if name in STATED:
        return STATED[name]
    found = installed(name)
    if found is None:
        raise KeyError(name)
    for expression in found.metadata.get_all("License-Expression") or ():
        return str(expression)
    (text,) = found.metadata.get_all("License") or [""]
    text = text.strip().partition("\n")[0].partition("  ")[0]
    named = SPDX.get(text) or (text if text != "UNKNOWN" and _IDENTIFIER.fullmatch(text) else "")
    if named and named != "BSD":
        return named
    lines = [line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier") or () if "License ::" in line]
    if not lines:
        raise KeyError(name)
    return " OR ".join(SPDX[line] for line in lines)
