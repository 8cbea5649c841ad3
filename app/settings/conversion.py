"""Conversion: toolchains, what a stage may use, and the workers."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

from pydantic import Field

from app.settings.group import GIB, MIB, SettingsGroup
from app.toolchain_names import ToolchainName


class ConversionSettings(SettingsGroup):
    """Conversion: toolchains, what a stage may use, and the workers."""

    toolchains: tuple[ToolchainName, ...] = (ToolchainName.HOST,)
    """What this installation offers, as JSON: ["host", "kneron"]."""
    kneron_python: Path = Path("/workspace/miniconda/envs/onnx1.13/bin/python")
    """The vendor's interpreter on the workers."""
    max_active_jobs: int = Field(default=1000, gt=0)
    """How many jobs may be waiting or running at once; more are refused until one has ended."""
    max_active_jobs_per_user: int = Field(default=200, gt=0)
    """The same for each user."""
    stage_memory_bytes: int = Field(default=8 * GIB, gt=0)
    """Memory a stage may use, over all its processes."""
    stage_threads: int = Field(default=0, ge=0)
    """CPU threads a stage may use; 0: all cores."""
    onnx_time_s: float = Field(default=600, gt=0)
    """Time limit of the ONNX stage, to which comes its time per MiB of the model."""
    onnx_time_s_per_mib: float = Field(default=5, ge=0)
    """What each MiB of the model adds to the time limit of the ONNX stage."""
    bie_time_s: float = Field(default=4 * 3600, gt=0)
    """Time limit of the BIE stage."""
    nef_time_s: float = Field(default=3600, gt=0)
    """Time limit of the NEF stage."""
    max_artifact_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of a file that a stage makes; a larger one fails the stage."""
    log_bytes: int = Field(default=64 * MIB, ge=1024)
    """Size of one stage's log; what goes beyond is dropped and counted."""
    live_log_bytes: int = Field(default=1 * MIB, ge=1024)
    """How much of a running stage's log is kept in Redis for live viewing."""
    sandbox_idle_s: float = Field(default=0, ge=0)
    """After so long without work the processes that keep the toolchains' libraries loaded end and give their memory
    back; the next work then waits a second or two for them. 0: they are loaded at the start and stay. `modelmill up`
    sets 60."""
    worker_ttl_s: int = Field(default=20, ge=2)
    """A worker that was silent for this long is lost."""
    shutdown_grace_s: float = Field(default=5, ge=0)
    """How long a worker told to end may go on with the stage in hand; then the job fails. What starts the workers must
    wait ten seconds longer before it kills them."""

    @property
    def threads(self) -> int:
        return self.stage_threads or len(os.sched_getaffinity(0))

    def stage_time_s(self, step: str, model_bytes: int) -> float:
        onnx_s = ceil(self.onnx_time_s + self.onnx_time_s_per_mib * model_bytes / MIB)
        return {"onnx": onnx_s, "bie": self.bie_time_s, "nef": self.nef_time_s}[step]
