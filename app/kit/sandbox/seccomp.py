"""A seccomp filter: system calls that no computation needs fail with EPERM from now on, in this process and its
children.

Three kinds: sockets of every family (connected pairs stay: they lead nowhere), access to other processes or around this
confinement, and parts of the kernel that hostile code often exploits. The filter is a program for the kernel's classic
BPF, assembled here for x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from dataclasses import dataclass

from app.kit.sandbox import kernel

PR_SET_SECCOMP = 22
MODE_FILTER = 2
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; clone cannot make one of time."""
X32 = 0x40000000
COMMON = {
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
}
X86_64 = {
    "socket": 41,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "init_module": 175,
    "delete_module": 176,
    "finit_module": 313,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "acct": 163,
    "quotactl": 179,
    "settimeofday": 164,
    "clock_settime": 227,
    "clock_adjtime": 305,
    "adjtimex": 159,
    "sethostname": 170,
    "setdomainname": 171,
    "syslog": 103,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "lookup_dcookie": 212,
    "vhangup": 153,
    "fanotify_init": 300,
    "iopl": 172,
    "ioperm": 173,
    "modify_ldt": 154,
}
AARCH64 = {
    "socket": 198,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "unshare": 97,
    "setns": 268,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "kexec_load": 104,
    "kexec_file_load": 294,
    "init_module": 105,
    "delete_module": 106,
    "finit_module": 273,
    "reboot": 142,
    "swapon": 224,
    "swapoff": 225,
    "acct": 89,
    "quotactl": 60,
    "settimeofday": 170,
    "clock_settime": 112,
    "clock_adjtime": 266,
    "adjtimex": 171,
    "sethostname": 161,
    "setdomainname": 162,
    "syslog": 116,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "lookup_dcookie": 18,
    "vhangup": 58,
    "fanotify_init": 262,
}
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
LOAD, RETURN = 0x20, 0x06
JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_ANY = 0x15, 0x35, 0x45
ALLOW = 0x7FFF0000
FAIL = 0x00050000
"""With the error number in the lowest bits."""
REFUSE, UNKNOWN = FAIL | errno.EPERM, FAIL | errno.ENOSYS


@dataclass(frozen=True)
class Machine:
    """The differences between machines. Numbers are those of system calls."""

    architecture: int
    """The kernel's name of the machine in a filter (AUDIT_ARCH_…)."""
    denied: tuple[int, ...]
    clone: int
    trace: int
    """The number of ptrace."""
    clone3: int = 435


MACHINES = {
    "x86_64": Machine(0xC000003E, (*COMMON.values(), *X86_64.values()), clone=56, trace=X86_64["ptrace"]),
    "aarch64": Machine(0xC00000B7, (*COMMON.values(), *AARCH64.values()), clone=220, trace=AARCH64["ptrace"]),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict() -> bool:
    """Restricts the system calls of this process; needs no_new_privs. False: this kernel or machine has no such filter.

    Raises:
        OSError: The kernel refuses it.
    """
    machine = MACHINES.get(kernel.MACHINE)
    if machine is None or os.uname().sysname != "Linux":
        return False
    program = assemble(machine)
    pointer = ctypes.cast(ctypes.pointer(_Program(len(program) // 8, program)), ctypes.c_void_p)
    try:
        kernel.prctl(PR_SET_SECCOMP, MODE_FILTER, pointer)
    except OSError as error:
        if error.errno == errno.EINVAL:  # the error of a kernel without it
            return False
        raise
    return True


def assemble(machine: Machine) -> bytes:
    """In programs for another instruction set (32 bits, x32) these numbers mean other calls: all are refused.

    clone3 passes its flags where no filter can read them: libraries fall back to clone if it is unknown.
    """
    denied = len(machine.denied)
    lines = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_IF_EQUAL, 1, 0, machine.architecture),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_AT_LEAST, denied + 3, 0, X32),
        (JUMP_IF_EQUAL, denied + 3, 0, machine.clone3),
        (JUMP_IF_EQUAL, denied + 3, 0, machine.clone),
        *((JUMP_IF_EQUAL, denied - place, 0, number) for place, number in enumerate(machine.denied)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, UNKNOWN),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (JUMP_IF_ANY, 0, 1, NEW_NAMESPACES),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
