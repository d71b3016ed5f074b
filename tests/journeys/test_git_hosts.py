"""`handloom run --repo` with private repositories inside isolation; nothing else than git's host gets the token."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.git_hosts import bare_repository, branches, ssh_host, web_host
from tests.program import Handloom
from tests.runtime.isolation.confined import own
from tests.secrets.canaries import Search, made

pytestmark = pytest.mark.bubblewrap

TOKEN = made("token of a git host")
WORK = (
    "git checkout -q -b fix/it && echo new > new && git add new && git commit -qm second "
    "&& git push -q origin fix/it; echo pushed $?"
)
LOOK = (
    "printf '#!/bin/sh\\ncat /proc/[0-9]*/cmdline /proc/[0-9]*/environ > ../seen; exit 0\\n' > .git/hooks/pre-push; "
    "chmod +x .git/hooks/pre-push"
)
SETTINGS = """
[sandbox]
isolation = "bubblewrap"
git_tokens = ["{host}=WORK_TOKEN"]
git_user_name = "Ada"
git_user_email = "ada@example.org"
"""


@contextmanager
def watching(search: Search, without: set[int]) -> Iterator[None]:
    """Search the command line and the environment of every process meanwhile, but for the environment of these."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        data = Path("/proc", str(pid), name).read_bytes()
                        if name == "cmdline" or pid not in without:
                            search.look(f"{name} of {data[:60]!r}", data)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def prepared(tmp_path: Path, host: str, **environ: str) -> tuple[Handloom, Path]:
    """A program with these settings, and a private repository."""
    handloom = Handloom(tmp_path / "user", **environ)
    own(handloom.workspace)
    handloom.home.mkdir()
    (handloom.home / "config.toml").write_text(SETTINGS.format(host=host))
    return handloom, tmp_path / "repositories" / "team" / "thing.git"


def worked(handloom: Handloom, folder: Path, url: str, *more: str) -> str:
    """Have an agent work in the repository; what it printed."""
    script = write_script(
        folder, [{"tool_calls": [bash(f"{LOOK}; {WORK}; env; git log -1 --format='%an %ae'")]}, FINISH]
    )
    done = handloom("run", "go", "--model", script, "--repo", url, "--verbose", *more)
    assert done.status == 0, done.err
    assert "pushed 0" in done.err, done.err
    assert "Ada ada@example.org" in done.err
    return done.out + done.err


@pytest.mark.alone  # it looks into every process of the machine
@pytest.mark.parametrize("place", ["vault", "environment"])
def test_token_is_nowhere_but_in_the_vault(tmp_path: Path, place: str) -> None:
    repository = tmp_path / "repositories" / "team" / "thing.git"
    repository.parent.mkdir(parents=True)
    bare_repository(repository)
    search = Search(also={"token": TOKEN})
    with web_host(tmp_path, TOKEN) as host:
        environ = {"SSL_CERT_FILE": str(host.certificate)}
        if place == "environment":
            environ["WORK_TOKEN"] = TOKEN
        handloom, _ = prepared(tmp_path, host.address, **environ)
        if place == "vault":
            kept = handloom("secrets", "set", "WORK_TOKEN", "--git", "--stdin", "--file", stdin=TOKEN)
            assert kept.status == 0, kept.err
        url = f"https://{host.address}/team/thing.git"
        if place == "vault":
            with watching(search, set()):
                said = worked(handloom, tmp_path, url)
        else:
            said = worked(handloom, tmp_path, url)
    assert branches(repository) == {"main": "first", "fix/it": "second"}
    assert b"git\0push" in (handloom.workspace / "seen").read_bytes(), "it looked while git worked"
    search.look("output", said.encode())
    search.look("events", repr(handloom.export(handloom.conversations()[0]["conversation_id"])).encode())
    values = handloom.home / "secret-values.json"
    search.look_in(tmp_path, {values: ["token"]})
    assert search.searched_bytes > 100_000
    assert search.hits == set()
    assert (TOKEN in values.read_text()) if place == "vault" else not values.exists()


def test_key_of_ssh_stays_outside(tmp_path: Path) -> None:
    repository = tmp_path / "repositories" / "team" / "thing.git"
    repository.parent.mkdir(parents=True)
    bare_repository(repository)
    with ssh_host(tmp_path) as (address, environ):
        handloom, _ = prepared(tmp_path, "localhost:1", **environ)
        worked(handloom, tmp_path, f"ssh://{address}{repository}")
    assert branches(repository) == {"main": "first", "fix/it": "second"}
    search = Search(also={"key": (tmp_path / "key").read_text()})
    search.look_in(handloom.workspace, {})
    search.look_in(handloom.home, {})
    assert search.hits == set()


def test_missing_token_is_named(tmp_path: Path) -> None:
    repository = tmp_path / "repositories" / "team" / "thing.git"
    repository.parent.mkdir(parents=True)
    bare_repository(repository)
    with web_host(tmp_path, TOKEN) as host:
        handloom, _ = prepared(tmp_path, host.address, SSL_CERT_FILE=str(host.certificate))
        script = write_script(tmp_path, [{"tool_calls": [bash("ls")]}, FINISH])
        done = handloom("run", "go", "--model", script, "--repo", f"https://{host.address}/team/thing.git")
    told = done.out + done.err
    assert "If it is private, store a token that may read it with: handloom secrets set WORK_TOKEN --git." in told
