"""The log of an attempt, as far as it was copied: its last lines, or the last of those that a reader looks for."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.homes.errors import FileMissing, HomeMissing, NotAFile, PathRefused
from app.homes.service import Homes
from app.training.errors import LogMissing
from app.training.model import Attempt, Task
from app.training.model.log_excerpt import ESCAPE, process_of
from app.training.service.folders import folders_of, open_file
from app.training.service.views import LogView

LOG = "driver.log"
DROPPED = "[modelmill: {}, for the log is longer than {} bytes]\n"
"""The first line of a log of which the end alone was kept."""
BLOCK_BYTES = 64 << 10
SEARCHED_BYTES = 4 << 20
"""Read at once where lines are looked for."""
MOST_BYTES = 8 << 20
"""What a program writes without ends of lines is cut here."""
MOST_PROCESSES = 200
_DROPPED = re.compile(re.escape(DROPPED.encode()).replace(rb"\{\}", rb"[^\n]{1,100}"))


@dataclass(frozen=True)
class LineFilter:
    """Which lines of a log are shown. Colors are ignored."""

    text: str = ""
    """What they contain, in small or capital letters; "": anything."""
    process: str = ""
    """Which process wrote them, as `process_of` names it; "": any."""

    def __bool__(self) -> bool:
        return bool(self.text or self.process)

    def passes(self, line: str, process: str) -> bool:
        """line: without colors."""
        return (not self.process or process == self.process) and self.text.lower() in line.lower()


ANY_LINE = LineFilter()


def log_of(
    homes: Homes,
    task: Task,
    attempts: Sequence[Attempt],
    *,
    attempt_no: int | None = None,
    tail: int,
    lines: LineFilter = ANY_LINE,
) -> LogView:
    """The log of an attempt.

    Args:
        attempts: all of the task.
        attempt_no: None: the last.
        tail: how many of its last lines.
        lines: which of them count.

    Raises:
        LogMissing: There is none (yet, or any more), or the task has no such attempt.
    """
    attempt = _choose_attempt(task, attempts, attempt_no)
    folder = folders_of(homes, task.user, [attempt]).get(attempt.attempt_no)
    if folder is None:
        raise _make_missing(attempt)
    if not folder.path:
        raise LogMissing(
            f"The folder of attempt {attempt.attempt_no} is gone, and its log with it.",
            hint=f"The folders of jobs are deleted some days after their end, this one by {folder.purge_at:%Y-%m-%d}.",
        )
    try:
        with open_file(homes, task.user, f"{folder.path}/{LOG}") as fd:
            return _search(fd, attempt, tail, lines) if lines else _read(fd, attempt, tail)
    except (FileMissing, HomeMissing):
        raise _make_missing(attempt) from None
    except (NotAFile, PathRefused) as error:
        raise LogMissing(f"Something else stands where the log should be: {error.message}", hint=error.hint) from None


def _choose_attempt(task: Task, attempts: Sequence[Attempt], attempt_no: int | None) -> Attempt:
    if not attempts:
        why = "It never ran" if task.is_terminal else "It has not been submitted to Ray yet"
        raise LogMissing(f"{why}: there is no log.", hint="The task itself says what it waits for, or how it ended.")
    chosen = attempts[-1].attempt_no if attempt_no is None else attempt_no
    for attempt in attempts:
        if attempt.attempt_no == chosen:
            return attempt
    numbers = ", ".join(str(attempt.attempt_no) for attempt in attempts)
    raise LogMissing(f"There is no attempt {chosen}.", hint=f"The attempts of this task: {numbers}.")


def _make_missing(attempt: Attempt) -> LogMissing:
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
    last = lines[-tail:] if ends_open else lines[-tail - 1 :]
    shown = b"\n".join(last)
    count = len(last) if ends_open else len(last) - 1
    processes = dict.fromkeys(process_of(line) for line in _split_plain(shown))
    return LogView(
        attempt, shown, count, len(shown) == size_bytes, size_bytes, _list_names(processes), is_cut=_is_cut(fd)
    )


def _search(fd: int, attempt: Attempt, tail: int, lines: LineFilter) -> LogView:
    """The last lines of the whole file that pass, and every process that wrote into it."""
    passed: deque[bytes] = deque(maxlen=tail)
    processes: dict[str, None] = {}
    for block in _iterate_blocks(fd):
        for line, plain in zip(block.split(b"\n"), _split_plain(block), strict=True):
            process = process_of(plain)
            processes[process] = None
            if lines.passes(plain, process):
                passed.append(line)
    shown = b"".join(line + b"\n" for line in passed)
    size_bytes = os.fstat(fd).st_size
    return LogView(attempt, shown, len(passed), False, size_bytes, _list_names(processes), is_cut=_is_cut(fd))


def _iterate_blocks(fd: int) -> Iterator[bytes]:
    """The file in pieces that end where a line does, without that end."""
    offset, rest = 0, b""
    while data := os.pread(fd, SEARCHED_BYTES, offset):
        offset += len(data)
        block, end, rest = (rest + data).rpartition(b"\n")
        if end:
            yield block
        elif len(rest) > MOST_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def _split_plain(data: bytes) -> list[str]:
    return ESCAPE.sub("", data.decode("utf-8", "replace")).split("\n")


def _list_names(processes: dict[str, None]) -> tuple[str, ...]:
    return tuple(sorted(process for process in processes if process)[:MOST_PROCESSES])


def _is_cut(fd: int) -> bool:
    return _DROPPED.match(os.pread(fd, 200, 0)) is not None
