"""What a folder is to the model: two levels, sorted, without what is hidden, and nothing outside of the roots."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.server.editor import MAX_CHARS, listing
from runtime.server.safe_paths import Roots


def listed(folder: Path, *roots: Path) -> tuple[list[str], str]:
    """The paths, and what is said after them."""
    beneath = Roots(roots or (folder,))
    with beneath.locate(str(folder)) as place:
        head, *lines = listing(beneath, place).split("\n")
    assert head == f"Here's the files and directories up to 2 levels deep in {folder}, excluding hidden items:"
    text = "\n".join(lines)
    paths, _, note = text.partition("\n\n")
    return [path.removeprefix(f"{folder}/") for path in paths.split("\n")], note


def test_two_levels_are_listed_without_hidden_entries(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("a", "b/two", "b/.hidden", ".secret", ".other", "b/deep/three"):
        (tmp_path / name).touch()
    paths, note = listed(tmp_path)
    assert paths == ["", "a", "b/", "b/deep/", "b/two", "empty/"]
    assert note == (
        f"2 hidden files/directories in this directory are excluded. You can use 'ls -la {tmp_path}' to see them."
    )


def test_hidden_files_are_not_mentioned_if_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert listed(tmp_path) == (["", "a"], "")


def test_link_to_a_folder_is_followed_only_below_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "real").mkdir(parents=True)
    outside.mkdir()
    (inside / "real" / "f").touch()
    (inside / "real" / "out").symlink_to(outside)
    (inside / "real" / "up").symlink_to(inside)
    (outside / "private").touch()
    (inside / "link").symlink_to(inside / "real")
    (inside / "out").symlink_to(outside)
    (inside / "nowhere").symlink_to(inside / "gone")
    shown = ["", "link/", "link/f", "link/out", "link/up/", "nowhere", "out", "real/", "real/f", "real/out", "real/up/"]
    assert listed(inside) == (shown, "")


def test_a_long_list_is_cut_and_all_hidden_entries_are_counted(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}{'x' * 100}").touch()
    (tmp_path / ".hidden").touch()
    with Roots((tmp_path,)).locate(str(tmp_path)) as place:
        text = listing(Roots((tmp_path,)), place)
    _, _, shown = text.partition("excluding hidden items:\n")
    paths, clipped, _ = shown.partition("<response clipped>")
    assert (len(paths), clipped) == (MAX_CHARS, "<response clipped>")
    assert text.endswith("to see them.")


def test_descriptors_are_closed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").touch()
    before = len(os.listdir("/proc/self/fd"))
    listed(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
