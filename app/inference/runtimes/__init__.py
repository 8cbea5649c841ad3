"""Runtimes for models: onnxruntime, or a Kneron NPU. Selects one, and reports if it differs from the requested one."""

from __future__ import annotations

from pathlib import Path

from app.inference.errors import ModelUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.predictor_options import ExecutionProvider
from app.inference.runtimes.base import Runtime, Tensor
from app.inference.runtimes.host import open_host_nef, open_onnx

KNERON = "kneron"
SIMULATED = "a BIE of the vendor's toolchain runs in its simulator only"


INT8_ON_CPU = "models in int8 of the host toolchain run on the CPU, for which they are made"


def open_runtime(card: ModelCard, path: Path, twin: Path | None, threads: int, provider: ExecutionProvider) -> Runtime:
    """Open a model, or its ONNX twin if this node cannot run it; `why` of the runtime then has the reason.

    Args:
        twin: None if there is none.
        threads: of onnxruntime.
        provider: the chosen one of onnxruntime.

    Raises:
        ModelUnusable: The file is damaged, or only the twin could run and there is none.
    """
    if card.format is Format.ONNX:
        return open_onnx(path, threads, form="onnx", provider=provider)
    if card.toolchain != KNERON:
        is_chosen = provider in (ExecutionProvider.AUTO, ExecutionProvider.CPU)
        why = "" if is_chosen else INT8_ON_CPU
        if card.format is Format.BIE:
            return open_onnx(path, threads, form="bie", why=why)
        return open_host_nef(path, threads, why=why)
    if card.format is Format.BIE:
        return _open_twin(card, twin, threads, provider, SIMULATED)
    from app.inference.runtimes.kneron import NoNpu, open_npu

    try:
        return open_npu(path)
    except NoNpu as missing:
        return _open_twin(card, twin, threads, provider, str(missing))


def _open_twin(card: ModelCard, twin: Path | None, threads: int, provider: ExecutionProvider, why: str) -> Runtime:
    if twin is None:
        raise ModelUnusable(
            f"{card.name} cannot run here: {why}",
            hint="Choose a node that can run it, or a model that knows the ONNX it was made of.",
        )
    return open_onnx(twin, threads, form="ONNX twin", why=why, provider=provider)
