"""Hard-example algorithms by name, including custom ones by the entry point `modelmill.hard_examples`."""

from __future__ import annotations

from app.joint_inference.hard_examples.base import (
    Algorithm,
    BadParameter,
    HardExampleAlgorithm,
    Parameter,
    UnknownAlgorithm,
    Verdict,
)
from app.joint_inference.hard_examples.registry import GROUP, AlgorithmEntry, load_algorithms, make, needs_prediction

__all__ = [
    "GROUP",
    "Algorithm",
    "AlgorithmEntry",
    "BadParameter",
    "HardExampleAlgorithm",
    "Parameter",
    "UnknownAlgorithm",
    "Verdict",
    "load_algorithms",
    "make",
    "needs_prediction",
]
