"""A remote engine on this machine: an sshd on loopback that gives access to the engine of the tests.

Its keys and its client's settings are made for one run, and `ssh` on the PATH uses them, so that the user's own ssh
settings have no effect.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.containers import engine_environ

PIPE_BYTES = 1 << 20
"""Space for the server's output about thousands of connections: a full pipe would block it."""
_SERVER = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
SetEnv DOCKER_HOST={engine}
"""
_CLIENT = """
IdentityFile {folder}/user
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
"""


class Elsewhere:
    """The engine of the tests as `ssh://`. Start it before use, and stop it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sshd-", dir="/tmp"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ssh://127.0.0.1:{self._port}"

    @property
    def bin(self) -> Path:
        """Belongs at the front of the PATH."""
        return self._folder / "bin"

    def start(self) -> None:
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name)], check=True)
        engine = engine_environ().get("DOCKER_HOST", "unix:///var/run/docker.sock")
        values = {"port": self._port, "folder": self._folder, "engine": engine}
        (self._folder / "server").write_text(_SERVER.format(**values))
        (self._folder / "client").write_text(_CLIENT.format(**values))
        key = " ".join((self._folder / "host.pub").read_text().split()[:2])
        (self._folder / "known").write_text(f"[127.0.0.1]:{self._port} {key}\n")
        self.bin.mkdir()
        program = self.bin / "ssh"
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self._folder}/client "$@"\n')
        program.chmod(0o755)
        self.open()

    def open(self) -> None:
        """Accept connections."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        self._server = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(self._folder / "server")], stderr=subprocess.PIPE, start_new_session=True
        )
        assert self._server.stderr is not None
        fcntl.fcntl(self._server.stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        for line in self._server.stderr:
            if b"listening" in line.lower():
                break

    def close(self) -> None:
        """Refuse connections, and cut the existing ones."""
        if self._server is not None:
            with self._server as server:
                server.kill()
                self.cut()
            self._server = None

    def cut(self) -> int:
        """Kill every ssh that has a connection; how many there were."""
        found = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                command = Path("/proc", pid, "cmdline").read_bytes()
                if f"{self._folder}/client\0".encode() in command:
                    os.kill(int(pid), signal.SIGKILL)
                    found += 1
        return found

    def stop(self) -> None:
        """End everything and leave nothing."""
        self.close()
        shutil.rmtree(self._folder)
