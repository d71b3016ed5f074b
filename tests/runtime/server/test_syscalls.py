"""Which file systems are interfaces of the kernel, and folders that are opened in one step."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.server.safe_paths import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    is_kernel_interface,
    openat2,
)
from tests.program import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="both calls are Linux's")

KINDS = ("proc", "sysfs", "debugfs", "tracefs", "securityfs", "configfs", "cgroup", "cgroup2", "bpf", "efivarfs")
OTHERS = ("binfmt_misc", "fusectl", "selinuxfs", "tmpfs")
MOUNTING = """
import json, os, subprocess, sys
from runtime.server.safe_paths import is_kernel_interface
place, told = sys.argv[1], {}
for kind in sys.argv[2:]:
    options = ["-o", "none,name=handloom-test"] if kind == "cgroup" else []
    if subprocess.run(["mount", "-t", kind, *options, kind, place], capture_output=True).returncode == 0:
        fd = os.open(place, os.O_RDONLY)
        told[kind] = is_kernel_interface(fd)
        os.close(fd)
        subprocess.run(["umount", "-l", place], check=True)
print(json.dumps(told))
"""


@pytest.mark.mount
def test_mountable_kernel_interfaces_are_recognised(tmp_path: Path) -> None:
    """The number depends on the kernel and the user."""
    within = ["unshare", "--mount", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    command = [*within, sys.executable, "-c", MOUNTING, str(tmp_path), *KINDS, *OTHERS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    told = json.loads(done.stdout)
    assert told.pop("tmpfs") is False
    assert told.pop("proc", True) is True
    assert [kind for kind, is_one in told.items() if not is_one] == []


@pytest.mark.parametrize(
    ("path", "is_one"), [("/proc", True), ("/proc/self/ns/mnt", True), ("/sys", True), ("/", False)]
)
def test_kernel_interfaces_are_recognised_by_file_system(path: str, is_one: bool) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        assert is_kernel_interface(fd) is is_one
    finally:
        os.close(fd)


def test_invalid_descriptor_raises() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        is_kernel_interface(-1)


def test_openat2_follows_links_as_requested(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "out").symlink_to("/")
    above = os.open(tmp_path, os.O_RDONLY)
    try:
        for name, resolve, is_had in (
            ("folder", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, True),
            ("link", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, False),
            ("link", RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, True),
            ("out", RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, False),
            ("out", RESOLVE_NO_MAGICLINKS, True),
            ("/proc/self/cwd", RESOLVE_NO_MAGICLINKS, False),
            ("..", RESOLVE_BENEATH, False),
        ):
            if is_had:
                os.close(openat2(above, name, os.O_RDONLY | os.O_DIRECTORY, resolve))
            else:
                with pytest.raises(OSError, match=re.escape(repr(name))):
                    openat2(above, name, os.O_RDONLY | os.O_DIRECTORY, resolve)
        with pytest.raises(FileNotFoundError):
            openat2(above, "none", os.O_RDONLY, RESOLVE_BENEATH)
    finally:
        os.close(above)
