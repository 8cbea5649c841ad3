"""Becomes a host's own user and runs its command: `ip netns exec NS python enter.py UID PATH… -- COMMAND…`.

Runs as root in the mount namespace that `ip netns exec` made. The paths (interpreter, packages, sources) must be
readable by any user; where one lies below a folder that is closed to others, as root's home is, the way to it, and to
nothing else there, is opened in this namespace.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

MS_BIND_RECURSIVE = 4096 | 16384
STASH = Path("/mnt")
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    uid, rest = int(sys.argv[1]), sys.argv[2:]
    cut = rest.index("--")
    open_ways([Path(path).resolve() for path in rest[:cut]])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.execv(rest[cut + 1], rest[cut + 1 :])


def open_ways(paths: list[Path]) -> None:
    closed: dict[Path, list[Path]] = {}
    for path in paths:
        way = next((step for step in reversed(path.parents) if not step.stat().st_mode & 1), None)
        if way is not None:
            closed.setdefault(way, []).append(path)
    if closed:
        mount("tmpfs", STASH, "tmpfs", 0, "mode=700")
    for folder, hidden in closed.items():
        for path in hidden:
            kept = STASH / str(path).replace("/", "_")
            kept.mkdir()
            mount(str(path), kept, None, MS_BIND_RECURSIVE)
        mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        for path in hidden:
            path.mkdir(parents=True, exist_ok=True)
            mount(str(STASH / str(path).replace("/", "_")), path, None, MS_BIND_RECURSIVE)


def mount(source: str, target: Path, kind: str | None, flags: int, options: str = "") -> None:
    given = (source.encode(), str(target).encode(), kind and kind.encode(), flags, options.encode())
    if LIBC.mount(*given):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


if __name__ == "__main__":
    main()
