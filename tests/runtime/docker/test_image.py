"""The content of the sandbox's image and the reports of its build, without an engine."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import ConfigurationError, RuntimeUnavailableError
from runtime.docker.engine import connect
from runtime.image import build_context
from runtime.image.build_context import Recipe, User
from runtime.image.builder import EngineError, Progress, base_failed, proxies, step_failed
from tests.blocking import ROOT
from tests.yardstick import costs_at_most

RECIPE = Recipe(User(1000, 1000))
NETWORK_FAILURE = "Temporary failure resolving 'deb.example'"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Packages that hold one file each."""
    for part in build_context.CODE:
        file = tmp_path / part if part.endswith(".py") else tmp_path / part / "__init__.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {part}\n")
    return tmp_path


def packed(recipe: Recipe) -> dict[str, tuple[bytes, int, int]]:
    """Bytes, mode and time of each file in the build context."""
    with tarfile.open(fileobj=io.BytesIO(recipe.tar())) as tar:
        found = {}
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            found[entry.name] = (file.read(), entry.mode, int(entry.mtime))
        return found


class TestContext:
    def test_image_contains_only_the_server(self) -> None:
        names = set(packed(RECIPE))
        assert {"Dockerfile", "build/packages", "build/requirements.lock"} <= names
        assert {"code/runtime/server/main.py", "code/runtime/plugins/browser/marking.js"} <= names
        assert not {name for name in names if name.startswith(("code/tui", "code/core/store", "code/runtime/image"))}
        assert not {name for name in names if name.endswith(".pyc")}

    def test_image_contains_all_imported_modules(self) -> None:
        held = {name.removeprefix("code/") for name in packed(RECIPE)}
        started = {name for name in held if name.startswith(("runtime/server/", "runtime/plugins/"))}
        assert reachable(started) - held == set()

    def test_image_files_do_not_depend_on_the_installation(self, root: Path) -> None:
        recipe = Recipe(User(1, 1), root=root)
        before = packed(recipe)
        for file in root.rglob("*.py"):
            file.chmod(0o600)
            os.utime(file, (1, 1))
        assert packed(recipe) == before
        assert {(mode, made_at) for _, mode, made_at in before.values()} == {(0o644, 0)}

    def test_build_context_has_no_editor_or_cache_files(self, root: Path) -> None:
        before = packed(Recipe(User(1, 1), root=root))
        (root / "runtime" / "__pycache__").mkdir()
        for name in ("__pycache__/x.cpython-311.pyc", "x.py.swp", "x.py~", ".env"):
            (root / "runtime" / name).write_text("left")
        assert packed(Recipe(User(1, 1), root=root)) == before


class TestTag:
    def test_tag_depends_on_bytes_names_user_and_base(self, root: Path) -> None:
        recipe = Recipe(User(1000, 1000), root=root)
        tags = [recipe.tag("sha256:1"), recipe.tag("sha256:2"), Recipe(User(1000, 7), root=root).tag("sha256:1")]
        (root / "runtime" / "__init__.py").write_text("# other\n")
        tags.append(recipe.tag("sha256:1"))
        (root / "runtime" / "__init__.py").rename(root / "runtime" / "other.py")
        tags.append(recipe.tag("sha256:1"))
        assert len(set(tags)) == len(tags)
        assert all(re.fullmatch(r"handloom-sandbox:[0-9a-f]{12}", tag) for tag in tags)

    def test_tag_depends_on_the_extras_and_the_content_does_not(self, root: Path) -> None:
        plain = Recipe(User(1000, 1000), root=root)
        extended = replace(plain, extras=("vscode",))
        assert plain.tag("sha256:1") != extended.tag("sha256:1")
        assert plain.content() == extended.content()
        assert [list(recipe.sufficient()) for recipe in (plain, extended)] == [[extended, plain], [extended]]

    def test_tag_ignores_time_and_mode(self, root: Path) -> None:
        recipe = Recipe(User(1000, 1000), root=root)
        before = recipe.tag("sha256:1")
        for file in root.rglob("*.py"):
            os.utime(file, (1, 1))
            file.chmod(0o600)
        assert recipe.tag("sha256:1") == before

    def test_second_lookup_is_fast(self) -> None:
        RECIPE.tag("sha256:1")
        with costs_at_most(20):
            RECIPE.tag("sha256:1")

    def test_user_is_never_root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 0)
        monkeypatch.setattr(os, "getgid", lambda: 0)
        assert User.of_host() == User(1000, 1000)


class TestPackage:
    def test_installation_contains_the_build_context(self, tmp_path: Path) -> None:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
            wheel.extractall(tmp_path / "installed")
            names = set(wheel.namelist())
        assert {f"handloom/runtime/image/{name}" for name in ("Dockerfile", *build_context.BUILD)} <= names
        assert Recipe(User(1, 1), root=tmp_path / "installed" / "handloom").content() == Recipe(User(1, 1)).content()

    def test_sandbox_packages_match_the_lock_file(self) -> None:
        here, everywhere = locked(build_context.HERE / "requirements.lock"), locked(ROOT / "requirements.lock")
        assert here
        assert {name: lock for name, lock in here.items() if everywhere.get(name) != lock} == {}
        wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["sandbox"]
        assert {re.sub(r"[-_.]+", "-", name) for name in wanted} <= {name.partition("==")[0] for name in here}

    def test_image_has_no_screen_store_or_models(self) -> None:
        names = {name.partition("==")[0] for name in locked(build_context.HERE / "requirements.lock")}
        assert names & {"textual", "litellm", "aiosqlite", "pysqlite3", "docker", "openai", "httpx"} == set()


def test_build_uses_the_proxies_of_the_docker_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert proxies() == {}
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpsProxy": "http://proxy.example:3128"}}}')
    assert proxies() == {"HTTPS_PROXY": "http://proxy.example:3128", "https_proxy": "http://proxy.example:3128"}


class TestProgress:
    def test_cached_build_step_is_not_reported(self) -> None:
        said: list[str] = []
        progress = Progress(said.append)
        for line in (
            "Step 5/19 : RUN sh /opt/handloom/build/packages\n",
            " ---> Using cache\n",
            "Step 7/19 : RUN python3 -m venv --without-pip /opt/handloom\n",
            " ---> Running in 0123\n",
            "Step 8/19 : ARG UID\n ---> Run",
            "ning in 4567\n",
        ):
            progress.take({"stream": line})
        assert said == ["Step 7 of 19: Python packages of the action server"]

    def test_progress_keeps_the_last_lines_without_colours(self) -> None:
        progress = Progress(lambda step: None)
        lines = [
            "Step 1/2 : RUN one\n",
            "of one\n",
            "Step 2/2 : RUN two\n",
            " ---> Running in 01\n",
            "\x1b[91mof two\n\x1b[0m",
        ]
        for line in lines:
            progress.take({"stream": line})
        progress.take({"error": "returned a non-zero code: 3"})
        assert (progress.step, list(progress.output), progress.failed) == (
            "RUN two",
            ["of two"],
            "returned a non-zero code: 3",
        )


class TestFailures:
    @pytest.mark.parametrize(
        ("error", "kind", "says"),
        [
            (
                EngineError("manifest unknown", 404),
                ConfigurationError,
                "There is no image x:1 here or in its registry, or",
            ),
            (EngineError("pull access denied for x"), ConfigurationError, "Name another with --base"),
            (EngineError("invalid reference format", 400), ConfigurationError, "There is no image x:1"),
            (
                EngineError("lookup r: no such host", 500),
                RuntimeUnavailableError,
                "Connect to the network and try again",
            ),
            (EngineError("write /x: no space left on device"), RuntimeUnavailableError, "engine's disk is full"),
        ],
    )
    def test_missing_base_is_explained(self, error: EngineError, kind: type[Exception], says: str) -> None:
        failure = base_failed("x:1", error)
        assert type(failure) is kind
        assert says in str(failure)

    @pytest.mark.parametrize(
        ("said", "says"),
        [
            ([NETWORK_FAILURE], "The build has no network. Connect and try again"),
            (["cp: write error: No space left on device"], "The container engine's disk is full."),
            (["error: no such option"], "Try again, or take another base."),
        ],
    )
    def test_failed_step_is_explained(self, said: list[str], says: str) -> None:
        assert says in str(step_failed("Debian packages", "returned a non-zero code: 100", said))

    def test_missing_engine_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        with pytest.raises(RuntimeUnavailableError) as failed:
            connect()
        assert str(failed.value) == (
            "The container engine does not answer (No such file or directory). "
            "Start Docker, or set DOCKER_HOST to where it listens, then try again."
        )


def reachable(files: Iterable[str]) -> set[str]:
    """The project files that these import, directly or not, wherever the import is."""
    found, open_ = set(files), [name for name in files if name.endswith(".py")]
    while open_:
        for name in imported(ast.parse((ROOT / open_.pop()).read_text("utf-8"))):
            if name not in found:
                found.add(name)
                open_.append(name)
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """The imported project files, without imports for the type checker."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            path = module.replace(".", "/")
            above = [f"{parent}/__init__.py" for parent in Path(path).parents if str(parent) != "."]
            for name in (f"{path}.py", f"{path}/__init__.py", *above):
                if module.split(".")[0] in ("core", "runtime", "tui") and (ROOT / name).exists():
                    yield name
        yield from imported(node)


def locked(file: Path) -> Mapping[str, frozenset[str]]:
    """The hashes by name and version."""
    lines = file.read_text("utf-8").replace("\\\n", " ").splitlines()
    names = (re.match(r"[A-Za-z0-9._-]+==[^\s;]+", line) for line in lines)
    return {
        name[0]: frozenset(re.findall(r"sha256:\w+", line)) for name, line in zip(names, lines, strict=True) if name
    }
