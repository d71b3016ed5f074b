"""An approval is for exactly the shown text; a refusal is remembered; both can be revoked."""

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
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def test_approval_holds_until_a_file_changes(folder: Path, store: TrustStore, tmp_path: Path) -> None:
    state = store.state_of(survey_project(folder))
    assert (state.trusted, state.needs_answer) == ((), True)
    store.approve(state.survey.folder, state.waiting)
    state = store.state_of(survey_project(folder))
    assert ([piece.path for piece in state.trusted], state.waiting) == (["AGENTS.md"], ())
    (folder / ".cursorrules").write_text("More.")
    (folder / "AGENTS.md").write_text("Be cruel.")
    state = store.state_of(survey_project(folder))
    assert state.trusted == ()
    assert [piece.path for piece in state.waiting] == [".cursorrules", "AGENTS.md"]
    assert state.changed == {"AGENTS.md"}
    assert state.needs_answer
    assert stat.S_IMODE((tmp_path / "home" / NAME).stat().st_mode) == 0o600


def test_refusal_is_remembered_for_the_same_texts(folder: Path, store: TrustStore) -> None:
    state = store.state_of(survey_project(folder))
    store.refuse(state.survey.folder, state.waiting)
    state = store.state_of(survey_project(folder))
    assert (state.trusted, state.needs_answer) == ((), False)
    (folder / "AGENTS.md").write_text("Other.")
    assert store.state_of(survey_project(folder)).needs_answer


def test_folder_is_identified_by_its_resolved_path(folder: Path, store: TrustStore, tmp_path: Path) -> None:
    survey = survey_project(folder)
    store.approve(survey.folder, survey.pieces)
    (tmp_path / "link").symlink_to(folder)
    assert store.state_of(survey_project(tmp_path / "link")).trusted
    other = tmp_path / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("Be kind.")
    assert not store.state_of(survey_project(other)).trusted


def test_trust_can_be_revoked(folder: Path, store: TrustStore) -> None:
    survey = survey_project(folder)
    store.approve(survey.folder, survey.pieces)
    assert store.folders() == {survey.folder: 1}
    assert store.revoke(survey.folder)
    assert not store.revoke(survey.folder)
    assert store.folders() == {}
    assert store.state_of(survey).needs_answer


@pytest.mark.parametrize("text", ["{", '{"version": 2, "folders": {}}', "[]", '{"version": 1, "folders": {"/": 1}}',
                                  "[" * 100_000])  # fmt: skip
def test_broken_store_trusts_nothing(folder: Path, store: TrustStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / NAME).write_text(text)
    survey = survey_project(folder)
    with pytest.raises(ConfigurationError, match="Move it away"):
        store.state_of(survey)
    state = TrustPolicy(tmp_path / "home", lambda: ASK).state_of(survey)
    assert state.trusted == ()
    assert "Move it away" in state.survey.problems[0]


def test_setting_never_overrides_approvals(folder: Path, tmp_path: Path) -> None:
    mode = ASK
    gate = TrustPolicy(tmp_path / "home", lambda: mode)
    survey = survey_project(folder)
    gate.store.approve(survey.folder, survey.pieces)
    assert gate.state_of(survey).trusted
    mode = NEVER
    assert gate.state_of(survey).trusted == ()
    mode = ALWAYS
    assert gate.state_of(survey).trusted
