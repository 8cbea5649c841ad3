"""How much a run stores in its work folder, and how much it may store there.

The kernel limits single files (RLIMIT_FSIZE); the sum is measured while the run lasts. What a program writes to
a file that has no name any more counts, too, as long as it has the file open.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

BASE_BYTES = 4 << 30
PER_INPUT_BYTE = 20
"""A search keeps several candidates, each with copies of the model, and the pictures are stored as arrays."""
FREE_SHARE = 0.5
LEAST_BYTES = 64 << 20
"""Where less is free, the disk is as good as full, and its own error says so."""
BLOCK_BYTES = 512
UNMEASURABLE = sys.maxsize


def allowance(folder: Path, inputs_bytes: int) -> int:
    """Returns how many bytes a run may add to its work folder, which holds inputs of this size: 4 GiB and 20 times the
    inputs, but at most half of what is free on the disk, and at least 64 MiB."""
    by_inputs = BASE_BYTES + PER_INPUT_BYTE * inputs_bytes
    return int(max(LEAST_BYTES, min(by_inputs, FREE_SHARE * shutil.disk_usage(folder).free)))


def measure_stored(folder: str) -> int:
    """Returns the size of all files below a folder in bytes, as they occupy the disk. The folder may be changed by a
    hostile program meanwhile: if a part of it cannot be read, the size is UNMEASURABLE."""
    total, folders = 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            return UNMEASURABLE
    return total


def nameless(processes: Iterable[int]) -> int:
    """Returns the size in bytes of the removed files that these processes have open."""
    sizes = {}
    for process in processes:
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{process}/fd/{descriptor}")
                    if not status.st_nlink:
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
    return sum(sizes.values())
