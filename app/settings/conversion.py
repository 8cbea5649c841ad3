"""Conversion: toolchains, limits of stages, workers."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

from pydantic import Field

from app.settings.group import GIB, MIB, SettingsGroup
from app.toolchain_names import ToolchainName


class ConversionSettings(SettingsGroup):
    """Conversion: toolchains, limits of stages, workers."""

    toolchains: tuple[ToolchainName, ...] = (ToolchainName.HOST,)
    """Toolchains that this installation offers, as JSON: ["host", "kneron"]."""
    kneron_python: Path = Path("/workspace/miniconda/envs/onnx1.13/bin/python")
    """The vendor's Python interpreter on the workers."""
    max_active_jobs: int = Field(default=1000, gt=0)
    """Maximum number of queued and running jobs; more are refused."""
    max_active_jobs_per_user: int = Field(default=200, gt=0)
    """The same limit per user."""
    stage_memory_bytes: int = Field(default=8 * GIB, gt=0)
    """Memory limit of a stage, over all its processes."""
    stage_disk_bytes: int = Field(default=0, ge=0)
    """Maximum size of what a stage adds to its work folder; 0: 4 GiB and 20 times its inputs, but at most half of the
    free space."""
    stage_threads: int = Field(default=0, ge=0)
    """CPU threads of a stage; 0: all cores."""
    onnx_time_s: float = Field(default=600, gt=0)
    """Base time limit of the ONNX stage; onnx_time_s_per_mib is added to it."""
    onnx_time_s_per_mib: float = Field(default=5, ge=0)
    """Addition to the time limit of the ONNX stage for each MiB of the model."""
    bie_time_s: float = Field(default=4 * 3600, gt=0)
    """Time limit of the BIE stage."""
    nef_time_s: float = Field(default=3600, gt=0)
    """Time limit of the NEF stage."""
    max_artifact_bytes: int = Field(default=8 * GIB, gt=0)
    """Maximum size of a file that a stage creates; a larger one fails the stage."""
    log_bytes: int = Field(default=64 * MIB, ge=1024)
    """Maximum size of a stage's log; the rest is dropped and counted."""
    live_log_bytes: int = Field(default=1 * MIB, ge=1024)
    """How much of a running stage's log is kept in Redis for live viewing."""
    sandbox_idle_s: float = Field(default=0, ge=0)
    """Idle time after which the processes that hold the toolchains' libraries end and release their memory; the
    next stage then waits a second or two for them. 0: they are loaded at start and stay. `modelmill up` sets
    60."""
    worker_ttl_s: int = Field(default=20, ge=2)
    """A worker without a heartbeat for this long is considered lost."""
    shutdown_grace_s: float = Field(default=5, ge=0)
    """How long a worker that is told to stop may continue its current stage; then the job fails. The process
    manager must wait ten seconds longer before it kills a worker."""

    @property
    def threads(self) -> int:
        return self.stage_threads or len(os.sched_getaffinity(0))

    def stage_time_s(self, step: str, model_bytes: int) -> float:
        onnx_s = ceil(self.onnx_time_s + self.onnx_time_s_per_mib * model_bytes / MIB)
        return {"onnx": onnx_s, "bie": self.bie_time_s, "nef": self.nef_time_s}[step]
