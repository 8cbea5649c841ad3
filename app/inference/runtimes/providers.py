"""Execution providers of onnxruntime: which are tried for a model, and which one really runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.inference.predictor_options import ExecutionProvider
from app.inference.runtimes.sessions import Session, open_session
from app.kit.errors import ModelmillError

CPU = "CPUExecutionProvider"
NAMES = {
    ExecutionProvider.TENSORRT: "TensorrtExecutionProvider",
    ExecutionProvider.CUDA: "CUDAExecutionProvider",
    ExecutionProvider.QNN: "QNNExecutionProvider",
    ExecutionProvider.COREML: "CoreMLExecutionProvider",
    ExecutionProvider.OPENVINO: "OpenVINOExecutionProvider",
    ExecutionProvider.CPU: CPU,
}
"""onnxruntime's names."""
AUTOMATIC = (
    ExecutionProvider.CUDA,
    ExecutionProvider.QNN,
    ExecutionProvider.COREML,
    ExecutionProvider.OPENVINO,
    ExecutionProvider.CPU,
)
"""Tried in this order. TensorRT is only used on request, since it takes minutes to build a model's engine."""
OPTIONS: dict[ExecutionProvider, dict[str, str]] = {
    ExecutionProvider.OPENVINO: {"precision": "ACCURACY"},  # the model's own, where the device would like bfloat16
    ExecutionProvider.QNN: {"backend_path": "libQnnHtp.so"},
}


@dataclass(frozen=True)
class OpenedSession:
    """An open model.

    Attributes:
        provider: that really runs it; what it cannot run, the CPU does.
        why: why that is not the chosen one; empty if it is.
    """

    session: Session
    provider: ExecutionProvider
    why: str = ""


def open_by(model: Path, threads: int, chosen: ExecutionProvider) -> OpenedSession:
    """Opens a model with the chosen provider, or with the CPU where that cannot be used.

    Args:
        threads: of the CPU.
        chosen: AUTO: the first in AUTOMATIC that can.

    Raises:
        ModelmillError: The CPU cannot open it, either.
    """
    import onnxruntime as ort

    built = set(ort.get_available_providers())
    problems = []
    for provider in _list_candidates(chosen):
        if NAMES[provider] not in built:
            if chosen is not ExecutionProvider.AUTO:
                problems.append(f"the onnxruntime of this machine was built without {provider.display_name}")
            continue
        try:
            session = open_session(model, threads, "all", providers=_with_options(provider))
        except ModelmillError as error:
            if provider is ExecutionProvider.CPU:
                raise
            problems.append(f"{provider.display_name} cannot be used: {error.message}")
            continue
        if session.get_providers()[0] == NAMES[provider]:
            return OpenedSession(session, provider, "; ".join(problems))
        problems.append(f"{provider.display_name} cannot be used: its device or its libraries are missing")
    return OpenedSession(open_session(model, threads, "all"), ExecutionProvider.CPU, "; ".join(problems))


def _list_candidates(chosen: ExecutionProvider) -> tuple[ExecutionProvider, ...]:
    if chosen is ExecutionProvider.AUTO:
        return AUTOMATIC
    return (chosen, ExecutionProvider.CPU) if chosen is not ExecutionProvider.CPU else (chosen,)


def _with_options(provider: ExecutionProvider) -> list[Any]:
    """Returns it with its options; the CPU runs what it leaves."""
    own = (NAMES[provider], OPTIONS[provider]) if provider in OPTIONS else NAMES[provider]
    return [own] if provider is ExecutionProvider.CPU else [own, CPU]
