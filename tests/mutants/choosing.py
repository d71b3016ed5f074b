"""Choose the tests that touch a module: those of its mirrored path first, then those that import it.

What a test imports is read from its syntax tree, and so is what the modules import that it imports: a test of
`core.conversations` touches `core.session`, which the manager imports. Long campaigns, benches, journeys and what
starts other people's programs are left out; `--tests` names others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

PACKAGES = ("core", "runtime", "tui", "themes")
LEFT_OUT = ("bench", "campaign", "docker", "journeys", "mutants", "peers")
NEAREST = 8
"""Number of test files that are run for one bug by default."""
FARTHEST = 6
"""From this distance on, a test has nothing to do with a module."""


class SuiteIndex:
    """The tests of one source tree, by their imports."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _imports(self) -> dict[str, frozenset[str]]:
        """The project's modules that each module imports; tests and helpers are modules too."""
        files = {_module(self._root, path): path for path in _sources(self._root)}
        return {name: frozenset(_imported(name, path, files)) for name, path in files.items()}

    def touching(self, path: str) -> list[str]:
        """Files of tests, the nearest first, for the module at `path`."""
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        ranked = sorted((self._distance(test, module), test) for test in self._imports if _is_test(test))
        near = [test for (distance, _), test in ranked if distance < FARTHEST][:NEAREST]
        return [test.replace(".", "/") + ".py" for test in near]

    def _distance(self, test: str, module: str) -> tuple[int, int]:
        """The distance of a test from a module: by name, by imports, and by the number of other imports."""
        imports = self._imports[test]
        *packages, name = module.split(".")
        *folders, about = test.removeprefix("tests.").split(".")
        is_mirrored = bool(set(packages) & set(folders))
        words = set(about.removeprefix("test_").split("_"))
        shared = 1000 if is_mirrored and words & set(name.split("_")) else 0
        if is_mirrored and about == f"test_{name}":
            return 0, 0
        if is_mirrored and about == f"test_{packages[-1]}":
            return 0, 1
        if module in imports:
            return 1, len(imports) - (shared or 500 * is_mirrored)
        if is_mirrored and (name in words or any(f"{about}_".startswith(f"test_{one}_") for one in packages[1:])):
            return 2, len(imports)
        reached = self._reached(test)
        if module in reached:
            return 3, len(imports)
        if between := sum(module in self._imports.get(one, ()) for one in reached):
            return 4, -between - (shared or 500 * is_mirrored)
        is_near = is_mirrored and any(one.startswith(".".join(packages[:2])) for one in imports)
        return (5 if is_near else FARTHEST), len(imports)

    def _reached(self, test: str) -> set[str]:
        """The imports of a test and of its helpers, including the `conftest` of its folder."""
        reached: set[str] = set()
        waiting = [test, test.rpartition(".")[0] + ".conftest"]
        while waiting:
            more = self._imports.get(waiting.pop(), frozenset()) - reached
            reached |= more
            waiting += [one for one in more if one.startswith("tests.")]
        return reached


def _sources(root: Path) -> Iterator[Path]:
    for package in (*PACKAGES, "tests"):
        yield from (root / package).rglob("*.py")


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _is_test(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "tests" and parts[-1].startswith("test_") and not set(LEFT_OUT) & set(parts)


def _imported(name: str, path: Path, known: Iterable[str]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] + "." if node.level else ""
            origin = above + (node.module or "") if node.module or not above else above.rstrip(".")
            whole = [f"{origin}.{alias.name}" for alias in node.names]
            modules = [one for one in whole if one in known]
            yield from modules
            if len(modules) < len(whole) and origin in known:
                yield origin
