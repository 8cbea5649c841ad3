"""Estimates the remaining time of an unfinished job: jobs ahead, workers of its stage, and the expected end.

The estimate comes from the newest finished jobs of the same toolchain, as a range with the number of jobs it is based
on. It is advice for readers; nothing in the pipeline depends on it. The forecast at submission is kept in the record,
so that the accuracy of forecasts can be reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import quantiles
from typing import Any, Generic, TypeVar

from app.conversion.model import JobRecord, Stage, StageState, Status
from app.conversion.service.predictions import PredictionAccuracy, prediction_accuracy, prediction_error_db
from app.conversion.store import JobStore
from app.kit.clock import from_text
from app.kit.queue.blocking_broker import BlockingBroker

MIN_JOBS = 3
"""Fewer finished jobs are not enough for an estimate."""
FAR_OVER = 5
"""A stage that takes this many times what nine of ten jobs took, and at least a minute, is far over its usual time."""
FAR_OVER_S = 60.0
HISTORY_JOBS = 200
HISTORY_FRESH_S = 20.0
WORKERS_FRESH_S = 2.0
Value = TypeVar("Value")


@dataclass(frozen=True)
class FinishedJob:
    """How long each stage of one finished job ran, in seconds, without its time in queues."""

    toolchain: str
    ran_s: dict[Stage, float]
    took_s: float = 0.0
    """From its submission to its end."""
    forecast_s: float | None = None
    """The forecast at its submission; None if there was none."""
    prediction_error_db: float | None = None
    """See there; None for a job that applied no action."""


@dataclass(frozen=True)
class FinishEstimate:
    """Seconds until the job ends: half of the jobs would end after p50_s, nine of ten after p90_s."""

    p50_s: float
    p90_s: float
    jobs: int
    usual_s: float
    """The longest duration of its current stage in nine of ten jobs."""
    is_overdue: bool
    """Whether its stage has already taken longer than that."""
    is_far_over: bool
    """Whether it has taken so much longer that it may never end."""


@dataclass(frozen=True)
class ForecastAccuracy:
    """The accuracy of the forecasts of finished jobs."""

    jobs: int
    """Number of jobs with a forecast."""
    off_by: float
    """Three of four forecasts had at most this error, as a share of the job's duration."""


@dataclass(frozen=True)
class Outlook:
    ahead: int | None
    """Jobs before this one in its queue; None if it does not wait."""
    workers: int
    """Number of live workers of its stage."""
    finish: FinishEstimate | None
    accuracy: ForecastAccuracy | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether it waits in a queue that no worker serves."""
        return self.ahead is not None and self.workers == 0


class Estimates:
    def __init__(self, store: JobStore, broker: BlockingBroker) -> None:
        self.broker = broker
        self._history = _Fresh(lambda: _list_pasts(store.newest(HISTORY_JOBS)), HISTORY_FRESH_S)
        self._workers = _Fresh(store.workers, WORKERS_FRESH_S)

    def outlook(self, record: JobRecord, now: datetime) -> Outlook | None:
        """None for a job that has ended."""
        if record.is_terminal:
            return None
        waits = record.current.state is StageState.QUEUED
        ahead = (self.broker.position(record.stage.step, record.job_id) or 0) if waits else None
        workers = self.workers(record.stage, record.options.toolchain.value)
        elapsed_s = 0.0
        if not waits and record.current.started_at:
            elapsed_s = max(0.0, (now - from_text(record.current.started_at)).total_seconds())
        same = self._list_pasts(record.options.toolchain.value)
        can_run = workers > 0 or not waits
        estimate = (
            finish(same, record.stage, elapsed_s=elapsed_s, ahead=ahead or 0, workers=workers) if can_run else None
        )
        return Outlook(ahead, workers, estimate, accuracy(same))

    def forecast_s(self, toolchain: str) -> float | None:
        """Expected seconds until a job submitted now ends; None if unknown."""
        workers = self.workers(Stage.ONNX, toolchain)
        if not workers:
            return None
        estimate = finish(self._list_pasts(toolchain), Stage.ONNX, elapsed_s=0.0, ahead=self.ahead(), workers=workers)
        return estimate.p50_s if estimate else None

    def ahead(self) -> int:
        """Number of jobs that wait for their first stage: they precede one that is submitted now."""
        return self.broker.waiting(Stage.ONNX.step)

    def is_far_over(self, record: JobRecord, now: datetime) -> bool:
        """Whether its running stage takes many times as long as in other jobs."""
        if record.is_terminal or record.current.state is not StageState.RUNNING:
            return False
        outlook = self.outlook(record, now)
        return outlook is not None and outlook.finish is not None and outlook.finish.is_far_over

    def accuracies(self) -> dict[str, ForecastAccuracy]:
        """The accuracy of recent forecasts, by toolchain; without toolchains that have too few jobs."""
        toolchains = dict.fromkeys(past.toolchain for past in self._history.value())
        by_toolchain = {toolchain: accuracy(self._list_pasts(toolchain)) for toolchain in sorted(toolchains)}
        return {toolchain: measured for toolchain, measured in by_toolchain.items() if measured is not None}

    def predictions(self) -> dict[str, PredictionAccuracy]:
        """The accuracy of recent predictions of actions, by toolchain; without toolchains that have too few."""
        toolchains = sorted({past.toolchain for past in self._history.value()})
        errors = {each: [past.prediction_error_db for past in self._list_pasts(each)] for each in toolchains}
        measured = {each: prediction_accuracy(known) for each, known in errors.items()}
        return {each: accuracy for each, accuracy in measured.items() if accuracy is not None}

    def pace_s(self, toolchain: str) -> float | None:
        """Seconds between the ends of two consecutive jobs, as computed by `pace`; None if unknown."""
        return pace(self._list_pasts(toolchain), {stage: self.workers(stage, toolchain) for stage in Stage})

    def unserved(self, toolchain: str) -> Stage | None:
        """The first stage with live workers of which none has this toolchain. A stage without workers is not counted:
        they may be starting."""
        living = list(self._workers.value().values())
        for stage in Stage:
            own = [worker for worker in living if worker.get("queue") == stage.step]
            if own and not any(_serves(worker, stage, toolchain) for worker in own):
                return stage
        return None

    def workers(self, stage: Stage, toolchain: str) -> int:
        """Number of live workers that serve the stage with this toolchain."""
        return sum(_serves(worker, stage, toolchain) for worker in self._workers.value().values())

    def _list_pasts(self, toolchain: str) -> list[FinishedJob]:
        return [past for past in self._history.value() if past.toolchain == toolchain]


def past_of(record: JobRecord) -> FinishedJob | None:
    """None for a job that did not finish, or whose times are incomplete."""
    if record.status is not Status.COMPLETED:
        return None
    ran_s = {}
    for stage in Stage:
        own = record.stages[stage.step]
        if own.started_at is None or own.finished_at is None:
            return None
        ran_s[stage] = max(0.0, (from_text(own.finished_at) - from_text(own.started_at)).total_seconds())
        if own.saved_s is not None:  # the time of the work, not of copying it
            ran_s[stage] = own.saved_s
    took_s = (from_text(record.finished_at or record.updated_at) - from_text(record.created_at)).total_seconds()
    is_whole = not any(own.reused_from for own in record.stages.values())
    forecast_s = record.forecast_s if is_whole else None
    return FinishedJob(record.options.toolchain.value, ran_s, took_s, forecast_s, prediction_error_db(record))


def _list_pasts(records: Iterable[JobRecord]) -> list[FinishedJob]:
    return [past for past in map(past_of, records) if past]


def finish(
    pasts: Sequence[FinishedJob], stage: Stage, *, elapsed_s: float, ahead: int, workers: int
) -> FinishEstimate | None:
    """Estimates when a job ends that has run elapsed_s of this stage, or waits for it behind `ahead` others.

    Only jobs whose stage ran at least as long as this one already has show how much longer it takes; if there are too
    few of those, the job is overdue and all jobs are used, with nothing left of this stage.

    Args:
        pasts: similar finished jobs.
        stage: its current stage.
        elapsed_s: seconds that the stage has run; 0: it waits.
        ahead: jobs before it in the queue of the stage.
        workers: processes that serve this queue.

    Returns:
        None: too few jobs have finished for an estimate.
    """
    if len(pasts) < MIN_JOBS:
        return None
    slow = [past for past in pasts if past.ran_s[stage] >= elapsed_s]
    telling = slow if len(slow) >= MIN_JOBS else pasts
    rest = [s for s in Stage if s.place > stage.place]
    left_s = [max(0.0, past.ran_s[stage] - elapsed_s) + sum(past.ran_s[s] for s in rest) for past in telling]
    wait_s = _compute_quantile([past.ran_s[stage] for past in pasts], 50) * ahead / max(workers, 1)
    usual_s = _compute_quantile([past.ran_s[stage] for past in pasts], 90)
    return FinishEstimate(
        wait_s + _compute_quantile(left_s, 50),
        wait_s + _compute_quantile(left_s, 90),
        len(telling),
        usual_s,
        is_overdue=elapsed_s > usual_s,
        is_far_over=elapsed_s > max(FAR_OVER * usual_s, FAR_OVER_S),
    )


def accuracy(pasts: Sequence[FinishedJob]) -> ForecastAccuracy | None:
    """None if too few jobs have had a forecast."""
    off_by = [
        abs(past.forecast_s - past.took_s) / past.took_s
        for past in pasts
        if past.forecast_s is not None and past.took_s > 0
    ]
    return ForecastAccuracy(len(off_by), _compute_quantile(off_by, 75)) if len(off_by) >= MIN_JOBS else None


def pace(pasts: Sequence[FinishedJob], workers: Mapping[Stage, int]) -> float | None:
    """Seconds between the ends of two consecutive jobs while every worker is busy: the time of the slowest stage.

    None if too few jobs have finished, or if a stage has no worker.
    """
    if len(pasts) < MIN_JOBS or not all(workers.values()):
        return None
    return max(_compute_quantile([past.ran_s[stage] for past in pasts], 50) / workers[stage] for stage in Stage)


def _compute_quantile(values: Iterable[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _serves(worker: Mapping[str, Any], stage: Stage, toolchain: str) -> bool:
    return worker.get("queue") == stage.step and toolchain in worker.get("toolchains", ())


class _Fresh(Generic[Value]):
    """A value that is read again when it is older than fresh_s; concurrent readers share one reading."""

    def __init__(self, read: Callable[[], Value], fresh_s: float) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._read_at = -fresh_s
        self._value: Value | None = None

    def value(self) -> Value:
        with self._lock:
            if self._value is None or time.monotonic() - self._read_at >= self._fresh_s:
                self._value = self._read()
                self._read_at = time.monotonic()
            return self._value
