"""`.ci/engine` uses a running engine, or says why it cannot start one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.blocking import ROOT
from tests.containers import LOCAL_BASE, base_image, engine_environ
from tests.runtime.isolation.confined import SOMEBODY

ENGINE = ROOT / ".ci" / "engine"
TOOLS = ("bash", "dirname", "env", "id", "sed", "timeout")
"""Programs that it needs before it looks for others."""


def run(environ: dict[str, str], *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environ, input=stdin, capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )


@pytest.mark.docker
def test_engine_script_only_names_a_running_engine() -> None:
    if base_image() != LOCAL_BASE:
        pytest.skip("the images here are built on another base")
    done = run({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **engine_environ()}, str(ENGINE))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"DOCKER_HOST={os.environ['DOCKER_HOST']}\n"
    assert done.stderr.endswith(f"base-image: {LOCAL_BASE} is up to date\n")


class TestRefusals:
    @pytest.fixture
    def nowhere(self, tmp_path: Path) -> dict[str, str]:
        """A machine without an engine."""
        return {"PATH": os.environ["PATH"], "HANDLOOM_ENGINE_DIR": str(tmp_path / "engine"), "HANDLOOM_ENGINE_OWN": "1"}

    def test_engine_script_needs_root(self, nowhere: dict[str, str]) -> None:
        as_somebody = ("setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups")
        before = as_somebody if os.getuid() == 0 else ()
        done = run(
            nowhere, *before, "bash", "-s", stdin=ENGINE.read_text()
        )  # another user, who may be unable to read the folder
        assert (done.returncode, done.stdout) == (1, "")
        assert "only root can start one. Start Docker, or run this as root on Debian." in done.stderr

    @pytest.mark.skipif(os.getuid() != 0, reason="what is told to root")
    def test_base_that_is_not_debian_is_refused(self, nowhere: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        for tool in TOOLS:
            (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")
        done = run(nowhere | {"PATH": str(tmp_path / "bin")}, str(ENGINE))
        assert (done.returncode, done.stdout) == (1, "")
        assert "this is no Debian. Install and start Docker, then try again." in done.stderr
        assert not (tmp_path / "engine").exists()
