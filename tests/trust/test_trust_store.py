"""A yes is for what was shown, to the letter; a no is remembered; both can be taken back."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.trust.folder_survey import survey_project
from core.trust.trust_store import ALWAYS, ASK, NAME, NEVER, TrustPolicy, TrustStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "w"
    place.mkdir()
    (place / "AGENTS.md").write_text("Be kind.")
    return place


@pytest.fixture
def book(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def test_a_yes_holds_until_something_changes(folder: Path, book: TrustStore, tmp_path: Path) -> None:
    standing = book.standing(survey_project(folder))
    assert (standing.trusted, standing.is_open) == ((), True)
    book.give(standing.survey.folder, standing.waiting)
    standing = book.standing(survey_project(folder))
    assert ([piece.path for piece in standing.trusted], standing.waiting) == (["AGENTS.md"], ())
    (folder / ".cursorrules").write_text("More.")
    (folder / "AGENTS.md").write_text("Be cruel.")
    standing = book.standing(survey_project(folder))
    assert standing.trusted == ()
    assert [piece.path for piece in standing.waiting] == [".cursorrules", "AGENTS.md"]
    assert standing.changed == {"AGENTS.md"}
    assert standing.is_open
    assert stat.S_IMODE((tmp_path / "home" / NAME).stat().st_mode) == 0o600


def test_a_no_is_remembered_for_the_same_texts(folder: Path, book: TrustStore) -> None:
    standing = book.standing(survey_project(folder))
    book.refuse(standing.survey.folder, standing.waiting)
    standing = book.standing(survey_project(folder))
    assert (standing.trusted, standing.is_open) == ((), False)
    (folder / "AGENTS.md").write_text("Other.")
    assert book.standing(survey_project(folder)).is_open


def test_it_goes_by_the_resolved_path(folder: Path, book: TrustStore, tmp_path: Path) -> None:
    survey = survey_project(folder)
    book.give(survey.folder, survey.pieces)
    (tmp_path / "link").symlink_to(folder)
    assert book.standing(survey_project(tmp_path / "link")).trusted
    other = tmp_path / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("Be kind.")
    assert not book.standing(survey_project(other)).trusted


def test_it_can_be_taken_back(folder: Path, book: TrustStore) -> None:
    survey = survey_project(folder)
    book.give(survey.folder, survey.pieces)
    assert book.folders() == {survey.folder: 1}
    assert book.revoke(survey.folder)
    assert not book.revoke(survey.folder)
    assert book.folders() == {}
    assert book.standing(survey).is_open


@pytest.mark.parametrize("text", ["{", '{"version": 2, "folders": {}}', "[]", '{"version": 1, "folders": {"/": 1}}',
                                  "[" * 100_000])  # fmt: skip
def test_a_broken_book_trusts_nothing_and_says_what_to_do(
    folder: Path, book: TrustStore, tmp_path: Path, text: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / NAME).write_text(text)
    survey = survey_project(folder)
    with pytest.raises(ConfigurationError, match="Move it away"):
        book.standing(survey)
    standing = TrustPolicy(tmp_path / "home", lambda: ASK).standing(survey)
    assert standing.trusted == ()
    assert "Move it away" in standing.survey.problems[0]


def test_the_setting_never_wins_over_the_book(folder: Path, tmp_path: Path) -> None:
    mode = ASK
    gate = TrustPolicy(tmp_path / "home", lambda: mode)
    survey = survey_project(folder)
    gate.store.give(survey.folder, survey.pieces)
    assert gate.standing(survey).trusted
    mode = NEVER
    assert gate.standing(survey).trusted == ()
    mode = ALWAYS
    assert gate.standing(survey).trusted
