"""Training: the Ray cluster, the queue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from app.settings.group import SettingsGroup

ANY = "any"
ClusterName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class RayClusterSettings(BaseModel):
    """A further Ray cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    address: str = Field(pattern=r"^https?://")
    gcs_address: str = ""
    """Default: port 6379 of the host of address."""
    token: str = ""
    """The name of a file in training_secrets; empty: it needs none."""
    homes_root: str = ""
    worker_resource: str = "worker_node"
    python: str = "python3"


class TrainingSettings(SettingsGroup):
    """Training: the Ray cluster, the queue."""

    ray_address: str = ""
    """Job server of the Ray cluster, http://host:8265; empty: training is off."""
    ray_gcs_address: str = ""
    """host:port of the cluster's GCS; default: port 6379 of the host of ray_address."""
    ray_token: SecretStr = SecretStr("")
    """Token of a cluster with RAY_AUTH_MODE=token."""
    ray_homes_root: str = ""
    """Path of the root of the data homes on the nodes of the cluster; default: the path on this host."""
    ray_worker_resource: str = "worker_node"
    """Custom resource of the nodes on which training may run; the head has none of it."""
    ray_python: str = "python3"
    """Python interpreter for programs on the nodes of the cluster."""
    task_prefix: str = Field(default="mvp2", pattern=r"^[a-z][a-z0-9]{0,11}$")
    """Prefix of the ids of training tasks."""
    training_tick_s: float = Field(default=5, gt=0, le=50)
    """How often the training scheduler checks Ray and the queue if nothing wakes it."""
    training_retry_interval_s: int = Field(default=60, ge=0)
    """Time until a task that failed for lack of resources is retried."""
    training_retry_most_s: int = Field(default=86400, ge=0)
    """A task that fails for lack of resources for this long, counted from the first consecutive attempt, stays
    failed."""
    training_max_running_tasks: int = Field(default=0, ge=0)
    """Maximum number of tasks on Ray at once; 0: no limit."""
    training_queue: Literal["fifo", "priority", "fair"] = "fifo"
    """Order of the queue: first in, first out; by priority; or by fair shares of the GPUs."""
    training_backfill: bool = False
    """Let later tasks go ahead of the first that must wait, if time limits (max_run_s) show that they do not delay
    it."""
    training_preempted: tuple[Literal["normal", "low"], ...] = ()
    """Priorities whose running tasks are stopped for more urgent ones that wait for room, and go on later from their
    last checkpoint."""
    training_preemption_grace_s: int = Field(default=600, ge=0)
    """Seconds that a task to be preempted may continue until its next checkpoint."""
    training_max_idle_s: int = Field(default=0, ge=0)
    """A task that writes no log and no metrics for this many seconds is stopped, unless it sets its own limit
    (max_idle_s); 0: never."""
    training_max_gpus_per_user: int = Field(default=0, ge=0)
    """Maximum number of GPUs that a user's running tasks may hold; 0: no limit."""
    training_shares: str = ""
    """Weights of users for fair shares, such as alice=2 bob=0.5; 1 for other users."""
    training_awaited_resources: tuple[str, ...] = ()
    """Custom resources and GPU types (accelerator_type:A100) of nodes that may join later, for example by autoscaling.
    A task that needs a resource that no node has is otherwise refused at submission."""
    training_secrets: Path | None = None
    """Folder with one file per secret that environments of tasks may name (see docs/training.md); read by the training
    scheduler."""
    training_trackers: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Where verl sends its metrics in addition to the page of the task: mlflow uses the server of
    MODELMILL_MLFLOW_TRACKING_URI. The nodes of the cluster need the packages and the keys (WANDB_API_KEY,
    MLFLOW_TRACKING_TOKEN)."""
    tensorboards_max: int = Field(default=4, ge=0)
    """Maximum number of TensorBoards that a web server runs at once, one for each task that somebody looks at; 0: none.
    The web server needs the extra tensorboard."""
    tensorboard_idle_s: int = Field(default=600, gt=0)
    """A TensorBoard that nobody has used for this many seconds is ended; opening it again starts it again."""
    max_unended_tasks_per_user: int = Field(default=200, gt=0)
    """Maximum number of waiting and running training tasks of a user; more are refused."""
    ray_name: ClusterName = "main"
    """Name of the cluster at RAY_ADDRESS among several; it is the default cluster of tasks."""
    ray_clusters: dict[ClusterName, RayClusterSettings] = Field(default_factory=dict)
    """Further clusters by name, as JSON: {"west": {"address": "http://west:8265", "token": "west-token"}}. token is the
    name of a file in MODELMILL_TRAINING_SECRETS; gcs_address, homes_root, worker_resource and python as for the first
    cluster."""

    @field_validator("ray_clusters")
    @classmethod
    def _has_a_first(
        cls, clusters: dict[str, RayClusterSettings], info: ValidationInfo
    ) -> dict[str, RayClusterSettings]:
        if any(cluster.token for cluster in clusters.values()) and not info.data.get("training_secrets"):
            raise ValueError("a token is a file in TRAINING_SECRETS, which is not set")
        if clusters and not info.data.get("ray_address"):
            raise ValueError("they are further clusters: the first one is RAY_ADDRESS")
        if taken := {ANY, info.data.get("ray_name")} & set(clusters):
            raise ValueError(f"a further cluster cannot be called {sorted(map(str, taken))[0]}")
        return clusters
