"""A seccomp filter, as bytes for the kernel, that forbids system calls which a sandbox does not need. Pure.

It denies access to other processes, the kernel's keys and tracing, mounts, new namespaces, and typing into a terminal;
such calls fail with EPERM. `clone3` hides its flags from a filter, so it fails with ENOSYS, and libraries fall back to
`clone`, whose flags are checked. See seccomp(2), bpf(4) and `include/uapi/linux/seccomp.h`.
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in what the filter sees; the low word of an argument comes first on these machines."""

_X32 = 0x40000000
"""Numbers of the x32 convention start here; they would bypass the filter and are not needed."""
_NEW_NAMESPACE = 0x7E020080
"""Any CLONE_NEW* flag of clone(2)."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_BOTH = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}
_DENIED: dict[str, dict[str, int]] = {
    "x86_64": _BOTH
    | {
        "ptrace": 101,
        "syslog": 103,
        "pivot_root": 155,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "clock_settime": 227,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "open_by_handle_at": 304,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "finit_module": 313,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": _BOTH
    | {
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "chroot": 51,
        "quotactl": 60,
        "acct": 89,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "clock_settime": 112,
        "syslog": 116,
        "ptrace": 117,
        "reboot": 142,
        "settimeofday": 170,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "swapon": 224,
        "swapoff": 225,
        "perf_event_open": 241,
        "open_by_handle_at": 265,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "finit_module": 273,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
    },
}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_CLONE3 = 435


def program(machine: str | None = None) -> bytes | None:
    """Return the filter for this architecture, by uname's name; None if its system calls are not known."""
    machine = machine or platform.machine()
    if machine not in _DENIED:
        return None
    deny = _return(_FAIL | errno.EPERM)
    lines = [_load(_ARCHITECTURE), _jump(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0), deny, _load(_NUMBER)]
    lines += [_jump(_JUMP_AT_LEAST, _X32, 0, 1), deny]
    for number in sorted(_DENIED[machine].values()):
        lines += [_jump(_JUMP_EQUAL, number, 0, 1), deny]
    lines += [_jump(_JUMP_EQUAL, _CLONE3, 0, 1), _return(_FAIL | errno.ENOSYS)]
    lines += [_jump(_JUMP_EQUAL, _CLONE[machine], 0, 4), _load(_FIRST_ARGUMENT)]
    lines += [_jump(_JUMP_ANY_BIT, _NEW_NAMESPACE, 0, 1), deny, _return(_ALLOW)]
    lines += [_jump(_JUMP_EQUAL, _IOCTL[machine], 0, 5), _load(_SECOND_ARGUMENT)]
    for request in (_TIOCSTI, _TIOCLINUX):
        lines += [_jump(_JUMP_EQUAL, request, 0, 1), deny]
    return b"".join([*lines, _return(_ALLOW)])


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LOAD_WORD, 0, 0, offset)


def _jump(kind: int, operand: int, if_true: int, if_false: int) -> bytes:
    """Jump over this many instructions, counted from the next one."""
    return struct.pack("=HBBI", kind, if_true, if_false, operand)


def _return(verdict: int) -> bytes:
    return struct.pack("=HBBI", _RETURN, 0, 0, verdict)
