"""The location of the vendor's toolchain on a machine, and the parts that a conversion uses. Light, because the worker
itself imports it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from app.kit.sandbox.paths import SHARED_MEMORY, SandboxPaths

DEFAULT_PYTHON = Path("/workspace/miniconda/envs/onnx1.13/bin/python")
DEFAULT_SEARCH = (Path("/workspace/.tmp"), Path("/tmp"), Path("/data1/kneron_flow"))  # noqa: S108  # where old versions wrote
PYTHONPATH = Path("/workspace")
VERSION_FILE = PYTHONPATH / "version.txt"
LOCK = Path("/tmp/modelmill-kneron.lock")  # noqa: S108  # one for the machine: opened without following links
NAMES = re.compile(r"(KNERON|KTC|CONDA)_[A-Z0-9_]+")
"""Variables that name parts of an unusual installation."""


def places(python: Path) -> SandboxPaths:
    """Returns the paths that the vendor's process needs besides the job's folder. Creates the conversions' lock."""
    with contextlib.suppress(OSError):
        os.close(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    reads = [_find_prefix(python), _find_prefix(python.resolve()), PYTHONPATH, *_iterate_named()]
    return SandboxPaths(tuple(map(str, reads)), (), (*map(str, DEFAULT_SEARCH), str(LOCK), SHARED_MEMORY))


def _find_prefix(python: Path) -> Path:
    return python.parent.parent if python.parent.name == "bin" else python


def _iterate_named() -> Iterator[Path]:
    for name, value in os.environ.items():
        if NAMES.fullmatch(name) and Path(value).is_absolute():
            yield Path(value)
