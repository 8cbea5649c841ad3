"""The interface of training to Ray, without its implementation. `ray_gateway` is the only module that imports ray.

Every method may raise RayUnreachable, after at most some seconds: the state of jobs and nodes is then unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from app.training.model import Node
from app.training.model.node_use import NodeUse


class RayStatus(StrEnum):
    """Ray's job states. PENDING: its supervisor is not running; a job that waits for GPUs inside is RUNNING."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (RayStatus.STOPPED, RayStatus.SUCCEEDED, RayStatus.FAILED)


@dataclass(frozen=True)
class Submission:
    """A submission to Ray."""

    submission_id: str
    entrypoint: str
    env: Mapping[str, str] = field(default_factory=dict)
    """Without secrets, because Ray shows it to everybody."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More of it, with secrets, which the product shows nobody: see service.scheduling.secrets."""
    cpus: float = 0
    gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Of the entry point, in addition to CPUs and GPUs."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    pip: tuple[str, ...] = ()
    """Packages that Ray installs for it on the nodes."""
    image: str = ""
    """Container image of its processes; "": none."""


@dataclass(frozen=True)
class RayJob:
    """A job as reported by Ray."""

    submission_id: str
    status: RayStatus
    message: str = ""
    """On failure the last lines of its log, with colors."""
    error_type: str = ""
    """Ray's own type; "" if there is none."""
    exit_code: int | None = None
    ray_job_id: str = ""
    driver_node_id: str = ""
    """The node on which its program runs."""
    started_ms: int | None = None
    """Unix time in milliseconds."""
    ended_ms: int | None = None
    """Unix time in milliseconds."""


@dataclass(frozen=True)
class PlacementGroup:
    """Resources that a program has asked Ray to keep together."""

    ray_job_id: str
    """The requesting job."""
    is_placed: bool
    bundles: tuple[tuple[str, float, float], ...] = ()
    """(node_id, gpus, cpus) of each; node_id is "" while the group waits."""


class Gateway(Protocol):
    def submit(self, submission: Submission) -> None:
        """Returns when Ray has accepted it, or had accepted it before.

        Raises:
            RayRefused: Ray does not take it.
        """

    def job(self, submission_id: str) -> RayJob | None:
        """None: Ray answers, and has no job of this name."""

    def stop(self, submission_id: str) -> None:
        """Requests its end. Nothing happens to a job that is PENDING, has ended or is unknown."""

    def nodes(self) -> tuple[Node, ...]:
        """The live nodes, with what is currently free on each."""

    def use(self) -> Mapping[str, NodeUse]:
        """How much each node is used, by its id; nodes that have not reported are absent."""

    def placement_groups(self) -> tuple[PlacementGroup, ...]:
        """The existing groups of all jobs."""

    def log_tail(self, job: RayJob, lines: int) -> bytes:
        """The last lines of its program's output; b"" if there is none, or the node is gone."""

    def log(self, job: RayJob) -> Iterator[bytes]:
        """The complete output of its program, in chunks; nothing if the node is gone."""

    def remark(self) -> str:
        """What is wrong although Ray answered last, as a sentence; "" if nothing is. Asks nobody."""

    def close(self) -> None: ...
