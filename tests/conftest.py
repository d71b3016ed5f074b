"""Set-up of all tests: requirements of the machine, tiers, seeds, and a loop that never blocks.

A test that is marked with one of `machine.REQUIREMENTS` is skipped by name where the machine cannot run it, and fails
there where HANDLOOM_REQUIRE names what is missing. A test of the second tier (`tiers.SECOND_TIER`) gets the marker
`full`. With `--limit-s N` a test that takes more than N seconds fails the run; a busy machine gets more time in
proportion to its load. The last lines say what was skipped and why, what the run left out, and which seed the random
tests had.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from runtime.server.processes import restore_key_signals
from tests.blocking import LoopGuard
from tests.machine import REQUIREMENTS, name_the_engine, required
from tests.tiers import group_of, may_be_full

settings.register_profile("untimed", deadline=None)  # speed is measured elsewhere, and not beside other work
settings.load_profile("untimed")

ENDING_S = 20
"""A run whose tests are done has ended by then."""
GC_THRESHOLDS = (20_000, 20, 20)
ONLY_FULL = re.compile(r"full and (?:(?P<alone>alone)|not alone)\Z")
"""How the Makefile selects the second tier."""
SEED = pytest.StashKey[int]()
SEEN = pytest.StashKey["Seen"]()
LEFT_OUT = "handloom_left_out"


class Seen:
    """The summary at the end of a run; with several workers, printed by the controlling process."""

    def __init__(self, limit_s: float | None) -> None:
        self.skipped: defaultdict[str, list[str]] = defaultdict(list)
        self.left_out: Counter[str] = Counter()
        """How many tests of the second tier were not run, by their group."""
        self.slow: list[str] = []
        self._limit_s = limit_s

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[str(report.longrepr[2])].append(report.nodeid)
        if self._limit_s is None or report.when != "call" or "full" in report.keywords:
            return
        if report.duration > self._limit_s * load():
            self.slow.append(f"{report.nodeid} took {report.duration:.1f} s")

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        if self.slow and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Every worker collects all tests, so the last one to end has the same numbers as the others."""
        self.left_out = Counter(node.workeroutput.get(LEFT_OUT, {})) if hasattr(node, "workeroutput") else Counter()


def load() -> float:
    """How many times longer a test may take than on a machine that does nothing else; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--limit-s", type=float, help="fail the run if a test takes longer (scaled by the machine's load)")


def pytest_configure(config: pytest.Config) -> None:
    try:
        required(os.environ)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    name_the_engine(os.environ)
    gc.disable()  # while tests are collected, which makes few cycles; saves two thirds of that time
    restore_key_signals()  # shells that tests start are sent keys, whether or not the run is in the background
    config.stash[SEED] = int(os.environ.setdefault("HANDLOOM_SEED", str(random.SystemRandom().randrange(10**9))))
    config.stash[SEEN] = Seen(config.getoption("--limit-s"))
    config.pluginmanager.register(config.stash[SEEN])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that have no test of the tier that the Makefile runs, because importing them takes time."""
    if collection_path.suffix != ".py" or not (wanted := ONLY_FULL.match(config.option.markexpr)):
        return None
    text = collection_path.read_text("utf-8")
    if wanted["alone"]:
        return None if "mark.alone" in text else True
    return None if may_be_full(collection_path.relative_to(config.rootpath).as_posix(), text) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the second tier, before pytest selects by markers."""
    texts: dict[Path, str] = {}
    for item in items:
        if group_of(item.nodeid, {mark.name for mark in item.iter_markers()}) is not None:
            item.add_marker("full")
            if item.path not in texts:
                texts[item.path] = item.path.read_text("utf-8")
            text = texts[item.path]
            found = may_be_full(item.nodeid.partition("::")[0], text)
            if not found or (item.get_closest_marker("alone") and "mark.alone" not in text):
                raise pytest.UsageError(f"{item.nodeid} would not be found: write its marker in its own file")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the tests of the second tier that this run leaves out, by their group."""
    for item in items:
        group = group_of(item.nodeid, {mark.name for mark in item.iter_markers()})
        if group is not None:
            item.config.stash[SEEN].left_out[group.title] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """A thread that a failed test left behind ends the run with a failure and its stack, not never."""
    if not hasattr(config, "workerinput"):  # a worker waits for the others, and is ended with the run
        faulthandler.dump_traceback_later(ENDING_S, exit=True)
        # Threads have been joined when this is called. Removing the folders of earlier runs follows, and may take long.
        atexit.register(faulthandler.cancel_dump_traceback_later)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker reports skipped tests to the controlling process."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[LEFT_OUT] = dict(session.config.stash[SEEN].left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Exclude imported modules from garbage collection, and collect less often; saves a sixth of the processor time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*GC_THRESHOLDS)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the sandbox's image before the tests that need it: it may take minutes, which no single test has."""
    if not session.config.option.collectonly and any(item.get_closest_marker("docker") for item in session.items):
        REQUIREMENTS["docker"]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that the machine cannot run, or fail them if they are required."""
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
    seen = config.stash[SEEN]
    for reason, tests in sorted(seen.skipped.items()):
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')}. Not run:")
        for test in tests:
            terminalreporter.line(f"    {test}")
    if not seen.skipped:
        terminalreporter.line("Nothing was skipped.")
    if seen.left_out:
        groups = ", ".join(f"{count} {title.lower()}" for title, count in seen.left_out.items())
        terminalreporter.line(f"make test-all also runs {seen.left_out.total()} tests of the second tier: {groups}.")
    for line in seen.slow:
        terminalreporter.line(
            f"Too slow for the first tier: {line}. Make it faster, or name it in tests/tiers.py.", red=True
        )


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """The random seed: HANDLOOM_SEED, or a different number in every run, printed at its end."""
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


@pytest.fixture(autouse=True)
def closes_its_databases(request: pytest.FixtureRequest) -> Iterator[None]:
    """A database connection that a test leaves open fails this test, not the one during which it is collected."""
    before = connection_threads()
    yield
    for thread in connection_threads() - before:
        thread.join(ENDING_S)  # of a connection that was closed just now
        assert not thread.is_alive(), "the test left a database connection open"


def connection_threads() -> set[threading.Thread]:
    """The threads of the aiosqlite connections that are open."""
    return {thread for thread in threading.enumerate() if "_connection_worker_thread" in thread.name}
