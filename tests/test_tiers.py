"""The second tier is what its table says, and a slow test of the first tier fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import SECOND_TIER, group_of, may_be_full

ROOT = Path(__file__).parents[1]


def test_test_belongs_to_the_first_matching_group() -> None:
    of_browser = group_of("tests/campaign/test_campaign.py::test_x", {"browser", "asyncio"})
    of_campaigns = group_of("tests/campaign/test_campaign.py::test_x", {"asyncio"})
    assert of_browser is not None
    assert of_campaigns is not None
    assert (of_browser.title, of_campaigns.title) == ("Browser", "Campaigns")
    assert group_of("tests/store/test_store.py::test_x", {"asyncio"}) is None


@pytest.mark.parametrize("path", [path for group in SECOND_TIER for path in group.paths])
def test_every_path_of_the_second_tier_exists(path: str) -> None:
    file, _, name = path.partition("::")
    assert (ROOT / file).exists()
    last = name.split("::")[-1].partition("[")[0]
    assert not name or last in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize(("limit_s", "mark", "status"), [("0.05", "", 1), ("60", "", 0), ("0.05", "full", 0)])
def test_first_tier_test_over_the_limit_fails_the_run(tmp_path: Path, limit_s: str, mark: str, status: int) -> None:
    test = tmp_path / "test_slow.py"
    marks = f"@pytest.mark.{mark}\n" if mark else ""
    body = f"{marks}def test_slow() -> None:\n    assert not threading.Event().wait(1)\n"
    test.write_text(f"import threading\n\nimport pytest\n\n\n{body}")
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--limit-s", limit_s, "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(test)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("Too slow for the first tier" in done.stdout) == bool(status)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("tests/journeys/test_new.py", "", True),
        ("tests/memory/test_long_run.py", "", True),
        ("tests/memory/test_prompt.py", "", False),
        ("tests/memory/test_prompt.py", "pytestmark = [pytest.mark.browser]", True),
        ("tests/memory/test_prompt.py", "pytestmark = [pytest.mark.tmux]", False),
    ],
)
def test_files_with_tests_of_the_second_tier_are_found_without_importing_them(
    path: str, text: str, expected: bool
) -> None:
    assert may_be_full(path, text) is expected
