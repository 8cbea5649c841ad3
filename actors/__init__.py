"""What Dramatiq runs: `dramatiq actors --queues bie --processes 1 --threads 1`. Thin: a decorator, then one call.

Importing this package sets the broker and declares every actor; which of them a process runs is the operator's
--queues.
"""

from actors import (
    calibration,
    conversion,
    homes,
    joint_inference,
    nodes,
    periodic,
    scheduler,
    training,
    video,
)
from actors.process import container, life

__all__ = [
    "calibration",
    "container",
    "conversion",
    "homes",
    "joint_inference",
    "life",
    "nodes",
    "periodic",
    "scheduler",
    "training",
    "video",
]
