"""The task, its attempts and its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.kit.clock import from_text
from app.kit.text.json_values import JsonObject
from app.training.model.demand import Demand
from app.training.model.state import TERMINAL, WAITING, FailureKind, State, WaitingReason

RELEASE_AFTER = timedelta(minutes=10)
"""How long a task is being cancelled before it can be released without Ray's confirmation of its end."""


class Workload(StrEnum):
    PPO = "ppo"
    GRPO = "grpo"
    SFT = "sft"
    SCRIPT = "script"
    """A program of the common code folder, for anything that verl does not do."""


class Algorithm(StrEnum):
    """How a group of answers is scored without a critic, as verl's `algorithm.adv_estimator` names it, and DAPO."""

    GRPO = "grpo"
    DAPO = "dapo"
    """grpo's advantages with DAPO's loss (https://arxiv.org/abs/2503.14476), without its dynamic sampling."""
    RLOO = "rloo"
    REINFORCE_PLUS_PLUS = "reinforce_plus_plus"
    REINFORCE_PLUS_PLUS_BASELINE = "reinforce_plus_plus_baseline"
    REMAX = "remax"
    OPO = "opo"
    GPG = "gpg"


class Rollout(StrEnum):
    """The engine of verl that generates answers."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"


class Priority(StrEnum):
    """The priority of a task, if the queue uses it: see queue_order."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def rank(self) -> int:
        """The lower, the sooner."""
        return list(Priority).index(self)


@dataclass(frozen=True)
class NewTask:
    """A training task as it is submitted."""

    task_id: str
    user: str
    workload: Workload
    spec_text: str
    """As it was submitted, byte for byte."""
    demand: Demand
    name: str = ""
    backfill: bool = False
    """Later tasks may go ahead while it waits at the head of the queue."""
    infra_retries: int = 1
    """How often it may still restart after its machine, or Ray, was lost."""
    max_wait_s: int | None = None
    """How many seconds its program may wait for its placement group; None: the usual time."""
    max_run_s: int | None = None
    """How many seconds an attempt may run before it is stopped; None: no limit."""
    max_idle_s: int | None = None
    """How many seconds an attempt may write nothing before it is stopped; None: the installation's limit."""
    priority: Priority = Priority.NORMAL
    sweep_id: str = ""
    """The sweep that it belongs to; "": none."""
    sweep_point: Mapping[str, Any] = field(default_factory=dict)
    """Its values of the fields that the sweep varies."""
    environment: str = ""
    """What it runs in, by name; "": what the nodes have."""
    is_preemptible: bool = False
    """It may be preempted, if that is done with its priority."""
    cluster: str = ""
    """Where it may run: "" is the default cluster, clusters.ANY any that has room."""


@dataclass(frozen=True, kw_only=True)
class Task(NewTask):
    """A training task in or after the queue. Times are ISO 8601 in UTC."""

    seq: int
    """Its position in the order of submission, which never changes."""
    state: State
    version: int
    """Version that counts its changes, for optimistic locking."""
    created_at: str
    updated_at: str
    waited_since: str
    """When it last joined the queue."""
    next_run_at: str | None = None
    """Earliest start."""
    cancel_requested_at: str | None = None
    latest_attempt_no: int = 0
    """0 before the first attempt."""
    waiting: WaitingReason | None = None
    """Why it waits; None: it does not, or the scheduler has not checked yet."""
    failure_kind: FailureKind | None = None
    error_summary: str = ""
    """Why it failed, or a remark on its end; one line."""
    ended_at: str | None = None

    @property
    def folder(self) -> str | None:
        """The name of the folder in the user's jobs/ that all its attempts share: verl continues from the checkpoints
        in it. None for a program, which stores its output by itself."""
        return None if self.workload is Workload.SCRIPT else self.task_id

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def releasable_from(self) -> datetime | None:
        """From when on it can be released although Ray has not confirmed its end. None: it is not being cancelled."""
        if self.state is not State.CANCELING or self.cancel_requested_at is None:
            return None
        return from_text(self.cancel_requested_at) + RELEASE_AFTER

    def is_releasable(self, at: datetime) -> bool:
        """Whether it has been cancelled for long enough to be released."""
        return self.releasable_from is not None and self.releasable_from <= at


@dataclass(frozen=True)
class Attempt:
    """One submission to Ray. Times are ISO 8601 in UTC."""

    task_id: str
    attempt_no: int
    submission_id: str
    """The name of the job on Ray, and of its folder."""
    created_at: str
    ray_status: str = ""
    """Ray's own status; "" before it has one."""
    ray_job_id: str = ""
    """Ray's own id of the running job."""
    driver_node_id: str = ""
    """The node on which its program runs."""
    exit_code: int | None = None
    failure_kind: FailureKind | None = None
    message: str = ""
    """The cause of its end, shortened."""
    submit_payload: str = ""
    """The submission to Ray, as JSON; "" until Ray may have received it."""
    started_at: str | None = None
    ended_at: str | None = None
    placement_pending_since: str | None = None
    """Its program has been waiting inside for a placement group since then."""
    log_bytes: int = 0
    """The size of the copy of its log."""
    output_at: str | None = None
    """When its log last grew, or its program last got what it waited for; None: not yet."""
    preempt_asked_at: str | None = None
    """Since when it must make room for a more urgent task; None: it need not."""
    cluster: str = ""
    """Which Ray has it; "" is the default cluster."""

    @property
    def folder(self) -> str:
        return self.submission_id


@dataclass(frozen=True)
class TaskEvent:
    """An event of a task."""

    event_id: int
    task_id: str
    at: str
    kind: str
    """CREATED, STATE (from, to, …; ahead_of: how many tasks wait that it went ahead of), ATTEMPT, RAY_STATUS,
    RETRY_SCHEDULED, CANCEL_REQUESTED, RELEASED_ENDED, CONVERSION, …"""
    detail: JsonObject
    """Data of this kind of event."""


@dataclass(frozen=True)
class Conversion:
    """A conversion job of a task's result."""

    task_id: str
    attempt_no: int
    artifact: str
    """The path of the ONNX file in the attempt's folder."""
    created_at: str
    job_id: str = ""
    """Empty until it is created, or if it could not be: see problem."""
    problem: str = ""
    next_try_at: str | None = None
    """When it is tried (again), unless it exists by then; None: never."""


def submission_id(task_id: str, attempt_no: int) -> str:
    """Derived, so that a scheduler that submits again after a crash names the same job."""
    return f"{task_id}--a{attempt_no:02}"
