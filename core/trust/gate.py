"""The gate: what of a project counts in this process, by the book and by the setting. Its methods block."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from core.errors import ConfigurationError
from core.trust.book import Book, Standing
from core.trust.survey import Survey

ASK, ALWAYS, NEVER = "ask", "always", "never"
"""What the setting trust.projects may be."""


class Gate:
    """Of one home. `mode` and `disabled`, the names of what is never told, are the settings as they stand."""

    def __init__(self, home: Path, mode: Callable[[], str], disabled: Callable[[], Collection[str]] = tuple) -> None:
        self.book = Book(home)
        self._mode = mode
        self._disabled = disabled

    @property
    def disabled(self) -> Collection[str]:
        """Names of microagents and skills that are never told, whoever brings them."""
        return self._disabled()

    @property
    def mode(self) -> str:
        """The setting as it stands."""
        return self._mode()

    def standing(self, survey: Survey) -> Standing:
        """How what was found stands; where nothing of projects counts, or the book is broken, nothing has a yes."""
        if self.mode == NEVER:
            return Standing(survey, waiting=survey.pieces)
        try:
            return self.book.standing(survey)
        except ConfigurationError as error:
            told = replace(survey, problems=(*survey.problems, str(error)))
            return Standing(told, waiting=survey.pieces)
