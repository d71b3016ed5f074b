"""Features are independent: the folder of a feature imports no other feature, except for the pairs listed here.

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
    "core": {"agent", "controller", "events", "llm", "memory", "secrets", "security", "settings", "store", "trust"},
    "tui": {"cli", "dialogs", "find", "shortcuts", "terminal_io", "workspace"},
}
EXCEPTIONS: dict[str, dict[tuple[str, str], str]] = {
    "core": {
        ("batch", "conversations"): "an attempt is a conversation",
        ("batch", "import_export"): "an attempt is exported beside its work",
        ("batch", "session"): "an attempt is a conversation",
        ("acp", "delegation"): "another agent has its own conversation, so it is a delegate",
        ("library", "import_export"): "sessions of other agents are imported",
        ("library", "workspaces"): "a session is continued as a fork",
        ("hooks", "sandbox"): "hooks run in the sandbox, but not as actions",
        ("replay", "undo"): "a replay shows turns that were undone as such",
        ("rerun", "actions"): "outputs are compared as they were captured",
        ("rerun", "conversations"): "a rerun is a conversation without a model",
        ("rerun", "session"): "a rerun is a conversation without a model",
        ("review", "checkpoints"): "the changes are those between two checkpoints",
        ("review", "undo"): "a change can be taken back",
        ("sandbox", "actions"): "the output of the setup is captured as that of actions",
        ("undo", "checkpoints"): "files are restored from checkpoints",
        ("undo", "review"): "undo and review exclude each other while files change",
        ("user_control", "actions"): "the output of the user's commands is captured as that of actions",
    },
    "tui": {
        ("acp", "approval"): "an editor shows the same questions",
        ("acp", "memory"): "an editor shows the same notes about compaction",
        ("acp", "prompt"): "an editor has the same slash commands and attachments",
        ("approval", "chat"): "the question shows the edit as the chat does",
        ("approval", "models"): "one answer after a halt chooses another model",
        ("approval", "plan"): "a plan waits for approval",
        ("batch", "sessions"): "the table of tasks is that of conversations with other rows",
        ("chat", "approval"): "the chat says why an action was asked about",
        ("jump", "browser"): "labels are drawn on the links of a page",
        ("memory", "trust"): "instructions of a folder need trust",
        ("palette", "settings"): "settings are found in the palette",
        ("settings", "models"): "the keys of providers are entered in the settings, too",
        ("prompt", "approval"): "keys on an empty prompt answer the question",
        ("prompt", "chat"): "the prompt scrolls the chat",
        ("prompt", "trust"): "the first message may need trust in the folder",
        ("replay", "trust"): "following a conversation may need trust in its folder",
        ("rerun", "events"): "the comparison shows events as trees",
        ("screen_reader", "approval"): "the same questions as lines",
        ("screen_reader", "memory"): "the same notes about compaction as lines",
        ("sessions", "delegation"): "delegates are listed below their conversation",
        ("sessions", "events"): "a hit of the search is opened in the event log",
        ("doctor", "batch"): "one option of doctor looks at a cluster for batches",
        ("sessions", "export"): "what can be done with a conversation of the list",
        ("sessions", "library"): "the list has the sessions of other agents, too",
        ("library", "models"): "a session is continued with a model that the user chooses",
        ("library", "replay"): "a session is read by its replay while it grows",
        ("export", "library"): "a session of another agent is exported",
        ("statistics", "library"): "a session of another agent is counted",
        ("sessions", "replay"): "what can be done with a conversation of the list",
        ("sessions", "rerun"): "what can be done with a conversation of the list",
        ("statistics", "sessions"): "conversations are named as in the list",
        ("undo", "chat"): "an undo goes back to the turn that is selected in the chat",
        ("undo", "plan"): "an edited plan is asked about again after an undo",
        ("undo", "replay"): "a fork begins at the event that a replay shows",
    },
}
"""Which feature may import which other, and why."""


def feature_of(name: str, known: dict[str, Module]) -> str:
    """The feature folder of a module; empty for a module directly in a package."""
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
def test_features_import_no_other_feature_except_listed_ones(package: str) -> None:
    found = pairs_of(package, modules(package))
    unnamed = {pair: example for pair, example in found.items() if pair not in EXCEPTIONS[package]}
    assert unnamed == {}, "take the import away, or name the pair and its reason"
    assert EXCEPTIONS[package].keys() - found.keys() == set(), "no import needs these any more"
