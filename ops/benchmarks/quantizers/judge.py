"""The quality of a quantized model against its float model, on pictures that none of the tools has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from app.conversion.toolchains.host.quality import latency_ms, measure_outputs
from app.conversion.toolchains.host.task_recognition import task_meter
from app.inference.runtimes.sessions import open_session

QUANTIZED = frozenset({"QuantizeLinear", "QLinearConv", "QLinearMatMul", "QGemm"})
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Sample:
    name: str
    arrays: dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """The SNR of the worst output: its mean over the pictures, and the worst picture."""

    snr_db: float | None
    snr_min_db: float | None
    task: str
    """The name of the metric; empty if none is known."""
    agreement: float | None
    latency_ms: float | None
    size_bytes: int
    int8_share: float
    """The quantized share of the tensors that nodes make."""


def judge(float_path: Path, quantized_path: Path, samples: Sequence[Sample]) -> Judged:
    """Runs both models on all samples, in one thread. Raises the errors of opening the quantized model."""
    reference, quantized = open_session(float_path, 1), open_session(quantized_path, 1)
    model = onnx.load(float_path)
    meter = task_meter(model)
    statistics = measure_outputs(reference, quantized, samples, lambda *_: None, meter)
    task = meter.agreement() if meter else None
    return Judged(
        snr_db=statistics.worst_mean_snr_db,
        snr_min_db=statistics.worst_snr_db,
        task=task.kind if task else "",
        agreement=task.float_agreement if task else None,
        latency_ms=latency_ms(quantized, samples[:1]),
        size_bytes=quantized_path.stat().st_size,
        int8_share=int8_share(onnx.load(quantized_path)),
    )


def int8_share(model: onnx.ModelProto) -> float:
    """Returns the share of layers with weights whose input is quantized."""
    makers = {output: node for node in model.graph.node for output in node.output}
    layers = [node for node in model.graph.node if node.op_type in (*WEIGHTED, *QUANTIZED - {"QuantizeLinear"})]
    fed = [makers.get(node.input[0]) for node in layers]
    is_int8 = [
        node.op_type in QUANTIZED or (maker is not None and maker.op_type == "DequantizeLinear")
        for node, maker in zip(layers, fed, strict=True)
    ]
    return float(np.mean(is_int8)) if is_int8 else 0.0
