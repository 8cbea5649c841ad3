"""The log files of workers. Worker processes write them themselves, so that they do not depend on the agent."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from app.kit.files.private_folders import make_private
from app.nodes.model import MAX_LOG_LINES, Order

MOST_BYTES = 5 << 20
LINE_LENGTH = 300
TAIL_BYTES = 64 << 10
_BLANK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


def log_path(folder: Path, order: Order) -> Path:
    """Where a worker logs. The id in the name tells services of one name apart, which may be different users'."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{order.key.part}-{order.name}-{order.key.uid[:8]}")
    return make_private(folder) / f"{name}.log"


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def rotate(log: Path) -> bool:
    """Copy and truncate a log that has become long; its process appends, and so continues at the beginning.

    Returns whether it was truncated.
    """
    if size_of(log) <= MOST_BYTES:
        return False
    with contextlib.suppress(OSError):  # a full disk: then without a copy
        shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def last_lines(log: Path, start: int = 0) -> tuple[str, ...]:
    """The last lines written after byte `start`; of a log that was rotated since, after its beginning."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start if start <= size else 0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [_BLANK.sub(" ", line).rstrip()[:LINE_LENGTH] for line in text.splitlines()]
    return tuple([line for line in lines if line][-MAX_LOG_LINES:])


def delete(log: Path) -> None:
    for file in (log, log.with_name(log.name + ".1")):
        file.unlink(missing_ok=True)
