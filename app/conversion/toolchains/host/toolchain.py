"""The stages of the host toolchain. It must not import the heavy libraries before a stage runs."""

from __future__ import annotations

from app.conversion.model import Stage
from app.conversion.options import ToolchainName
from app.conversion.toolchains.base import Progress, StageRequest, StageResult
from app.conversion.toolchains.budget import LARGE_BYTES
from app.kit.process.own_process import return_freed_blocks

BLOCK_BYTES = 2 << 20
"""Of a weight that goes back to the system when it is freed. Smaller ones too took as much memory and more CPU time."""


class HostToolchain:
    """Implements toolchains.base for the host toolchain."""

    name = ToolchainName.HOST

    def run(self, request: StageRequest, progress: Progress) -> StageResult:
        if request.input().stat().st_size > LARGE_BYTES:
            return_freed_blocks(BLOCK_BYTES)  # weights: a stage opens several sessions, one after the other
        if request.stage is Stage.ONNX:
            from app.conversion.toolchains.host.onnx_stage import run_onnx_stage

            return run_onnx_stage(request, progress)
        if request.stage is Stage.BIE:
            from app.conversion.toolchains.host.bie_stage import run_bie_stage

            return run_bie_stage(request, progress)
        from app.conversion.toolchains.host.nef_stage import run_nef_stage

        return run_nef_stage(request, progress)
