"""Which processes an installation has, which queues each serves, and how it is started: one table.

`modelmill up` starts these; systemd's units, Compose's services and Kubernetes' manifests are checked against the table
(tests/deploy).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.kit.queue.messages import Queue

STAGES = (Queue.ONNX, Queue.BIE, Queue.NEF)
"""A worker serves one of these, one job at a time."""


@dataclass(frozen=True)
class ProcessSpec:
    program: str
    """A command installed in the environment."""
    arguments: tuple[str, ...]
    queues: tuple[Queue, ...] = ()
    """Queues whose messages it runs."""

    threads: int = 0
    """Number of threads that run them."""

    @property
    def command(self) -> list[str]:
        """The command as an operator types it."""
        return [self.program, *self.arguments]


def _make_actors(*queues: Queue, threads: int) -> ProcessSpec:
    arguments = ("actors", "--queues", *(queue.value for queue in queues))
    return ProcessSpec("dramatiq", (*arguments, "--processes", "1", "--threads", str(threads)), queues, threads)


WEB = ProcessSpec("uvicorn", ("app.main:create_app", "--factory", "--no-server-header"))
"""Started with further arguments for its address and its end."""
SCHEDULER = _make_actors(Queue.DONE, Queue.PERIODIC, threads=2)
CONTROLLER = _make_actors(
    Queue.JOINT,
    Queue.NODES,
    Queue.JOINT_CALIBRATION,
    Queue.VIDEO,
    Queue.VIDEO_PLANS,
    Queue.NOTIFICATIONS,
    Queue.SWEEPS,
    Queue.EXCHANGE,
    threads=8,
)
TRAINING = _make_actors(Queue.TRAINING, Queue.TRAINING_RESULTS, threads=2)
"""Only with a Ray cluster."""
WORKERS = {stage: _make_actors(stage, threads=1) for stage in STAGES}
PULSE = ProcessSpec("periodiq", ("actors",))
SFTP = ProcessSpec("modelmill", ("sftp",))
"""Only with the built-in SFTP server."""

PROCESSES = {
    "web": WEB,
    "scheduler": SCHEDULER,
    "controller": CONTROLLER,
    "training": TRAINING,
    **{stage.value: worker for stage, worker in WORKERS.items()},
    "pulse": PULSE,
    "sftp": SFTP,
}
"""By the names in deployment files."""
