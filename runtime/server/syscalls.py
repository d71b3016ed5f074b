"""Two system calls that Python does not have: `openat2`, and the part of `fstatfs` that names a file system.

Both are Linux's. Elsewhere, and under a kernel or a filter without them, they say so in a way that callers can do
without: `openat2` raises OSError, `is_kernel_interface` answers from what it knows.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_OPENAT2 = 437
"""The number on every architecture that Python runs on but Alpha."""
_STATFS_BYTES = 256
"""More than `struct statfs` of any architecture."""

_KERNEL_INTERFACES = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x62656570: "configfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0xCAFE4A11: "bpf",
    0xDE5E81E4: "efivarfs",
    0x42494E4D: "binfmt_misc",
    0x65735543: "fusectl",
    0x6E736673: "nsfs",
    0xF97CFF8C: "selinuxfs",
}
"""File systems whose files are calls into the kernel, by `f_type`."""

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _OpenHow(ctypes.Structure):
    """`struct open_how`."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` from the descriptor of a folder, in one step that nobody can come between. Raises OSError."""
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    how = _OpenHow(flags, 0, resolve)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    fd: int = _libc.syscall(ctypes.c_long(_OPENAT2), folder, os.fsencode(path), ctypes.byref(how), size)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def is_kernel_interface(fd: int) -> bool:
    """Whether what is open lies on a file system like procfs, where reading and writing are calls to the kernel."""
    if _libc is None:
        return False
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(fd, status) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    (kind,) = struct.unpack_from("l", status)
    return kind & 0xFFFFFFFF in _KERNEL_INTERFACES
