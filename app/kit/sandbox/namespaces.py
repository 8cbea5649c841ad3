"""Namespaces that a process may create without root: an empty network, its own processes, files that it cannot change.

The first process of the new namespaces adopts every orphan below it, receives no signal from them, and takes them all
with it when it dies. Its own `/proc` shows no other process. All mounted file systems are read-only except the given
folders: modes, owners and times, which Landlock does not cover, cannot be changed either. In a container the kernel may
refuse some or all of this.
"""

from __future__ import annotations

import errno
import os
import struct
import traceback
from collections.abc import Iterable
from pathlib import Path

from app.kit.sandbox import kernel
from app.kit.sandbox.paths import SHARED_MEMORY

MOUNTS, IPC, USER, PROCESSES, NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
OUTSIDE = USER | NETWORK | IPC
ALL = OUTSIDE | PROCESSES | MOUNTS
NOSUID, NODEV, NOEXEC, BIND, ALL_BELOW, PRIVATE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
MOUNT_SETATTR, HERE, RECURSIVE, READ_ONLY = 442, -100, 0x8000, 1


def available() -> int:
    """Returns as many of these as this kernel allows now, 0 if none: tested in a child, because the answer depends on
    many factors."""
    return next((flags for flags in (ALL, OUTSIDE) if _is_given(flags)), 0)


def enter(flags: int) -> None:
    """Call it in the process that will fork, while it has one thread. With PROCESSES it continues in a child, which
    ends with it; without, network and IPC are private from now on.

    Raises:
        OSError: The kernel refuses it.
    """
    if not flags:
        return
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(USER | PROCESSES if flags & PROCESSES else flags)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")  # its files belong to its user
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if flags & PROCESSES:
        child = os.fork()
        if child:
            os._exit(_code_of(child))
        kernel.die_with_parent()


def fork(flags: int, writes: Iterable[str] = (), *, memory_bytes: int = 0) -> int:
    """Like os.fork, in a process that has entered; the child is the first in new namespaces, or ends.

    Args:
        flags: flags of clone.
        writes: folders and files that may be changed.
        memory_bytes: the size of its private shared memory; 0: it has none.

    Raises:
        OSError: The kernel refuses.
    """
    if not flags & PROCESSES:
        return os.fork()
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.unshare(PROCESSES)  # of the children, not of this one
        try:
            child = os.fork()
        except OSError:
            kernel.setns(ours, PROCESSES)
            raise
        if child:
            kernel.setns(ours, PROCESSES)
            return child
    finally:
        os.close(ours)
    try:
        kernel.unshare(flags & ~(USER | PROCESSES))
        _mount(writes, memory_bytes)
    except BaseException:  # noqa: BLE001  # it may not go on as if it were confined
        traceback.print_exc()
        os._exit(1)
    return 0


def _is_given(flags: int) -> bool:
    child = os.fork()
    if child:
        return _code_of(child) == 0
    try:
        enter(flags)
        for _ in range(2):  # otherwise a first attempt could leave a state in which a second one fails
            first = fork(flags, memory_bytes=1 << 20)
            if first == 0:
                os._exit(0)
            if _code_of(first):
                os._exit(1)
        os._exit(0)
    except BaseException:  # noqa: BLE001  # whatever it is, it cannot be had
        os._exit(1)


def _code_of(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _mount(writes: Iterable[str], memory_bytes: int) -> None:
    kernel.mount(None, "/", flags=PRIVATE | ALL_BELOW)
    kernel.mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    _set("/", READ_ONLY, 0, RECURSIVE)
    for path in writes:
        if os.path.exists(path):
            kernel.mount(path, path, flags=BIND)
            _set(path, 0, READ_ONLY)
    if os.path.isdir(SHARED_MEMORY):
        kernel.mount("shm", SHARED_MEMORY, "tmpfs", NOSUID | NODEV, f"mode=1777,size={memory_bytes}")


def _set(path: str, add: int, remove: int, flags: int = 0) -> None:
    """Attributes of a mount; kernels before 5.12 leave them unchanged."""
    attributes = struct.pack("=4Q", add, remove, 0, 0)
    try:
        kernel.syscall(MOUNT_SETATTR, HERE, os.fsencode(path), flags, attributes, len(attributes))
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
