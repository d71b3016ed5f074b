"""A trigger counts as a word of its own, and anywhere in scripts without spaces."""

from __future__ import annotations

import pytest

from core.memory.microagents import folded, matching_trigger


@pytest.mark.parametrize(
    ("query", "trigger"),
    [
        ("please git push it", "git"),
        ("Git!", "git"),
        ("(git)", "GIT"),
        ("use k8s now", "k8s"),
        ("run the release notes", "release notes"),
        ("c++ or c?", "c++"),
        ("请发布新版本", "发布"),
        ("git提交", "git"),
        ("リリースノートを書く", "リリース"),
        ("배포를 해줘", "배포"),
        ("Ｇｉｔ please", "git"),
        ("/review now", "/review"),
        ("please /review", "/review"),
        ("ﬁle it", "file"),
        ("digit, then git", "git"),
    ],
)
def test_microagent_is_triggered(query: str, trigger: str) -> None:
    assert matching_trigger(folded(query), ["nothing", trigger]) == trigger


@pytest.mark.parametrize(
    ("query", "trigger"),
    [
        ("a digit", "git"),
        ("github", "git"),
        ("legit", "git"),
        ("my_git", "git"),
        ("usr/review", "/review"),
        ("/reviewer", "/review"),
        ("재배포", "배포"),
        ("anything", ""),
        ("anything", "   "),
        ("x" * 300, "x" * 300),
        ("x" * 100_000 + " git", "git"),
    ],
)
def test_microagent_is_not_triggered(query: str, trigger: str) -> None:
    assert matching_trigger(folded(query), [trigger]) == ""
