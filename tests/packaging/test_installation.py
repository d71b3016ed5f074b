"""One package is installed, and none of its processes imports a module of a workspace or of another package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.doubles import FINISH, call, write_script
from tests.packaging.installation import Installation, TrapFolder, build_wheel, foreign_wheel
from tests.program import ROOT

PYTHONPATHS = (
    ".",
    "{workspace}",
    "{workspace}/",
    "{workspace}:.",
    "{link}",
    "{workspace}/core/..",
    ":/nowhere",
    "../beside",
)
"""Ways in which PYTHONPATH can name the folder in which a program is started."""
MODULES = {
    "core.llm.model_host": 0,
    "core.mcp.mcp_host": 0,
    "runtime.isolation.egress_proxy --help": 0,
    "runtime.plugins.browser.worker --help": 0,
    "runtime.server --help": 0,
    "runtime.server.documents .unknown": 1,
    "runtime.server.proxy_forwarder /nowhere true": 0,
    "runtime.isolation.isolated_program": 1,
    "tui --version": 0,
}
"""What Handloom starts in processes of their own, and how it ends at once."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Handloom, and after it a package that ships `core`, `runtime` and `tui` as well."""
    folder = tmp_path_factory.mktemp("foreign")
    return Installation.make(tmp_path_factory.mktemp("installed") / "a venv", wheel, foreign_wheel(folder))


@pytest.fixture
def traps(tmp_path: Path) -> TrapFolder:
    return TrapFolder(tmp_path)


def named(pythonpath: str, traps: TrapFolder) -> str:
    return pythonpath.format(workspace=traps.workspace, link=traps.workspace.parent / "link")


def test_wheel_has_one_package_and_two_scripts(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"handloom"}
    scripts = {name.partition(".data/")[2] for name in names if ".data/" in name}
    assert scripts == {"scripts/handloom", "scripts/handloom-server"}
    modules = {path.relative_to(ROOT).as_posix() for part in ("core", "runtime", "tui", "themes")
               for path in (ROOT / part).rglob("*.py")}  # fmt: skip
    assert {f"handloom/{name}" for name in modules} <= set(names)


def test_other_package_named_core_replaces_nothing(installation: Installation, tmp_path: Path) -> None:
    assert "other package" in (installation.packages / "core" / "__init__.py").read_text()
    outside = TrapFolder(tmp_path)
    done = outside.start(installation.script("handloom"), "list", "--json", cwd=str(tmp_path))
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize("pythonpath", PYTHONPATHS)
def test_scripts_import_nothing_from_the_folder(pythonpath: str, installation: Installation, traps: TrapFolder) -> None:
    path = named(pythonpath, traps)
    done = traps.start(installation.script("handloom"), "list", PYTHONPATH=path)
    served = traps.start(installation.script("handloom-server"), "--help", PYTHONPATH=path)
    assert (done.status, done.err, served.status, served.err) == (0, "", 0, "")
    assert served.out.startswith("usage: handloom-server ")
    assert traps.run == []


@pytest.mark.parametrize("pythonpath", ["{workspace}", "{workspace}/core", "{above}"])
def test_scripts_import_nothing_from_a_workspace_option(
    pythonpath: str, installation: Installation, traps: TrapFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same for folders inside it, and for its parent, in which its own name may be a module's."""
    workspace = traps.workspace.parent / "json"
    traps.workspace.rename(workspace)
    (workspace / "__init__.py").write_text((workspace / "core" / "__init__.py").read_text())
    for name in ("argparse.py", "json.py", "textual.py"):
        (workspace / "core" / name).write_text((workspace / "core" / "__init__.py").read_text())
    traps.workspace.mkdir()  # where the marks are written
    path = pythonpath.format(workspace=workspace, above=workspace.parent)
    model = write_script(tmp_path_factory.mktemp("script"), [FINISH])
    options = ("--model", model, f"--workspace={workspace}")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = traps.start(installation.script("handloom"), "run", "go", *options, cwd=str(elsewhere), PYTHONPATH=path)
    assert done.status == 0, done.err
    assert traps.run == []


@pytest.mark.parametrize("pythonpath", [".", "{workspace}"])
def test_only_the_kernel_imports_modules_of_the_workspace(
    pythonpath: str, installation: Installation, traps: TrapFolder, tmp_path: Path
) -> None:
    cell = "import core, json; print('core is', core.whose, 'and json reads', json.loads('1'))"
    turns = [
        {"tool_calls": [call("execute_ipython_cell", code=cell)]},
        {"expect": "core is the user's and json reads 1", **FINISH},
    ]
    done = traps.start(
        *(installation.script("handloom"), "run", "go", "--json", "--model", write_script(tmp_path, turns)),
        PYTHONPATH=named(pythonpath, traps),
    )
    assert done.status == 0, done.err
    (line,) = traps.run
    assert re.match(r"core in .+ -P .+/runtime/plugins/jupyter/kernel_program\.py ", line)


def test_cell_finds_no_module_of_handloom(installation: Installation, tmp_path: Path) -> None:
    """Without the other package, whose `core` it would find."""
    cell = (
        "import importlib.util\n"
        "for name in ('core', 'runtime', 'tui', 'themes'):\n"
        "    spec = importlib.util.find_spec(name)\n"
        "    print(name, spec and ('handloom' in spec.origin))"
    )
    turns = [
        {"tool_calls": [call("execute_ipython_cell", code=cell)]},
        {"expect": "core False\nruntime False\ntui False\nthemes None", **FINISH},
    ]
    folder = TrapFolder(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    model = write_script(tmp_path, turns)
    done = folder.start(installation.script("handloom"), "run", "go", "--model", model, cwd=str(empty))
    assert done.status == 0, done.err


@pytest.mark.parametrize("module", MODULES)
def test_child_processes_import_nothing_from_the_folder(
    module: str, installation: Installation, traps: TrapFolder
) -> None:
    """By the command that a process makes which leaves the folder out: `-I` does, and its environment names it."""
    program = (
        "import subprocess, sys\n"
        f"sys.path.insert(0, {str(installation.packages / 'handloom')!r})\n"
        "from core.interpreter import start_command\n"
        f"sys.exit(subprocess.run(start_command(*{module.split()!r}), input=b'').returncode)\n"
    )
    for pythonpath in (".", str(traps.workspace)):
        done = traps.start(str(installation.python), "-I", "-c", program, PYTHONPATH=pythonpath)
        assert traps.run == [], done.err
        assert done.status == MODULES[module], done.err


def test_action_server_starts_and_ends(installation: Installation, traps: TrapFolder, tmp_path: Path) -> None:
    key_file, socket = tmp_path / "key", tmp_path / "s"
    key_file.write_text("k" * 64)
    words = ["--working-dir", ".", "--uds", str(socket), "--key-file", str(key_file), "--stdin-lifeline"]
    environ = traps.environ(PYTHONPATH=f".{os.pathsep}{traps.workspace}")
    server = subprocess.Popen(
        [installation.script("handloom-server"), *words, "--plugins", "jupyter"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=traps.workspace, env=environ,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    with server.stdin, server.stdout:
        assert server.stdout.readline()
        server.stdin.close()
        assert server.wait(20) == 0
    assert traps.run == []


def test_plugin_packages_are_found_in_other_pythonpath_folders(
    installation: Installation, traps: TrapFolder, tmp_path: Path
) -> None:
    site = tmp_path / "plugins"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    sample = ROOT / "tests" / "sample_plugin"
    subprocess.run([*pip, "--no-build-isolation", "--target", site, sample], check=True)
    turns = [{"tool_calls": [call("tell_time", zone="Europe/Berlin")]}, {"expect": ":", **FINISH}]
    command = (installation.script("handloom"), "run", "?", "--model", write_script(tmp_path, turns), "--json")
    settings = {"HANDLOOM__SANDBOX__PLUGINS": "clock", "HANDLOOM__SANDBOX__READABLE_PATHS": str(site)}
    done = traps.start(*command, PYTHONPATH=f"{traps.workspace}:{site}:.", **settings)
    assert done.status == 0, done.err
    assert [event for event in done.events if event.get("observation") == "time"]
    assert traps.run == []
    (site / "handloom_clock").rename(traps.workspace / "handloom_clock")
    (info,) = site.glob("*.dist-info")
    info.rename(traps.workspace / info.name)
    refused = traps.start(*command, PYTHONPATH=f"{traps.workspace}:.", **settings)
    assert refused.status == 2
    assert "no plugin is called 'clock'" in refused.err
