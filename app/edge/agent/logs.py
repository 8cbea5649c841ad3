"""The log files of workers, which their processes write themselves, so that they need no agent to go on."""

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


def log_of(folder: Path, order: Order) -> Path:
    """The id tells services of one name apart, which may be different users'."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{order.key.part}-{order.name}-{order.key.uid[:8]}")
    return make_private(folder) / f"{name}.log"


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def rotate(log: Path) -> bool:
    """When it has become long: keep a copy of it and empty it. Its process appends, and so goes on at the beginning."""
    if size_of(log) <= MOST_BYTES:
        return False
    with contextlib.suppress(OSError):  # a full disk: then without a copy
        shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def last_lines(log: Path, start: int = 0) -> tuple[str, ...]:
    """The newest, of what was written from start on. One that was rotated since has them from its beginning."""
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
