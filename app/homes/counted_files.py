"""Open files whose bytes count in a quota, also after their names are gone."""

from __future__ import annotations

import os
import threading


class CountedFile:
    """size_bytes: up to where the file was counted. lock: held from counting to writing."""

    def __init__(self, user: str, fd: int) -> None:
        self.user = user
        self.lock = threading.RLock()
        self.size_bytes = os.fstat(fd).st_size
        self.handles = 0
        self._fd = os.dup(fd)

    @property
    def is_removed(self) -> bool:
        """It has no name any more, and is still open."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        os.close(self._fd)


class CountedFiles:
    """Of one process. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[tuple[int, int], CountedFile] = {}

    def open(self, user: str, fd: int) -> CountedFile:
        """For one more handle of it."""
        status = os.fstat(fd)
        with self._lock:
            file = self._files.get((status.st_dev, status.st_ino))
            if file is None:
                file = self._files[status.st_dev, status.st_ino] = CountedFile(user, fd)
            file.handles += 1
            return file

    def close(self, fd: int, file: CountedFile) -> int:
        """Removes a handle. Returns the bytes that become free: those of a removed file, with its last handle."""
        status = os.fstat(fd)
        with self._lock:
            file.handles -= 1
            if file.handles:
                return 0
            del self._files[status.st_dev, status.st_ino]
            freed = file.size_bytes if file.is_removed else 0
            file.close()
            return freed

    def is_open(self, status: os.stat_result) -> bool:
        with self._lock:
            return (status.st_dev, status.st_ino) in self._files

    def hidden_bytes(self, user: str) -> int:
        """Of files without a name, which a walk through the home does not see."""
        with self._lock:
            return sum(file.size_bytes for file in self._files.values() if file.user == user and file.is_removed)
