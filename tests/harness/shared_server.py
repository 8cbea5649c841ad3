"""A server for all processes of a run, which all know a folder: the first that needs it starts it, the last ends it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def shared_server(folder: Path, name: str, start: Callable[[], str], stop: Callable[[str], None]) -> Iterator[str]:
    """Whoever uses it holds a shared lock, which ends with its process, however that ends.

    Args:
        folder: of the run.
        name: of the server, in it.
        start: Starts it, and returns a line by which the others find it, as `stop` does.
        stop: Ends it, and removes what it has left.
    """
    note = folder / name
    with (folder / f"{name}.change").open("a") as change, (folder / f"{name}.use").open("a") as use:
        fcntl.flock(change, fcntl.LOCK_EX)  # one after another begins and ends
        if not note.exists():
            note.write_text(start())
        fcntl.flock(use, fcntl.LOCK_SH)
        fcntl.flock(change, fcntl.LOCK_UN)
        line = note.read_text()
        try:
            yield line
        finally:
            fcntl.flock(change, fcntl.LOCK_EX)
            with suppress(BlockingIOError):  # somebody else uses it
                fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
                note.unlink()
                stop(line)
