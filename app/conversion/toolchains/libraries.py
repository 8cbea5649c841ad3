"""Modules that a fork server loads once, so that no run of its children waits for them: by the work of the children.

Only these, because each costs its server memory and a worker time to start: the simplifier of the ONNX stage alone
takes as long to load as all others together.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.conversion.model import Stage

CHECKS = (
    "numpy",
    "numpy.ma",
    "msgspec",
    "onnx",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "app.conversion.intake.submission",
)
_STAGES = {
    Stage.ONNX: ("onnxruntime", "onnxslim", "app.conversion.toolchains.host.onnx_stage"),
    Stage.BIE: ("numpy.random", "onnxruntime", "onnxruntime.quantization", "app.conversion.toolchains.host.bie_stage"),
    Stage.NEF: ("onnxruntime", "app.conversion.toolchains.host.nef_stage"),
}


def of_stages(stages: Iterable[Stage]) -> tuple[str, ...]:
    """For a worker of these stages."""
    modules = [module for stage in stages for module in _STAGES[stage]]
    own = ("app.conversion.stages.child", "app.conversion.toolchains.host.toolchain")
    return (*CHECKS, *own, *dict.fromkeys(modules))
