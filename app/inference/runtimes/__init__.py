"""Runtimes for models: onnxruntime, or a Kneron NPU. Selects one, and reports if it differs from the requested one."""

from __future__ import annotations

from pathlib import Path

from app.inference.errors import ModelUnusable
from app.inference.prediction import Format, ModelCard
from app.inference.runtimes.base import Runtime, Tensor
from app.inference.runtimes.host import open_host_nef, open_onnx

KNERON = "kneron"
SIMULATED = "a BIE of the vendor's toolchain runs in its simulator only"


def open_runtime(card: ModelCard, path: Path, twin: Path | None, threads: int) -> Runtime:
    """Open a model, or its ONNX twin if this node cannot run it; `why` of the runtime then has the reason.

    Args:
        twin: None if there is none.
        threads: of onnxruntime.

    Raises:
        ModelUnusable: The file is damaged, or only the twin could run and there is none.
    """
    if card.format is Format.ONNX:
        return open_onnx(path, threads, form="onnx")
    if card.toolchain != KNERON:
        return open_onnx(path, threads, form="bie") if card.format is Format.BIE else open_host_nef(path, threads)
    if card.format is Format.BIE:
        return _twin(card, twin, threads, SIMULATED)
    from app.inference.runtimes.kneron import NoNpu, open_npu

    try:
        return open_npu(path)
    except NoNpu as missing:
        return _twin(card, twin, threads, str(missing))


def _twin(card: ModelCard, twin: Path | None, threads: int, why: str) -> Runtime:
    if twin is None:
        raise ModelUnusable(
            f"{card.name} cannot run here: {why}",
            hint="Choose a node that can run it, or a model that knows the ONNX it was made of.",
        )
    return open_onnx(twin, threads, form="ONNX twin", why=why)
