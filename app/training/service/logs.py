"""The log of an attempt, as it was copied into its folder: the last lines, read from the end on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from app.homes.errors import FileMissing, HomeMissing, NotAFile, PathRefused
from app.homes.service import Homes
from app.training.errors import LogMissing
from app.training.model import Attempt, Task
from app.training.service.folders import folders_of, opened_file
from app.training.service.views import LogView

LOG = "driver.log"
BLOCK_BYTES = 64 << 10
MOST_BYTES = 8 << 20
"""What a program writes without ends of lines is cut here."""


def log_of(
    homes: Homes, task: Task, attempts: Sequence[Attempt], *, attempt_no: int | None = None, tail: int
) -> LogView:
    """attempt_no None: the last. Raises LogMissing."""
    attempt = _chosen(task, attempts, attempt_no)
    folder = folders_of(homes, task.user, [attempt]).get(attempt.attempt_no)
    if folder is None:
        raise _missing(attempt)
    if not folder.path:
        raise LogMissing(
            f"The folder of attempt {attempt.attempt_no} is gone, and its log with it.",
            hint=f"The folders of jobs are deleted some days after their end, this one by {folder.purge_at:%Y-%m-%d}.",
        )
    try:
        with opened_file(homes, task.user, f"{folder.path}/{LOG}") as fd:
            return _read(fd, attempt, tail)
    except (FileMissing, HomeMissing):
        raise _missing(attempt) from None
    except (NotAFile, PathRefused) as error:
        raise LogMissing(f"Something else stands where the log should be: {error.message}", hint=error.hint) from None


def _chosen(task: Task, attempts: Sequence[Attempt], attempt_no: int | None) -> Attempt:
    if not attempts:
        why = "It never ran" if task.is_terminal else "It has not been submitted to Ray yet"
        raise LogMissing(f"{why}: there is no log.", hint="The task itself says what it waits for, or how it ended.")
    chosen = attempts[-1].attempt_no if attempt_no is None else attempt_no
    for attempt in attempts:
        if attempt.attempt_no == chosen:
            return attempt
    numbers = ", ".join(str(attempt.attempt_no) for attempt in attempts)
    raise LogMissing(f"There is no attempt {chosen}.", hint=f"The attempts of this task: {numbers}.")


def _missing(attempt: Attempt) -> LogMissing:
    if attempt.ended_at is None:
        return LogMissing(
            f"Attempt {attempt.attempt_no} has no log yet.", hint="It comes a few seconds after the program starts."
        )
    return LogMissing(
        f"Attempt {attempt.attempt_no} left no log.",
        hint="It ended before its program wrote anything, its node was lost, or the file was removed.",
    )


def _read(fd: int, attempt: Attempt, tail: int) -> LogView:
    """The last lines, however large the file is. A last line without an end counts as one."""
    size_bytes = os.fstat(fd).st_size
    start, data = size_bytes, b""
    while start > 0 and len(data) < MOST_BYTES and data.count(b"\n", 0, -1) < tail:
        begin = max(0, start - BLOCK_BYTES)
        data = os.pread(fd, start - begin, begin) + data
        start = begin
    lines = data.split(b"\n")
    ends_open = lines[-1] != b""
    kept = lines[-tail:] if ends_open else lines[-tail - 1 :]
    shown = b"\n".join(kept)
    count = len(kept) if ends_open else len(kept) - 1
    return LogView(attempt, shown, count, len(shown) == size_bytes, size_bytes)
