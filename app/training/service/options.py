"""The installation's options for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.training.model import Priority
from app.training.model.queue_order import QueuePolicy


@dataclass(frozen=True)
class TrainingOptions:
    """What the installation says about training: see the settings of the same names."""

    is_on: bool
    """Whether there is a cluster."""
    homes_root: str
    """Path on the nodes of the cluster."""
    clusters: tuple[str, ...] = ("main",)
    """Names, the default cluster first. In records "" is the default cluster."""
    worker_resource: str = "worker_node"
    python: str = "python3"
    task_prefix: str = "mvp2"
    retry_interval_s: int = 60
    retry_most_s: int = 86400
    max_running_tasks: int = 0
    max_unended_per_user: int = 200
    queue: QueuePolicy = QueuePolicy.FIFO
    does_backfill: bool = False
    max_idle_s: int | None = None
    """For tasks without their own; None: no limit."""
    trackers: tuple[str, ...] = ()
    """Loggers of verl in addition to those of the task's page."""
    mlflow_uri: str = ""
    """The server of the tracker mlflow; "": the nodes are configured."""
    awaited_resources: tuple[str, ...] = ()
    """Custom resources of nodes that may join later."""
    preempted: tuple[Priority, ...] = ()
    """Priorities whose tasks make room for more urgent ones."""
    preemption_grace_s: int = 600
    """How long a task that is preempted may run until its next checkpoint."""
    most_gpus_per_user: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of users for fair shares; 1 for users that are absent."""

    @property
    def noted_clusters(self) -> Sequence[str]:
        """As records name them."""
        return ("", *self.clusters[1:])

    def shown(self, cluster: str) -> str:
        """The name of a cluster, from how records name it."""
        return cluster or self.clusters[0]
