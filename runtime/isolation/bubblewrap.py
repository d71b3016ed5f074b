"""Builds the isolation of a local sandbox with bubblewrap: visible and writable paths, and the user of its processes.

Visible are the system's programs, read-only, and the workspace, writable except for what the host runs later (see
`protected_paths`). The home folder is hidden, /tmp is private, and there is no network and no other process. Root
cannot be isolated, because its user ID opens files and kernel settings regardless; so processes get the user ID of the
workspace's owner, and if that is root, there is no isolation and the reason is reported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from core import errors
from runtime import protocol
from runtime.isolation import protected_paths, seccomp
from runtime.isolation.protected_paths import Mount, Mounts

PROBE_TIMEOUT_S = 5.0
"""A run takes some ten milliseconds."""

SYSTEM = ("/usr", "/opt", "/nix")
TOP_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on some."""
ETC = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.conf",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""Visible entries of /etc; the rest may have data that concerns only this machine."""


class BubblewrapError(Exception):
    """Isolation is not possible; the text says why."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """What one sandbox sees of the machine. Paths are absolute and the same inside and outside."""

    workspace: Path
    private: Path
    """The private, writable folder of its sockets."""
    home: Path
    readable: tuple[Path, ...] = ()
    """Visible paths besides the system's, read-only."""
    hidden: tuple[Path, ...] = ()
    """Hidden paths, even in the workspace or below `readable`."""
    mounts: Callable[[], Mounts] = Mounts
    """Returns the mounts that currently protect the workspace; none by default."""
    state: Path | None = None
    """A folder that the sandbox keeps for the next one; visible as `state_inside`, wherever it is."""
    user: tuple[int, int] | None = None
    """User and group ID of its processes if they differ from ours; see `sandbox_user`."""
    is_read_only: bool = False
    """Whether the workspace cannot be written either."""
    tmp_bytes: int = 2 * 1024**3

    @property
    def state_inside(self) -> Path:
        """Where the sandbox finds its kept state."""
        return self.private / "state"

    def command(self) -> tuple[list[str], Mounts]:
        """Return the words before a command to run it inside, and the mounts that must be held in
        `protected_paths.HeldMounts`.

        Pass the words to `hidden_arguments`. Raises BubblewrapError. Blocks for milliseconds.
        """
        code = programs()
        try:
            mounts = self.mounts()
        except (protected_paths.ProtectionError, OSError) as error:
            raise BubblewrapError(str(error)) from error
        visible = [*self.readable, *code, *mounts.writable, self.workspace, self.private]
        command = [_bwrap(), *_NAMESPACES, *_system()]
        command += ["--perms", "1777", "--size", str(self.tmp_bytes), "--tmpfs", "/tmp"]  # noqa: S108  # of the sandbox
        command += ["--perms", "1777", "--size", str(self.tmp_bytes), "--tmpfs", "/dev/shm"]  # noqa: S108
        command += ["--perms", "0755", "--dir", "/var"]
        command += ["--perms", "1777", "--size", str(self.tmp_bytes), "--tmpfs", "/var/tmp"]  # noqa: S108
        command += _folders_above([self.home])
        command += ["--perms", "0777", "--size", str(self.tmp_bytes), "--tmpfs", str(self.home)]
        command += _folders_above(visible)
        for path in (*self.readable, *code):
            command += ["--ro-bind-try", str(path), str(path)]
        for path in (self.workspace, self.private):
            command += ["--ro-bind" if self.is_read_only else "--bind", str(path), str(path)]
        if self.state is not None:
            command += ["--bind", str(self.state), str(self.state_inside)]
        for path in self.hidden:
            if any(path.is_relative_to(shown) for shown in visible) and path.is_dir():
                command += _empty(path)
        for mount in mounts.mounts:
            command += _mounted(mount)
        return [*command, "--chdir", str(self.workspace), *self._identity()], mounts

    def _identity(self) -> list[str]:
        """Return the end of bubblewrap's arguments, and the command that changes the user if we are root."""
        if self.user is None:
            return ["--unshare-user", "--disable-userns", "--"]
        uid, gid = self.user
        capabilities = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
        become = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
        return [*capabilities, "--", *become, "--bounding-set=-all", "--inh-caps=-all"]


def sandbox_user(workspace: Path) -> tuple[int, int] | None:
    """Return the owner of the workspace if we are root, else None: others keep their own ID. Blocks."""
    if os.getuid() != 0:
        return None
    owner = workspace.stat()
    return owner.st_uid, owner.st_gid


_NAMESPACES = (
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
)


def unavailable_reason(sandbox: Bubblewrap) -> str:
    """Return why this isolation does not work, and what to do, or an empty string after a successful trial run.

    Blocks for some ten milliseconds.
    """
    if sys.platform != "linux":
        return "bubblewrap is for Linux"
    if sandbox.home.is_relative_to(sandbox.workspace):
        return "the workspace holds your home folder. Work in a folder of its own"
    if sandbox.user is not None and sandbox.user[0] == 0:
        return "Handloom runs as root, and the workspace is root's. Run it as a normal user"
    try:
        command, mounts = sandbox.command()
        with hidden_arguments(command) as (words, fds):
            return _trial_run(words, mounts, sandbox.user, fds)
    except (BubblewrapError, OSError) as error:
        return str(error)


def _trial_run(command: list[str], mounts: Mounts, user: tuple[int, int] | None, fds: tuple[int, ...]) -> str:
    held = protected_paths.HeldMounts(mounts, user)
    try:
        subprocess.run(
            [*command, "/bin/sh", "-c", ":"],
            check=True,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            pass_fds=fds,
            cwd="/",
        )
    except subprocess.CalledProcessError as error:
        return f"bubblewrap does not work here: {error.stderr.strip().rpartition(chr(10))[2] or error.returncode}"
    except subprocess.TimeoutExpired:
        return "bubblewrap does not answer"
    finally:
        held.close()
    return ""


@contextmanager
def hidden_arguments(command: list[str]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Yield the command with its long arguments and the system call filter in memory files, and their descriptors.

    Otherwise a list of the sandbox's processes would show the arguments. The child has to inherit the descriptors.
    """
    end = command.index("--")
    with ExitStack() as stack:
        fds = [_in_memory("\0".join(command[1:end]).encode(errors="surrogateescape"), stack)]
        words = [command[0], "--args", str(fds[0])]
        if (program := seccomp.program()) is not None:
            fds.append(_in_memory(program, stack))
            words += ["--seccomp", str(fds[1])]
        yield [*words, *command[end:]], tuple(fds)


def _in_memory(data: bytes, stack: ExitStack) -> int:
    if sys.platform != "linux":
        raise BubblewrapError("bubblewrap needs Linux")
    fd = os.memfd_create("handloom", 0)
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise BubblewrapError("bubblewrap is not installed. Install the package bubblewrap")
    return found


def programs() -> tuple[Path, ...]:
    """Return the folders of the interpreter and of our own packages."""
    own = (Path(module.__file__ or "").parent.resolve() for module in (errors, protocol))
    return (Path(sys.prefix), Path(sys.base_prefix), *own)


def _mounted(mount: Mount) -> list[str]:
    if mount.access in ("empty", "hidden folder"):
        return _empty(mount.path, "0555" if mount.access == "empty" else "0000")
    if mount.access == "hidden file":  # a device that cannot be opened, because the mount disables devices
        return ["--ro-bind", os.devnull, str(mount.path)]
    return ["--bind" if mount.access == "open" else "--ro-bind", str(mount.path), str(mount.path)]


def _empty(path: Path, mode: str = "0555") -> list[str]:
    return ["--size", "4096", "--perms", mode, "--tmpfs", str(path), "--remount-ro", str(path)]


def _system() -> list[str]:
    arguments: list[str] = []
    for folder in SYSTEM:
        arguments += ["--ro-bind-try", folder, folder]
    for link in TOP_LINKS:
        if os.path.islink(link):
            arguments += ["--symlink", os.readlink(link), link]
        else:
            arguments += ["--ro-bind-try", link, link]
    arguments += _folders_above([Path("/etc", name) for name in ETC])
    for name in ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*arguments, "--proc", "/proc", "--dev", "/dev"]


def _folders_above(paths: list[Path]) -> list[str]:
    """Return arguments for the parent folders, top first; bubblewrap would make them accessible to its own user
    only.
    """
    above = {folder for path in paths for folder in path.parents} - {Path("/")}
    return [argument for folder in sorted(above) for argument in ("--perms", "0755", "--dir", str(folder))]
