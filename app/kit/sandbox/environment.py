"""The environment of what the sandbox starts: whoever wrote a model must not find the installation's keys there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|"
    r"(CUDA|NVIDIA|OMP|MKL|OPENBLAS|MALLOC|CONDA|KNERON|KTC)_[A-Z0-9_]+"
)
"""All that a child gets of ours."""
ADDED = {
    # A stage allocates the same tensors over and over: glibc keeps them rather than give each back to the kernel.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}
PROGRAM = str(Path(__file__).parents[3])
"""Where `app` lies: named, because the folder that a worker was started in may be anybody's."""


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: value for name, value in ours.items() if PASSED_ON.fullmatch(name)}
    path = os.pathsep.join(filter(None, (PROGRAM, passed_on.get("PYTHONPATH"))))
    return {**passed_on, **ADDED, "PYTHONPATH": path}
