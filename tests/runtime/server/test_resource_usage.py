"""What the server uses of its machine, compared with what the kernel says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from runtime.server.app import server_usage


def test_usage_matches_the_kernel(tmp_path: Path) -> None:
    before = time.process_time()
    found = server_usage(str(tmp_path), 50.0)
    assert 2 * before - 0.1 <= found["cpu_percent"] <= 2 * time.process_time() + 0.1
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = found["memory"]
    for name, told in (("rss", "VmRSS"), ("vms", "VmSize")):
        said = int(status[told].split()[0]) * 1024
        assert abs(memory[name] - said) < said / 4
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert abs(memory["percent"] - 100 * memory["rss"] / total) < 0.01
    disk = shutil.disk_usage(tmp_path)
    assert found["disk"]["total"] == disk.total
    assert abs(found["disk"]["free"] - disk.free) < 2**30
    assert abs(found["disk"]["used"] - disk.used) < 2**30
    assert abs(found["disk"]["percent"] - 100 * disk.used / disk.total) < 1
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    assert found["io"].keys() == {"read_bytes", "write_bytes"}
    assert found["io"]["read_bytes"] <= int(counted["read_bytes"])
    assert found["io"]["write_bytes"] <= int(counted["write_bytes"])


def test_new_server_has_a_cpu_percentage(tmp_path: Path) -> None:
    assert server_usage(str(tmp_path), 0.0)["cpu_percent"] >= 0


CHILDREN = """
import os, subprocess
from runtime.server.app import sandbox_usage

alone = sandbox_usage()
with subprocess.Popen(["sleep", "60"]) as child:
    both = sandbox_usage()
    child.kill()
assert both["processes"] == alone["processes"] + 1
assert both["memory"] > alone["memory"]
times = os.times()
spent = times.user + times.system + times.children_user + times.children_system
assert alone["cpu_seconds"] - 0.05 <= spent <= sandbox_usage()["cpu_seconds"] + 0.5
assert alone["oom_kills"] >= 0
"""


def test_usage_includes_child_processes() -> None:
    """In a process of its own, because children of other tests may still be running here."""
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
