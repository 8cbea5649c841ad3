"""How much a node's processors and memory are used, whoever uses them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "node/"
"""What the names of a task's metrics about its nodes begin with."""
GIB = 1 << 30


@dataclass(frozen=True)
class NodeUse:
    """Of a node as a whole. Memory in bytes."""

    cpu_percent: float
    memory: int
    total_memory: int
    gpu_percent: float | None = None
    """The mean of its GPUs; None: it has none, or they do not tell."""
    gpu_memory: int = 0
    """Of all its GPUs."""
    total_gpu_memory: int = 0


def use_metrics(uses: Mapping[str, NodeUse]) -> dict[str, float]:
    """As metrics of a task. uses: of its nodes by the name of the node."""
    figures: dict[str, float] = {}
    for node, use in uses.items():
        figures[f"{PREFIX}{node}/cpu_percent"] = round(use.cpu_percent, 1)
        figures[f"{PREFIX}{node}/memory_gib"] = round(use.memory / GIB, 3)
        if use.gpu_percent is not None:
            figures[f"{PREFIX}{node}/gpu_percent"] = round(use.gpu_percent, 1)
        if use.total_gpu_memory:
            figures[f"{PREFIX}{node}/gpu_memory_gib"] = round(use.gpu_memory / GIB, 3)
    return figures
