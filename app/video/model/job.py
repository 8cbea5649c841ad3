"""A job, its states, and what its node is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.kit.errors import BadInput, BadRequest
from app.video.model.constraint import Constraint, read_constraint
from app.video.model.dag import Dag, read_dag
from app.video.model.kinds import Stage, stages_to_json
from app.video.model.plan import Plan

JOBS = "videojobs"
"""Kind of the orders that tell a node to run a job."""
SERVICES = "videoservices"
"""Kind of the orders that tell a node to serve stages."""
PART = "runner"
SERVICES_PART = "services"
RESULTS_KEPT = 10


class JobState(StrEnum):
    UNSCHED = "UNSCHED"
    """It has no plan that could be carried out."""
    EXEC = "EXEC"
    DONE = "DONE"


class Ending(StrEnum):
    FINISHED = "finished"
    ERROR = "error"
    CANCELLED = "cancelled"


TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.UNSCHED: frozenset({JobState.EXEC, JobState.DONE}),
    JobState.EXEC: frozenset({JobState.UNSCHED, JobState.DONE}),
    JobState.DONE: frozenset(),
}
"""EXEC → UNSCHED: a node of its plan has gone, and there is no other plan yet."""


class RestartPolicy(StrEnum):
    """When the source is read from its begin again. ERROR: after a damage; EOS: at its end; ALWAYS: both."""

    NEVER = "never"
    ERROR = "error"
    EOS = "eos"
    ALWAYS = "always"


class Mode(StrEnum):
    RUN = "run"
    PROFILE = "profile"
    """Measure each stage, model and size on each host, report that, and finish."""


@dataclass(frozen=True)
class VideoJob:
    """uid: GLOBAL_ID_<n>.SUB_ID_1. node: where the video is. realtime: frames come at their own time and late ones are
    dropped; False: each frame is processed, as fast as that goes. plan_asked: number of the newest demand for a plan.
    results: the newest, at most 10, newest last. latest: {"plan": …, "plan_result": …, …}. memory: what the policy
    keeps from call to call."""

    uid: str
    owner: str
    node: str
    video_id: str
    dag: Dag
    stages: tuple[Stage, ...]
    constraint: Constraint
    policy: str
    restart_policy: RestartPolicy
    created_at: str
    mode: Mode = Mode.RUN
    realtime: bool = True
    state: JobState = JobState.UNSCHED
    ending: Ending | None = None
    reason: str = ""
    ended_at: str | None = None
    plan: Plan | None = None
    plan_result: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[Mapping[str, Any], ...] = ()
    n_loop: int = 0
    flags: tuple[str, ...] = ()
    """offline: its node is silent; degraded: a stage runs elsewhere than planned; no_signal: its source gives no
    pictures."""
    no_signal_since: str | None = None
    reported_at: str | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    secret: str = ""
    progress: float = 0.0
    """0..1, of profiling."""


@dataclass(frozen=True)
class StageHost:
    """Where stages are served. url: http://host:port; secret: its bearer token."""

    node: str
    role: str
    ip: str
    url: str
    secret: str

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class JobContent:
    """Content of an order for a job. Of these, plan, constraint and hosts change while it runs."""

    uid: str
    video_id: str
    dag: Dag
    stages: tuple[Stage, ...]
    mode: Mode
    realtime: bool
    restart_policy: RestartPolicy
    constraint: Constraint
    plan: Plan | None
    hosts: tuple[StageHost, ...]
    secret: str

    def to_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "video_id": self.video_id,
            "dag": self.dag.to_json(),
            "stages": stages_to_json(self.stages),
            "mode": self.mode.value,
            "realtime": self.realtime,
            "restart_policy": self.restart_policy.value,
            "constraint": self.constraint.to_json(),
            "plan": self.plan.to_json() if self.plan else None,
            "hosts": [host.to_json() for host in self.hosts],
            "secret": self.secret,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> JobContent:
        """Raises KeyError, TypeError, ValueError, BadInput for what is none."""
        try:
            dag, constraint = read_dag(data["dag"]), read_constraint(data["constraint"])
        except BadRequest as error:
            raise BadInput(error.message, hint=error.hint, detail=error.detail) from error
        return JobContent(
            str(data["uid"]),
            str(data["video_id"]),
            dag,
            tuple(map(Stage.from_json, data["stages"])),
            Mode(data["mode"]),
            bool(data["realtime"]),
            RestartPolicy(data["restart_policy"]),
            constraint,
            Plan.from_json(data["plan"]) if data["plan"] is not None else None,
            tuple(StageHost(**host) for host in data["hosts"]),
            str(data["secret"]),
        )


@dataclass(frozen=True)
class ServicesContent:
    """Content of an order to serve stages. stages: key → stage; of the catalogue under its name, of a job under
    `<job_uid>/<name>`, which goes first. peers: other hosts, to measure the way to them."""

    stages: Mapping[str, Stage]
    secret: str
    peers: tuple[StageHost, ...] = ()
    processes: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "stages": {key: stage.to_json() for key, stage in self.stages.items()},
            "secret": self.secret,
            "peers": [peer.to_json() for peer in self.peers],
            "processes": self.processes,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ServicesContent:
        """Raises KeyError, TypeError, ValueError for what is none."""
        return ServicesContent(
            {str(key): Stage.from_json(stage) for key, stage in data["stages"].items()},
            str(data["secret"]),
            tuple(StageHost(**peer) for peer in data.get("peers", ())),
            int(data.get("processes", 1)),
        )
