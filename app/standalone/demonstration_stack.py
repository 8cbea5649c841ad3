"""The stack of a demonstration, in a folder of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from app.standalone.data_folder import DataFolder
from app.standalone.launch import Stack
from app.standalone.ports import LOOPBACK
from app.standalone.processes import STAGES
from app.standalone.stack import Plan, open_stack
from app.standalone.supervisor import Notice

PREFIX = "MODELMILL_"
GRACE_S = 10.0


@contextmanager
def demonstration_stack(
    port: int, folder: Path, notice: Notice, *, is_kept: bool, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Stack]:
    """Web and scheduler until the block ends, without workers.

    Args:
        port: of the web; 0: any that is free.
        folder: of everything.
        notice: called with what happens to the processes.
        is_kept: the folder stays.
        settings: of the web and the scheduler: name of a variable → value.

    Raises:
        CannotStart: The port is taken, or a process did not start.
    """
    clear_settings()
    os.environ.update(settings)
    workers = dict.fromkeys((stage.value for stage in STAGES), 0)
    try:
        with open_stack(
            Plan(DataFolder(folder / "data", folder / "run"), LOOPBACK, port, workers, GRACE_S), notice
        ) as stack:
            yield stack
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def clear_settings() -> None:
    """Removes the settings of another installation from the environment, so that neither its database nor its store is
    used. A demonstration has no SFTP."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ[f"{PREFIX}SFTP"] = "off"
