"""What the JSON API answers about clusters. Extra keys are allowed; those named here hold."""

from __future__ import annotations

from pydantic import BaseModel


class NodeUseAnswer(BaseModel):
    """Use of a whole node; memory in bytes."""

    cpu_percent: float
    memory: int
    total_memory: int
    gpu_percent: float | None
    """The mean of its GPUs."""
    gpu_memory: int
    total_gpu_memory: int


class NodeAnswer(BaseModel):
    node_id: str
    address: str
    total_gpus: float
    free_gpus: float
    total_cpus: float
    free_cpus: float
    may_train: bool
    resources: dict[str, float]
    """Custom ones in all; a type of GPU as accelerator_type:A100."""
    free_resources: dict[str, float]
    use: NodeUseAnswer | None
    """By whoever; null: Ray's reporter of the node has not told."""


class HolderAnswer(BaseModel):
    user: str
    gpus: int
    cpus: float
    by_node: dict[str, float]
    """node_id → GPUs that Ray has given it; the rest is reserved for it."""
    workload: str
    task_id: str | None
    state: str | None
    """null where it is another user's, but for administrators."""


class FirstInLineAnswer(BaseModel):
    user: str
    gpus: int
    cpus: float
    task_id: str | None
    """null where it is another user's, but for administrators."""
    starts_by: str | None
    """When it starts at the latest, if time limits of running tasks tell."""
    after_user: str | None
    """Whose task must end for it."""
    after_task: str | None
    """Which task; null where the user may not see both."""


class OneClusterAnswer(BaseModel):
    name: str
    seen_at: str | None
    """null: no scheduler has looked for some time."""
    unreachable_since: str | None
    """Ray does not answer since then; nodes are as last seen."""
    problem: str
    """Why it does not, or what is wrong although it does, such as another version of Ray."""
    nodes: list[NodeAnswer]
    holders: list[HolderAnswer]
    queued: int
    """Tasks in line that may start here, of everybody."""
    first: FirstInLineAnswer | None
    """The first task that waits for room: what is free is kept for it."""


class ClusterAnswer(OneClusterAnswer):
    is_on: bool
    """Has this installation a cluster?"""
    further: list[OneClusterAnswer]
    """The installation's further clusters; this one is the default of tasks."""
