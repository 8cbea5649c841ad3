"""Which files a confined process may reach, and what every Python program needs from a machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/default/locale",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/os-release",
    "/etc/debian_version",
    "/etc/mime.types",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
)
"""Read-only. Not all of /etc: environment files of services are there."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # not a place for temporary files
LIBRARY_FOLDERS = ("LD_LIBRARY_PATH", "LD_PRELOAD")


@dataclass(frozen=True)
class SandboxPaths:
    """What a process may reach. Absolute paths."""

    reads: tuple[str, ...] = ()
    """Read and execute, whole folders."""
    listings: tuple[str, ...] = ()
    """Only the names in them."""
    writes: tuple[str, ...] = ()
    """Unrestricted."""

    def beside(self, folders: Iterable[str]) -> SandboxPaths:
        """Returns the paths without some folders: of a readable folder that contains one, its other entries; a writable
        folder that contains one is dropped.

        Args:
            folders: the folders to exclude, as absolute paths.
        """
        kept = tuple(map(os.path.realpath, folders))
        writes = tuple(path for path in self.writes if not _select_inside(path, kept))
        return SandboxPaths(tuple(dict.fromkeys(_iterate_around(self.reads, kept))), self.listings, writes)

    def __add__(self, other: SandboxPaths) -> SandboxPaths:
        return SandboxPaths(self.reads + other.reads, self.listings + other.listings, self.writes + other.writes)


def of_python() -> SandboxPaths:
    """What this interpreter and its installed libraries need from the machine."""
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    variables = [path for name in LIBRARY_FOLDERS for path in os.environ.get(name, "").split(os.pathsep) if path]
    reads, listings = [*SYSTEM, *prefixes, *variables], []
    for entry in map(os.path.realpath, sys.path):
        if _is_library(entry, prefixes):
            reads.append(entry)
        else:
            listings.append(entry)  # the import system looks for names there, and finds nothing if it may not
            reads += _list_importable(entry)
    return SandboxPaths(tuple(reads), tuple(listings), DEVICES)


def _select_inside(path: str, folders: Iterable[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).is_relative_to(os.path.realpath(path))]


def _iterate_around(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    for path in paths:
        inside = _select_inside(path, folders)
        if not inside:
            yield path
        elif os.path.realpath(path) not in inside:
            with os.scandir(path) as entries:
                yield from _iterate_around([entry.path for entry in entries], inside)


def _is_library(entry: str, prefixes: Iterable[str]) -> bool:
    """Excludes folders that somebody works in, with programs and data side by side."""
    is_installed = any(Path(entry).is_relative_to(prefix) for prefix in prefixes)
    return is_installed or Path(entry).name in {"site-packages", "dist-packages"} or not os.path.isdir(entry)


def _list_importable(folder: str) -> list[str]:
    """A folder that this user may not list is not a package for it either."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.name.endswith((".py", ".so")) or _is_package(entry.path)]
    except PermissionError:
        return []


def _is_package(path: str) -> bool:
    return os.path.exists(os.path.join(path, "__init__.py"))
