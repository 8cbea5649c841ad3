"""Training: the Ray cluster, and in which order it gets tasks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from app.settings.group import SettingsGroup


class TrainingSettings(SettingsGroup):
    """Training: the Ray cluster, and in which order it gets tasks."""

    ray_address: str = ""
    """Job server of the Ray cluster that trains, http://host:8265; empty: this installation trains nothing."""
    ray_gcs_address: str = ""
    """host:port of the cluster's GCS; default: port 6379 of the host of ray_address."""
    ray_token: SecretStr = SecretStr("")
    """Token of a cluster with RAY_AUTH_MODE=token."""
    ray_homes_root: str = ""
    """Where the nodes of the cluster see the root of the data homes; default: where this host does."""
    ray_worker_resource: str = "worker_node"
    """Custom resource that the nodes have on which training may run; the head has none of it."""
    ray_python: str = "python3"
    """Interpreter of the programs on the nodes of the cluster."""
    task_prefix: str = Field(default="mvp2", pattern=r"^[a-z][a-z0-9]{0,11}$")
    """What the ids of training tasks begin with."""
    training_tick_s: float = Field(default=5, gt=0, le=50)
    """How often the training scheduler looks at Ray and at the queue, when nothing wakes it."""
    training_retry_interval_s: int = Field(default=60, ge=0)
    """So long after a failure for lack of resources a task is tried again."""
    training_retry_most_s: int = Field(default=86400, ge=0)
    """A task that failed so for this long, counted from the first such attempt in a row, stays failed."""
    training_max_running_tasks: int = Field(default=0, ge=0)
    """How many tasks Ray may have at once; 0: as many as there is room for."""
    training_queue: Literal["fifo", "priority", "fair"] = "fifo"
    """In which order tasks are considered: first come, first served; by priority; or by fair shares of the GPUs."""
    training_backfill: bool = False
    """Later tasks go ahead of the first that must wait, as far as time limits (max_run_s) show that they do not delay
    it."""
    training_max_idle_s: int = Field(default=0, ge=0)
    """After so many seconds without a line of log or a figure a task is stopped, unless it says how long itself
    (max_idle_s); 0: never."""
    training_max_gpus_per_user: int = Field(default=0, ge=0)
    """How many GPUs the running tasks of a user may hold; 0: any number."""
    training_shares: str = ""
    """Weights of users for fair shares, as alice=2 bob=0.5; 1 of who is not named."""
    training_trackers: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Where verl sends its figures besides the task's page: mlflow to the server of MODELMILL_MLFLOW_TRACKING_URI. The
    nodes of the cluster have the packages, and the keys (WANDB_API_KEY, MLFLOW_TRACKING_TOKEN)."""
    max_unended_tasks_per_user: int = Field(default=200, gt=0)
    """How many training tasks of a user may be waiting or running; more are refused until one has ended."""
