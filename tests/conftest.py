"""What holds for all tests: requirements of the machine, seeds that can be had again, and a loop that never blocks.

A test that is marked with one of `machine.REQUIREMENTS` is skipped by name where the machine cannot run it, and fails
there where HANDLOOM_REQUIRE names what is missing. The last lines say what was skipped, why, and which
seed the random tests had.
"""

from __future__ import annotations

import faulthandler
import os
import random
from collections import defaultdict
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from tests.blocking import LoopGuard
from tests.machine import REQUIREMENTS, name_the_engine, required

settings.register_profile("untimed", deadline=None)  # speed is measured elsewhere, and not beside other work
settings.load_profile("untimed")

ENDING_S = 20
"""A run whose tests are done has ended by then."""
SEED = pytest.StashKey[int]()
SKIPPED = pytest.StashKey["Skipped"]()


class Skipped:
    """Which tests were skipped, by the reason; with several workers, in the process that they report to."""

    def __init__(self) -> None:
        self.by_reason: defaultdict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.by_reason[str(report.longrepr[2])].append(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    try:
        required(os.environ)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    name_the_engine(os.environ)
    config.stash[SEED] = int(os.environ.setdefault("HANDLOOM_SEED", str(random.SystemRandom().randrange(10**9))))
    config.stash[SKIPPED] = Skipped()
    config.pluginmanager.register(config.stash[SKIPPED])


def pytest_unconfigure(config: pytest.Config) -> None:
    """A thread that a failed test left behind ends the run with a failure and its stack, not never."""
    if not hasattr(config, "workerinput"):  # a worker waits for the others, and is ended with the run
        faulthandler.dump_traceback_later(ENDING_S, exit=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the sandbox's image before the tests that need it: it may take minutes, which no single test has."""
    if not session.config.option.collectonly and any(item.get_closest_marker("docker") for item in session.items):
        REQUIREMENTS["docker"]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine cannot run, or fail where it has to."""
    for name, missing in REQUIREMENTS.items():
        if item.get_closest_marker(name) is not None and (why := missing()):
            if name in required(os.environ):
                pytest.fail(f"{name} is required, but {why}", pytrace=False)
            pytest.skip(f"{name}: {why}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, None, None]:
    """The last lines, after everything that pytest says itself."""
    yield
    terminalreporter.section("what this run was")
    terminalreporter.line(f"The random tests had HANDLOOM_SEED={config.stash[SEED]}; set it to have them again.")
    skipped = config.stash[SKIPPED].by_reason
    for reason, tests in sorted(skipped.items()):
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')}. Not run:")
        for test in tests:
            terminalreporter.line(f"    {test}")
    if not skipped:
        terminalreporter.line("Nothing was skipped.")


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """Where randomness starts: HANDLOOM_SEED, or another number in every run, told at its end."""
    return pytestconfig.stash[SEED]


@pytest.fixture(scope="session")
def loop_guard() -> LoopGuard:
    return LoopGuard()


@pytest.fixture(autouse=True)
def never_blocks_the_loop(request: pytest.FixtureRequest, loop_guard: LoopGuard) -> Iterator[None]:
    """A blocking call of core or of a runtime's client on the event loop fails every async test."""
    if request.node.get_closest_marker("asyncio") is None:
        yield
        return
    with loop_guard.watching() as seen:
        yield
    assert not seen, "blocking calls on the event loop:\n  " + "\n  ".join(dict.fromkeys(seen))
