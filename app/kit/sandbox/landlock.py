"""Landlock restricts this process to these files; further layers can only restrict it more.

Open files stay usable. It also blocks TCP (Linux 6.7), signals and abstract sockets to processes other than this one
and its children (6.12), and, in each version, their `/proc/PID` beyond the name. It does not cover modes, owners and
times: see `namespaces`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterable

from app.kit.sandbox import kernel
from app.kit.sandbox.paths import SandboxPaths

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
RIGHTS_OF_FIRST, RIGHTS = 13, {2: 14, 3: 15, 5: 16}
"""How many file access rights a version of Landlock has: this many bits from the lowest."""
BIND_AND_CONNECT_TCP, NETWORK_SINCE = 0b11, 4
ABSTRACT_SOCKETS_AND_SIGNALS, SCOPES_SINCE = 0b11, 6


def version() -> int:
    """Returns the version of this kernel's Landlock; 0: it is missing or disabled."""
    with contextlib.suppress(OSError):
        return kernel.syscall(CREATE_RULESET, None, 0, VERSION)
    return 0


def restrict(places: SandboxPaths) -> bool:
    """Restricts this process to these places; needs no_new_privs. Places that do not exist are skipped. False: this
    kernel has no Landlock.

    Raises:
        OSError: The kernel refuses it.
    """
    known = version()
    if not known:
        return False
    handled = (1 << max([RIGHTS_OF_FIRST, *(bits for since, bits in RIGHTS.items() if known >= since)])) - 1
    words = [handled]
    if known >= NETWORK_SINCE:
        words.append(BIND_AND_CONNECT_TCP)
    if known >= SCOPES_SINCE:
        words.append(ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = kernel.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(ruleset, places.reads, READ)
        _allow(ruleset, places.listings, READ_DIR)
        _allow(ruleset, places.writes, handled & ~(MAKE_CHAR | MAKE_BLOCK))
        kernel.syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        try:
            own = rights if stat.S_ISDIR(os.fstat(place).st_mode) else rights & OF_FILES
            if own:
                kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", own, place), 0)
        finally:
            os.close(place)
