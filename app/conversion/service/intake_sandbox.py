"""Runs the checks of intake on files that may be hostile: in a child process, in a folder of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.kit.errors import BadInput
from app.kit.sandbox.errors import StageCrashed, StageOutOfDisk, StageOutOfMemory, StageTimedOut
from app.kit.sandbox.leftovers import remove_tree
from app.kit.sandbox.runner import Limits, Sandbox
from app.settings import Settings

ABORTS = (StageCrashed, StageOutOfDisk, StageOutOfMemory, StageTimedOut)
"""Ways in which a check ends without a result: the file may still be valid."""


class IntakeSandbox:
    def __init__(self, settings: Settings, sandbox: Sandbox) -> None:
        self.settings = settings
        self.sandbox = sandbox

    @contextmanager
    def folder(self, prefix: str) -> Iterator[Path]:
        """Creates a work folder for one check, which is removed afterwards with its content.

        Args:
            prefix: The prefix of its name, which shows operators its purpose.
        """
        self.settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.settings.work))
        try:
            yield folder
        finally:
            remove_tree(folder)

    def run(
        self,
        target: str,
        request: dict[str, Any],
        folder: Path,
        *,
        memory_bytes: int | None = None,
        time_s: float | None = None,
    ) -> dict[str, Any]:
        """Calls a function of intake in a child process.

        Args:
            target: `package.module:function`.
            request: The function's argument; plain data.
            folder: Where the child may write: one of `folder`.
            memory_bytes: A limit below that of the settings.
            time_s: A limit below that of the settings.

        Returns:
            The function's result.

        Raises:
            StageFailed: One of ABORTS, or the error of the function.
        """
        settings = self.settings
        limits = Limits(
            min(memory_bytes or settings.intake_memory_bytes, settings.intake_memory_bytes),
            min(time_s or settings.intake_time_s, settings.intake_time_s),
            1,
        )
        return self.sandbox.run(target, request, work_dir=folder, limits=limits).result


@contextmanager
def aborts_refused(failure: str, *, hint: str) -> Iterator[None]:
    """Converts an aborted check into BadInput.

    Args:
        failure: The message without the reason: "The model could not be checked".
        hint: What the user can do.
    """
    try:
        yield
    except ABORTS as error:
        raise BadInput(f"{failure}: {error.message}.", hint=hint, detail={"cause": error.code}) from error
