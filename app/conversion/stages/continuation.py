"""A stage whose process is killed in the middle of a search goes on in another process, from what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from app.kit.sandbox.errors import StageCrashed, StageOutOfMemory
from app.kit.sandbox.runner import Finished, Limits

CONTINUED_MOST = 3
"""A candidate that ends its process twice is left out, so the third process may end by another."""
RESULT = b'"value"'


class StageProcess(Protocol):
    """Runs the stage in a process of its own."""

    def __call__(self, *, limits: Limits) -> Finished:
        """See `Sandbox.run`."""


def run_with_continuation(run: StageProcess, limits: Limits, journal: Path, write: Callable[[bytes], None]) -> Finished:
    """Runs a stage, again as long as its process dies with something to go on from.

    Args:
        limits: of all processes together, as far as time is concerned.
        journal: what a search has measured.
        write: to the log.

    Raises:
        ModelmillError: What Sandbox.run raises.
    """
    begun = time.monotonic()
    for _ in range(CONTINUED_MOST):
        try:
            return run(limits=limits)
        except (StageCrashed, StageOutOfMemory) as error:
            count = _count_results(journal)
            if not count:
                raise
            text = f"the process of the search has ended ({error.message}); another goes on after {count} measurements"
            write(f"{text}\n".encode())
            limits = replace(limits, used_s=time.monotonic() - begun)
    return run(limits=limits)


def _count_results(journal: Path) -> int:
    """Returns how many results a journal has. The process that wrote it may have run anything, so nothing else is read
    from it."""
    return journal.read_bytes().count(RESULT) if journal.is_file() and not journal.is_symlink() else 0
