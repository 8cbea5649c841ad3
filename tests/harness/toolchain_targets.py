"""Whole conversions inside one run of the sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains.base import Progress
from app.kit.sandbox.runner import Limits, Sandbox
from tests.standins import kneron


def convert(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """request: {toolchain}. All three stages of a small model."""
    from app.conversion.toolchains.host.toolchain import HostToolchain

    folder = Path.cwd()
    if request["toolchain"] == "kneron":
        libraries = [entry for entry in sys.path if entry.endswith("-packages")]
        tool = kneron.toolchain(folder, pythonpath=os.pathsep.join([str(kneron.PACKAGE), *libraries]))
        result = kneron.job(folder).until(Stage.NEF, tool)
    else:
        result = kneron.Job(folder, kneron.model(), Options()).until(Stage.NEF, HostToolchain())  # type: ignore[arg-type]
    return {"size_bytes": result.output.stat().st_size, "user": os.geteuid()}


def in_sandbox(toolchain: str, work: Path) -> dict[str, Any]:
    sandbox = Sandbox()
    try:
        limits = Limits(memory_bytes=2 << 30, time_s=120, threads=1)
        target = f"{convert.__module__}:{convert.__name__}"
        return sandbox.run(target, {"toolchain": toolchain}, work_dir=work, limits=limits).result
    finally:
        sandbox.close()
