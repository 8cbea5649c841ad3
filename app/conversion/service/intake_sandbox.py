"""Runs the checks of intake on files that may be hostile: in a child process, in a folder of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from app.conversion import object_keys
from app.conversion.intake.entry_points import EntryPoint, PackedSamples, Request, Result
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

    def samples_in(self, folder: Path) -> PackedSamples:
        """Returns how the packed samples in a folder are unpacked there."""
        settings = self.settings
        return {
            "images": str(folder / object_keys.IMAGES),
            "unpack_to": str(folder / "unpacked"),
            "limits": {"max_images": settings.max_images, "unpacked_bytes": settings.max_unpacked_bytes},
        }

    def run(
        self,
        target: EntryPoint[Request, Result],
        request: Request,
        folder: Path,
        *,
        memory_bytes: int | None = None,
        time_s: float | None = None,
    ) -> Result:
        """Calls a function of intake in a child process.

        Args:
            target: The function.
            request: Its argument.
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
        return cast(Result, self.sandbox.run(target, dict(request), work_dir=folder, limits=limits).result)


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
