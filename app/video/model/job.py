"""A job, its states, and the content of its node's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.kit.errors import BadInput, BadRequest
from app.kit.text.json_form import JsonDocument
from app.kit.text.json_values import JsonObject
from app.video.model.constraint import Constraint, read_constraint
from app.video.model.dag import Dag, read_dag
from app.video.model.kinds import Stage, stages_to_json
from app.video.model.plan import Plan

JOBS = "videojobs"
"""Kind of the orders that make a node run a job."""
SERVICES = "videoservices"
"""Kind of the orders that make a node serve stages."""
PART = "runner"
SERVICES_PART = "services"
RESULTS_KEPT = 10


class JobState(StrEnum):
    UNSCHED = "UNSCHED"
    """It has no plan that can be carried out."""
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
"""EXEC → UNSCHED: a node of its plan is gone, and there is no other plan yet."""


class RestartPolicy(StrEnum):
    """When the source is read again from its beginning. ERROR: after a fault; EOS: at its end; ALWAYS: both."""

    NEVER = "never"
    ERROR = "error"
    EOS = "eos"
    ALWAYS = "always"


class Mode(StrEnum):
    RUN = "run"
    PROFILE = "profile"
    """Measures each stage, model and size on each host, reports that, and finishes."""


CANNOT_RUN, UNCHANGED = "Its runner cannot run: ", "Its runner cannot be changed, and goes on as before: "
SILENCE = "No signal: "
"""The beginnings of what is told of a runner, and, by its note, of a source."""
NO_SIGNAL = "no_signal"
"""The flag of a job whose source delivers no picture."""


@dataclass(frozen=True)
class VideoJob:
    """A user's job on a video."""

    uid: str
    """GLOBAL_ID_<number>.SUB_ID_1"""
    owner: str
    node: str
    """The node of the video."""
    video_id: str
    dag: Dag
    stages: tuple[Stage, ...]
    """The stages of the DAG, with their models pinned."""
    constraint: Constraint
    policy: str
    restart_policy: RestartPolicy
    created_at: str
    mode: Mode = Mode.RUN
    realtime: bool = True
    """Frames come at their own time, and late ones are dropped; False: each frame is processed, as fast as possible."""
    state: JobState = JobState.UNSCHED
    ending: Ending | None = None
    reason: str = ""
    """Why it is in its state; where its runner or its source has a trouble, those instead, one below the other."""
    runner_trouble: str = ""
    cannot_run: bool = False
    """With that trouble its runner does not run; False: it goes on as before."""
    silence: str = ""
    """Why its source delivers no picture; empty: it does, or that is not known."""
    ended_at: str | None = None
    plan: Plan | None = None
    plan_result: Mapping[str, Any] = field(default_factory=dict)
    """The plan's performance: see PlanResult."""
    results: tuple[Mapping[str, Any], ...] = ()
    """The newest RESULTS_KEPT, newest last."""
    n_loop: int = 0
    """Number of the newest result."""
    flags: tuple[str, ...] = ()
    """offline: its node is silent; degraded: a stage runs elsewhere than planned; no_signal: its source delivers no
    pictures; no_broadcast: its picture is not broadcast although it should be; node_full: its node cannot store
    results; undelivered: the web server does not take what its node reports; sink_stuck: one of its sinks has accepted
    nothing for minutes."""
    no_signal_since: str | None = None
    reported_at: str | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The state of its policy between calls."""
    secret: str = ""
    """The bearer token of its runner."""
    progress: float = 0.0
    """0..1, of profiling."""
    name: str = ""
    """Its user's name for it."""
    set_id: str = ""
    """The job set that it was submitted for; empty: none."""
    broadcast: Mapping[str, Any] = field(default_factory=dict)
    """See BroadcastState; empty: nothing was reported."""
    generator_output: Mapping[str, Any] = field(default_factory=dict)
    """What the runner said of its newest frame, and its node before that of the video: see GeneratorInfo."""

    def is_of_plan(self, result: Mapping[str, Any]) -> bool:
        """Whether a plan_result is of the newest plan, and not of the one before, which goes on for a moment."""
        return self.plan is None or result.get("plan_seq", self.plan.seq) == self.plan.seq

    @property
    def title(self) -> str:
        return self.name or self.uid


@dataclass(frozen=True)
class StageHost(JsonDocument):
    """Where stages are served."""

    node: str
    role: str
    """As seen from the node of a job: see Role."""
    ip: str
    url: str
    """http://host:port"""
    secret: str
    """Its bearer token."""


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

    def to_json(self) -> JsonObject:
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
        """Reads what `to_json` writes.

        Raises:
            KeyError, TypeError, ValueError, BadInput: It has another form.
        """
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
            tuple(map(StageHost.from_json, data["hosts"])),
            str(data["secret"]),
        )


@dataclass(frozen=True)
class ServicesContent(JsonDocument):
    """Content of an order to serve stages."""

    stages: Mapping[str, Stage]
    """Those of the catalog under their names, those of a job under `<job_uid>/<name>`, which take precedence."""
    secret: str
    """The bearer token of the host."""
    peers: tuple[StageHost, ...] = ()
    """Other hosts, to which the bandwidth is measured."""
    processes: int = 1
    """How many processes compute stages."""
