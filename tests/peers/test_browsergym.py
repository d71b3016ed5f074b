"""The observations of twenty pages equal those of BrowserGym itself, on the Chromium of this machine."""

from __future__ import annotations

import pytest

from tests.pages import reading
from tests.peers import browsergym_side
from tests.peers.browsergym_side import Pages, differences
from tests.peers.installing import BROWSERGYM, installed

pytestmark = [
    pytest.mark.peers,
    pytest.mark.browser,
    pytest.mark.timeout(2 * browsergym_side.RUN_TIMEOUT_S),
]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pages, Pages]:
    """All pages, by BrowserGym and by us."""
    python = installed(BROWSERGYM)
    assert python is not None
    return browsergym_side.read_by_browsergym(python, tmp_path_factory.mktemp("theirs")), browsergym_side.read_by_us()


@pytest.mark.parametrize("name", reading.NAMES)
def test_page_is_described_like_browsergym(read: tuple[Pages, Pages], name: str) -> None:
    theirs, ours = read
    assert len(theirs[name]["states"]) == len(ours[name]["states"])
    assert differences(name, theirs, ours) == []


def test_both_browsers_run_the_same_chromium(read: tuple[Pages, Pages]) -> None:
    assert {page["chromium"] for side in read for page in side.values()} == {read[0][reading.NAMES[0]]["chromium"]}


def test_difference_would_be_noticed(read: tuple[Pages, Pages]) -> None:
    theirs, ours = read
    forms, tables = ours["forms"], ours["tables"]
    assert differences("forms", theirs, {"forms": tables | {"states": tables["states"][:1]}})
    assert not differences("forms", theirs, {"forms": forms})
