"""Every text that the screen may show, found in the source and in tables of texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from core import status_messages
from core.llm.registry import offers
from core.settings.config import Origin, Settings
from core.settings.editable_settings import _BOUNDS, BY_ENVIRONMENT, BY_OPTION, Effect, Kind, fields, sections
from tui.commands import ROWS, Scope

TUI = Path(__file__).parents[3] / "tui"
LOOKED_UP = {
    "shortcuts/command.py": {"self.title", "self.help", "self.group", "self.hint", "self.words", "self.value"},
    "i18n.py": {"one if number == 1 else many"},
    "palette/commands.py": {"setting.help"},
    "models/commands.py": {"offer.label"},
    "settings/commands.py": {
        "setting.help",
        "setting.kind",
        "setting.effect",
        "setting.origin",
        "self._sections.get(section, '')",
        "said",
        "words",
    },
    "models/start_screen.py": {"offer.label"},
}
"""Translated expressions that are not literals, by file; `from_tables` has their possible texts."""


class Asked(NamedTuple):
    """One place in the source at which a text is looked up."""

    place: str
    text: str | None
    """None where it is no literal."""
    said: str
    """The expression."""


def asked() -> Iterator[Asked]:
    """Every text that the source looks up."""
    for path in sorted(TUI.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "counted"):
                for argument in node.args[node.func.id == "counted" :]:
                    literal = argument.value if isinstance(argument, ast.Constant) else None
                    place = str(path.relative_to(TUI))
                    yield Asked(place, literal if isinstance(literal, str) else None, ast.unparse(argument))


def from_tables() -> set[str]:
    """The texts of tables that are written in English and looked up when they are shown."""
    found = {text for c in ROWS for text in (c.title, c.help, c.group, c.hint, c.words)}
    found |= {str(member) for kind in (Scope, Kind, Effect, Origin) for member in kind}
    found |= {words for name, words in _BOUNDS}
    found |= set(sections().values()) | {" ".join((info.description or "").split()) for name, info in fields(Settings)}
    found |= {offer.label for offer in offers({})} | {BY_ENVIRONMENT, BY_OPTION}
    found |= {*status_messages.FORMS, *status_messages.WORDS}
    return found - {""}


def all_texts() -> set[str]:
    """All of them."""
    return {found.text for found in asked() if found.text is not None} | from_tables()
