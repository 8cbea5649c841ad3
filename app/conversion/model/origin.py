"""The forms of a job's origin that are no URI."""

from __future__ import annotations

TASK = "task:"
"""Before the id of the training task that made the model."""
SWEEP = "sweep:"
"""Before the id of the sweep that submitted an older job, which says nothing of its model."""


def model_origin(origin: str) -> str:
    """Returns where the model of a job with this origin came from; empty if it does not say that."""
    return "" if origin.startswith(SWEEP) else origin


def sweep_of(origin: str) -> str:
    """Returns the id of the sweep that submitted a job with this origin; empty if it does not say that."""
    return origin.removeprefix(SWEEP) if origin.startswith(SWEEP) else ""
