"""Features stay apart: a folder of a feature imports no other feature, but for the pairs that are named here.

What collects the features (the kernel in core; app, workspace and command line in tui) may import all of them, and
what they are built on may be imported by all. A pair of the list that no import needs any more fails, too.
"""

from __future__ import annotations

import pytest

from tests.structure import Module, imports, modules

COLLECTORS = {
    "core": {"actions", "agent", "controller", "conversations", "session", "settings"},
    "tui": {"cli", "workspace"},
}
FOUNDATIONS = {
    "core": {"events", "llm", "secrets", "store", "trust", "security", "memory", "controller", "agent"},
    "tui": {"cli", "dialogs", "find", "shortcuts", "terminal_io", "workspace"},
}
EXCEPTIONS = {
    "core": {},
    "tui": {},
}


def feature_of(name: str, known: dict[str, Module]) -> str:
    """The feature's folder of a module; empty for what stands directly in a package."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and known[name].is_package) else ""


def pairs_of(package: str, known: dict[str, Module]) -> dict[tuple[str, str], str]:
    """Which feature imports which, also inside of functions, each with one import as an example."""
    found: dict[tuple[str, str], str] = {}
    for name, module in known.items():
        feature = feature_of(name, known)
        if not feature or feature in COLLECTORS[package] | FOUNDATIONS[package]:
            continue
        for other in imports(module, known, deferred=True):
            imported = feature_of(other, known)
            if imported not in {"", feature} | FOUNDATIONS[package]:
                found[feature, imported] = f"{name} imports {other}"
    return found


@pytest.mark.parametrize("package", ["core", "tui"])
def test_features_import_only_what_is_named(package: str) -> None:
    found = pairs_of(package, modules(package))
    unnamed = {pair: example for pair, example in found.items() if pair not in EXCEPTIONS[package]}
    assert unnamed == {}, "take the import away, or name the pair and its reason"
    assert EXCEPTIONS[package].keys() - found.keys() == set(), "no import needs these any more"
