"""Where paths lead, by the kernel's own search and by the walk: the same cases, the same outcomes."""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from runtime.server import safe_paths, text_file
from runtime.server.safe_paths import MAX_LINKS, RESOLVE_BENEATH, FileError, Location, Roots, openat2
from tests.repeated import leaves_nothing

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this")
REFUSED_WITHIN_S = 0.1


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A root, `root`, in a folder that holds a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/f").write_text("f")
    (tmp_path / "root/a/g").write_text("g")
    (tmp_path / "root/a/b/h").write_text("h")
    return tmp_path


@pytest.fixture(params=["by the kernel", "by walking"])
def make(request: pytest.FixtureRequest) -> Callable[..., Roots]:
    """What makes Roots, of both kinds."""
    return lambda *folders: Roots(folders, walks=request.param == "by walking")


def read(roots: Roots, path: Path | str) -> str:
    """The content of a file."""
    with roots.locate(str(path)) as place:
        return text_file.read(place).text


def real_path(roots: Roots, path: Path | str) -> str:
    with roots.locate(str(path)) as place:
        return place.real_path


LEADS_TO_H = {
    "plain": "a/b/h",
    "dots": "./a//b/../b/h",
    "link": "link",
    "folder link": "folder/h",
    "absolute link": "absolute",
    "absolute folder link": "absolute_folder/h",
    "link up and down": "up",
    "chain": "chain",
}


@pytest.mark.parametrize("name", LEADS_TO_H)
def test_links_below_the_root_are_followed(base: Path, make: Callable[..., Roots], name: str) -> None:
    root = base / "root"
    (root / "link").symlink_to("a/b/h")
    (root / "folder").symlink_to("a/b")
    (root / "absolute").symlink_to(root / "a/b/h")
    (root / "absolute_folder").symlink_to(root / "a/b")
    (root / "a/b/up").symlink_to("../../a/b/h")
    (root / "up").symlink_to("a/b/up")
    (root / "chain").symlink_to(root / "up")
    path = (
        base / LEADS_TO_H[name] if "/" in LEADS_TO_H[name] and "root" in LEADS_TO_H[name] else root / LEADS_TO_H[name]
    )
    for folders in [(root,), ("/",), (root / "a/b", root), (base,)]:
        roots = make(*folders)
        if name in ("plain", "dots") or folders[0] != root / "a/b":
            assert read(roots, path) == "h"
            assert real_path(roots, path) == str(root / "a/b/h")


def test_path_may_have_as_many_links_as_the_kernel_allows(base: Path, make: Callable[..., Roots]) -> None:
    path = base / "root/a/b/h"
    for number in range(MAX_LINKS):
        path = Path(link(base / f"root/l{number}", path.name if number else path))
    one_more = Path(link(base / "root/one_more", path))
    assert path.read_text() == read(make(base / "root"), path) == "h"
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        one_more.read_text()
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read(make(base / "root"), one_more)


ESCAPES: dict[str, Callable[[Path], str]] = {
    "dots": lambda base: f"{base}/root/../secret",
    "many dots": lambda base: f"{base}/root/{'../' * 40}{base}/secret",
    "absolute": lambda base: f"{base}/secret",
    "a name that begins alike": lambda base: f"{base}/root2/secret",
    "two slashes": lambda base: f"//{base}/secret",
    "link": lambda base: link(base / "root/l", "../secret"),
    "absolute link": lambda base: link(base / "root/l", base / "secret"),
    "folder link": lambda base: f"{link(base / 'root/l', base)}/secret",
    "link of a link": lambda base: link(base / "root/l", link(base / "root/m", "../secret")),
    "dots through a folder": lambda base: link(base / "root/l", "a/b/../../../secret"),
    "absolute dots": lambda base: link(base / "root/l", base / "root/../secret"),
    "dots behind a link": lambda base: link(
        base / "root/l", f"{link(base / 'root/a/m', base / 'root/a/b')}/../../../secret"
    ),
    "link to the root of all": lambda base: f"{link(base / 'root/l', '/')}{base}/secret",
}


def link(path: Path, target: Path | str) -> str:
    path.symlink_to(target)
    return str(path)


@pytest.mark.parametrize("name", ESCAPES)
def test_path_outside_of_the_roots_is_refused(base: Path, make: Callable[..., Roots], name: str) -> None:
    (base / "root2").mkdir()
    (base / "root2/secret").write_text("secret")
    path = ESCAPES[name](base)
    roots = make(base / "root")
    with pytest.raises(FileError) as refused:
        read(roots, path)
    assert str(refused.value) == f"The path {path} is outside of {base}/root. Use a path beneath it."
    with pytest.raises(FileError), roots.locate(path, umask=0o022):
        pass
    assert sorted(item.name for item in base.iterdir()) == ["root", "root2", "secret"]


def test_link_may_lead_from_one_root_into_another(base: Path, make: Callable[..., Roots]) -> None:
    (base / "root/a/l").symlink_to(base / "secret")
    (base / "other").mkdir()
    (base / "other/f").write_text("other")
    (base / "root/a/m").symlink_to(base / "other/f")
    roots = make(base / "root", base / "other")
    assert read(roots, base / "root/a/m") == "other"
    assert real_path(roots, base / "root/a/m") == f"{base}/other/f"
    with pytest.raises(FileError, match=f"is outside of {base}/root, {base}/other"):
        read(roots, base / "root/a/l")


def test_root_itself_can_be_located(base: Path, make: Callable[..., Roots]) -> None:
    (base / "root/here").symlink_to(base / "root")
    (base / "root/a/up").symlink_to("..")
    for path in ("root", "root/here", "root/a/up", "root/a/.."):
        with make(base / "root").locate(str(base / path)) as place, opened(place) as fd:
            assert sorted(os.listdir(fd)) == ["a", "f", "here"]
            assert place.real_path == f"{base}/root"


@contextmanager
def opened(place: Location) -> Iterator[int]:
    """The descriptor of a folder, closed afterwards."""
    fd = place.open_folder()
    try:
        yield fd
    finally:
        os.close(fd)


BAD_NAMES = [
    "~",
    "~root",
    "%2e%2e",
    "..%2fsecret",
    "-rf",
    "--upload-pack=x",
    "a\nb",
    'it\'s "$(id)" `id`',
    "\x1b[31m",
    "…",
    "a\\..\\b",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_special_characters_in_names_have_no_meaning(base: Path, make: Callable[..., Roots], name: str) -> None:
    roots = make(base / "root")
    with pytest.raises(FileNotFoundError) as missing:
        read(roots, f"{base}/root/{name}")
    assert missing.value.filename == f"{base}/root/{name}"
    (base / "root" / name).write_text("named")
    assert read(roots, f"{base}/root/{name}") == "named"


@pytest.mark.parametrize("path", ["f\0", "/etc/passwd\0.txt", "\ud800"])
def test_invalid_path_is_refused(base: Path, make: Callable[..., Roots], path: str) -> None:
    with pytest.raises(FileError, match=r"Use a(nother)? path"):
        read(make("/"), f"{base}/root/{path}")


def test_circular_links_are_refused(base: Path, make: Callable[..., Roots]) -> None:
    (base / "root/x").symlink_to("y")
    (base / "root/y").symlink_to("x")
    (base / "root/self").symlink_to("self/self")
    for name in ("x", "self", "x/f"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            read(make(base / "root"), base / "root" / name)


def test_too_long_path_is_refused(base: Path, make: Callable[..., Roots]) -> None:
    for path in ("x" * 300, "x/" * 3000, "../" * 3000 + "x"):
        with pytest.raises((OSError, FileError)):
            read(make(base / "root"), f"{base}/root/{path}")


def test_very_deep_folder_is_walked(base: Path, make: Callable[..., Roots]) -> None:
    deep = "/".join(["d"] * ((safe_paths.MAX_PATH_BYTES - len(str(base))) // 2 - 5))
    with make(base / "root").locate(f"{base}/root/{deep}/f", umask=0o022) as place:
        assert place.status() is None
    subprocess.run(["rm", "-r", base / "root/d"], check=True)  # too deep for shutil


@pytest.mark.parametrize("path", ["fifo", "socket", "/dev/zero", "/dev/tty", "/dev/null"])
def test_special_files_are_refused_immediately(base: Path, make: Callable[..., Roots], path: str) -> None:
    os.mkfifo(base / "root/fifo")
    folder = os.getcwd()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        os.chdir(base / "root")  # a socket's path is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(folder)
        started_at = time.thread_time()
        with pytest.raises(FileError, match="It is not a regular file"):
            read(make("/"), base / "root" / path)
        assert time.thread_time() - started_at < REFUSED_WITHIN_S


@LINUX
@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "/proc/version",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/f",
        "/proc/thread-self/environ",
        "/proc/self/fd/0",
        "/dev/fd/0",
        "/dev/stdin",
        "/sys/kernel/notes",
        "link/environ",
        "link/root/etc/passwd",
    ],
)
def test_kernel_interfaces_are_refused_immediately(base: Path, make: Callable[..., Roots], path: str) -> None:
    (base / "root/link").symlink_to("/proc/self")
    started_at = time.thread_time()
    with pytest.raises(FileError, match="It is an interface of the kernel"):
        read(make("/"), base / "root" / path)
    assert time.thread_time() - started_at < REFUSED_WITHIN_S
    with pytest.raises(FileError), make("/").locate("/proc") as place:
        place.open_folder()


def test_file_of_a_terabyte_is_refused_immediately(base: Path, make: Callable[..., Roots]) -> None:
    path = base / "root/sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    started_at = time.thread_time()
    with pytest.raises(FileError, match=r"File is too large \(1048576.0MB\)"):
        read(make(base / "root"), path)
    assert time.thread_time() - started_at < REFUSED_WITHIN_S


def test_moved_root_stays_the_root(base: Path, make: Callable[..., Roots]) -> None:
    roots = make(base / "root")
    (base / "root").rename(base / "moved")
    (base / "root").mkdir()
    (base / "root/f").write_text("another")
    assert read(roots, base / "root/f") == "f"


def test_missing_root_raises(base: Path, make: Callable[..., Roots]) -> None:
    with pytest.raises(FileNotFoundError):
        make(base / "none")


class Swapped:
    """The name of a file that becomes another file between the look at it and its opening."""

    def __init__(self, name: str, swap: Callable[[], object]) -> None:
        self._name, self._swap, self._looks = name, swap, 0

    def __fspath__(self) -> str:
        self._looks += 1
        if self._looks == 2:
            self._swap()
        return self._name


@pytest.mark.parametrize(
    ("was_folder", "becomes"), [(False, "a FIFO"), (False, "a folder"), (False, "a link"), (True, "a file")]
)
def test_file_replaced_before_opening_is_refused(base: Path, was_folder: bool, becomes: str) -> None:
    path = base / "root/swapped"

    def make_first() -> None:
        path.mkdir() if was_folder else path.write_text("first")

    def make_second() -> None:
        path.rmdir() if was_folder else path.unlink()
        makers: dict[str, Callable[[], object]] = {
            "a FIFO": lambda: os.mkfifo(path),
            "a folder": path.mkdir,
            "a link": lambda: path.symlink_to(base / "secret"),
            "a file": lambda: path.write_text("second"),
        }
        makers[becomes]()

    def look() -> None:
        make_first()
        with Roots([base / "root"]).locate(str(path)) as found:
            name = cast("str", Swapped(found.name, make_second))
            place = Location(found.folder, name, found.path, found.real_path)
            with pytest.raises((FileError, OSError)):
                os.close(place.open_folder() if was_folder else place.open_file())
        path.rmdir() if becomes == "a folder" else path.unlink()

    leaves_nothing(look)


def held(folder: Path) -> list[str]:
    """What beneath a folder this process has open; other tests' descriptors may close meanwhile."""
    targets = []
    for fd in os.listdir("/dev/fd"):
        with suppress(FileNotFoundError):
            targets.append(os.readlink(f"/dev/fd/{fd}"))
    return sorted(target for target in targets if Path(target).is_relative_to(folder))


def test_no_descriptor_is_left_open(base: Path, make: Callable[..., Roots]) -> None:
    (base / "root/l").symlink_to("../secret")
    (base / "root/m").symlink_to(base / "root/a/b/h")
    os.mkfifo(base / "root/fifo")
    roots = make(base / "root")
    before = held(base)
    for path in ("f", "a/b/h", "l", "m", "fifo", "none", "none/none", "f/f", "a", "."):
        with suppress(FileError, OSError):
            read(roots, base / "root" / path)
        with roots.locate(f"{base}/root/made/{path}", umask=0o022):
            pass
    assert held(base) == before != []
    del roots
    gc.collect()  # of Python 3.12 and later an error that was caught still holds them
    assert held(base) == []


def world(folder: Path, chance: random.Random) -> list[str]:
    """A root that is full of random links, in a folder with a secret, and paths in it."""
    root = folder / "root"
    (root / "a/b").mkdir(parents=True)
    (folder / "secret").write_text("secret")
    for file in ("f", "a/f", "a/b/f"):
        (root / file).write_text("f")
    inside = ["a", "b", "f", "l", "m", ".", "a/b", "..", "../f", "../a/f", str(root / "a"), str(root)]
    outside = ["../..", "../../secret", str(folder), "/"]
    for place in (root, root / "a", root / "a/b"):
        for name in ("l", "m", "n"):
            target = "/".join(chance.choices(inside, k=chance.randint(1, 2))).replace("//", "/")
            (place / name).symlink_to(chance.choice(outside) if name == "n" else target)
    return ["/".join(chance.choices(["a", "b", "l", "m", "n", "f"], k=chance.randint(1, 4))) for _ in range(60)]


def outcome(roots: Roots, path: str) -> str:
    try:
        with roots.locate(path) as place:
            return f"{place.real_path} {place.status() is not None}"
    except FileError as error:
        return str(error)
    except OSError as error:
        return f"{type(error).__name__} {error.filename}"


def test_walk_and_kernel_agree_with_realpath(tmp_path: Path, seed: int) -> None:
    """`realpath` decides what is below the root, and both implementations agree, error by error."""
    chance = random.Random(seed)
    found = refused = 0
    for number in range(30):
        paths = world(tmp_path / str(number), chance)
        root = tmp_path / str(number) / "root"
        by_kernel, by_walk = Roots([root]), Roots([root], walks=True)
        for name in paths:
            path = f"{root}/{name}"
            said = outcome(by_kernel, path)
            assert said == outcome(by_walk, path), path
            if said.endswith("True"):
                found += 1
                assert said == f"{os.path.realpath(path)} True", path
            elif "is outside of" in said:
                refused += 1
            else:
                assert not os.path.exists(path), (path, said)
    assert found > 50
    assert refused > 50


@LINUX
def test_openat2_is_used_if_available(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback alone would pass other tests; this one checks that openat2 is used."""
    top = os.open("/", os.O_RDONLY)
    try:
        os.close(openat2(top, "etc", os.O_RDONLY, RESOLVE_BENEATH))
    except OSError as error:
        pytest.skip(f"this kernel has no openat2: {error}")
    finally:
        os.close(top)
    monkeypatch.delattr(safe_paths.Roots, "_walk")
    assert read(Roots([base / "root"]), base / "root/a/b/h") == "h"
