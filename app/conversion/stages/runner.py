"""One stage from claim to done message."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial

from app.conversion import object_keys
from app.conversion.metrics import STAGE_SECONDS
from app.conversion.model import Artifact, JobError, JobRecord, Stage
from app.conversion.options import ToolchainName
from app.conversion.stages.continuation import run_with_continuation
from app.conversion.stages.heartbeat import Heartbeat, RunningStage, StageLog
from app.conversion.stages.job_claimer import JobClaimer
from app.conversion.stages.reuse import ReusedStage, StageReuse
from app.conversion.stages.transfer_retry import retry_transfer
from app.conversion.stages.triage import MODEL_BYTES_MOST, TriageRunner, advice_of, is_crash
from app.conversion.stages.workspace import Workspace
from app.conversion.toolchains.base import SCRATCH, SEARCH_JOURNAL
from app.conversion.toolchains.kneron import installation
from app.conversion.work_leases import Turn
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError, Unavailable
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.observability.tracing import span
from app.kit.queue.retry import until_answered
from app.kit.sandbox.errors import StageCancelled, StageFailed
from app.kit.sandbox.paths import SandboxPaths
from app.kit.sandbox.runner import NOWHERE, Hooks, Limits, Sandbox
from app.kit.text.json_values import JsonObject
from app.settings import Settings

CHILD = "app.conversion.stages.child:run_stage"
PARKED = "parked"
"""The result of a stage that was not started, because another job is doing its work."""
TELL_OPERATOR = "Submit the job again; if it fails again, tell the operator: the worker's own log says more."
logger = logging.getLogger(__name__)

SendDone = Callable[..., None]
"""send_done(on_sent, job_id=, step=, result=, reason=, facts=): queues the done message, at the latest with the
acknowledgement of the stage's message, and then calls on_sent; may raise RedisError."""


@dataclass(frozen=True)
class StageWorker:
    """The worker of the stages: its claims of jobs and its heartbeats."""

    claimer: JobClaimer
    heartbeat: Heartbeat


@dataclass
class StageOutcome:
    """Additional facts are sent in the done message beside the requirement's four fields."""

    result: str
    reason: str | None = None
    facts: JsonObject = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class StageRunner:
    """Runs stages of jobs, one at a time.

    Args:
        objects: stores inputs and outputs.
        sandbox: runs the toolchains.
        reuse: earlier results.
        send_done: sends the done message.
    """

    settings: Settings
    objects: ObjectStore
    sandbox: Sandbox
    reuse: StageReuse
    send_done: SendDone

    def __post_init__(self) -> None:
        self.folder = str(self.settings.work)

    def run(self, job_id: str, worker: StageWorker) -> None:
        """Runs the worker's stage unless another worker has claimed it. A duplicate or late message has no effect."""
        stage = worker.claimer.stage
        record = worker.claimer.take(job_id, f"{self.folder}/{job_id}")
        if record is None:
            logger.info("Job %s is not waiting for %s: nothing to do.", job_id, stage)
            return
        started_at, begin = now(), time.monotonic()
        with worker.heartbeat.during(record, started_at=to_text(started_at)) as running:
            outcome = self.work(record, running)
        took_s = time.monotonic() - begin
        if outcome.result == PARKED:
            self._park(job_id, worker)
            return
        tell = partial(_tell, record, outcome, took_s)
        if running.lost:
            tell()
            self._clean_up(record)
            return
        # By the clock that started it: the wall clock may have been changed meanwhile.
        finished_at = started_at + timedelta(seconds=took_s)
        outcome.facts |= {"started_at": running.started_at, "finished_at": to_text(finished_at)}
        send_done = partial(
            self.send_done,
            tell,
            job_id=job_id,
            step=stage.step,
            result=outcome.result,
            reason=outcome.reason,
            facts=outcome.facts,
        )
        until_answered(send_done, f"report on job {job_id}")  # a lost done message would leave the job hanging forever

    def _park(self, job_id: str, worker: StageWorker) -> None:
        """Another job is doing this work now; it resumes this job when it has ended (see work_leases)."""
        until_answered(partial(worker.claimer.park, job_id), f"give back job {job_id}")
        logger.info("Job %s waits for another that does the same work.", job_id)

    def _clean_up(self, record: JobRecord) -> None:
        """Deletes the log and the outputs of a stage that were stored after its job was deleted. Those of a job that
        only Redis has forgotten stay: its submission is still stored."""
        try:
            if not self._is_deleted(record.job_id):
                return
            for key in object_keys.stage_files(record.job_id, record.stage):
                self.objects.delete_prefix(key)
        except ModelmillError as error:
            logger.warning("Files of the deleted job %s stay until they expire: %s", record.job_id, error.message)

    def _is_deleted(self, job_id: str) -> bool:
        try:
            self.objects.info(object_keys.request(job_id))
        except ObjectMissing:
            return True
        return False

    def work(self, record: JobRecord, running: RunningStage) -> StageOutcome:
        """Everything between the claim and the report; no error leaves it, because each is an outcome."""
        space = Workspace(self.settings.work, record, self.objects)
        try:
            with space:
                return self._run_in(space, running)
        except BaseException as error:  # noqa: BLE001  # also the order to end: it is an outcome too, and then this process ends anyway
            return _make_failure(space.cause_of(error))

    def _run_in(self, space: Workspace, running: RunningStage) -> StageOutcome:
        key = self.reuse.key_of(space.record)
        with span("look for the same work"):
            reused = self.reuse.take(space, key)
        if reused is not None:
            return _reuse(reused, retry_transfer(space.store_log))
        with self.reuse.turn(space.record, key) as turn:
            if turn is Turn.PARKED:
                return StageOutcome(PARKED)
            begin = time.monotonic()
            outcome = self._finish(space, running)
            if outcome.result == "ok" and not running.lost:
                with span("keep for reuse"):
                    self.reuse.keep(space, key, outcome.facts, took_s=time.monotonic() - begin)
            return outcome

    def _finish(self, space: Workspace, running: RunningStage) -> StageOutcome:
        with span("fetch inputs"):
            retry_transfer(space.fetch_inputs)
        try:
            with span("toolchain"), StageLog(space.log, self.settings.log_bytes, self.settings.live_log_bytes) as log:
                running.log = log
                hooks = Hooks(on_log=log.write, on_progress=running.report, should_stop=lambda: running.lost)
                run = partial(
                    self.sandbox.run,
                    CHILD,
                    self._request(space),
                    work_dir=space.folder,
                    places=self._build_paths(space.record),
                    hooks=hooks,
                )
                limits = limits_of(self.settings, space)
                finished = run_with_continuation(run, limits, space.folder / SCRATCH / SEARCH_JOURNAL, log.write)
            result = finished.result
            with span("upload"):
                artifacts = retry_transfer(
                    lambda: space.store_outputs(result, max_bytes=self.settings.max_artifact_bytes)
                )
        except ModelmillError as error:
            kept = self._triage(space, running, error)
            return _make_failure(space.cause_of(error), {**_log_if_possible(space, error), **kept})
        artifacts |= retry_transfer(space.store_log)
        used = {"cpu_s": finished.cpu_s, "wall_s": finished.wall_s, "peak_bytes": finished.peak_bytes}
        facts = {"summary": {**result["summary"], **used}, "versions": result["versions"]}
        return StageOutcome("ok", facts={**facts, "artifacts": _to_plain(artifacts)})

    def _request(self, space: Workspace) -> JsonObject:
        limits = {"max_images": self.settings.max_images, "unpacked_bytes": self.settings.max_unpacked_bytes}
        return {
            "stage": space.stage.value,
            "work_dir": str(space.folder),
            "images": str(space.samples) if space.samples else None,
            "options": space.record.options.model_dump(mode="json"),
            "notes": notes_of(space.record),
            "threads": self.settings.threads,
            "time_s": limits_of(self.settings, space).time_s,
            "limits": limits,
            "kneron_python": str(self.settings.kneron_python),
        }

    def _triage(self, space: Workspace, running: RunningStage, error: ModelmillError) -> dict[str, Artifact]:
        """Narrows down a toolchain crash: the smallest part of the model on which it still crashes, as an artifact."""
        if not is_crash(error) or space.samples is None or space.model.stat().st_size > MODEL_BYTES_MOST:
            return {}
        triage = TriageRunner(self.sandbox, space, self._request(space), self._build_paths(space.record), running)
        try:
            part = triage.smallest_failing()
            if part is None:
                return {}
            name = f"{space.stage.step}.triage.onnx"
            stored = retry_transfer(lambda: space.store_extra(name, part.model))
        except (ModelmillError, OSError) as failed:
            logger.warning("A crash could not be narrowed down: %s", failed)
            return {}
        error.detail = {**error.detail, "triage": {**part.to_json(), "file": name}}
        error.hint = f"{error.hint} {advice_of(part, name)}".strip()
        return stored

    def _build_paths(self, record: JobRecord) -> SandboxPaths:
        is_vendors = record.options.toolchain is ToolchainName.KNERON
        return installation.places(self.settings.kneron_python) if is_vendors else NOWHERE


def _tell(record: JobRecord, outcome: StageOutcome, took_s: float) -> None:
    """Logs and counts the end of a stage."""
    step = record.stage.step
    result = "reused" if "reused_from" in outcome.facts else outcome.result
    STAGE_SECONDS.labels(step, record.options.toolchain, result).observe(took_s)
    reason = f": {outcome.reason}" if outcome.reason else ""
    logger.info("Stage %s of job %s ended after %.3f s: %s%s.", step, record.job_id, took_s, result, reason)


def notes_of(record: JobRecord) -> list[str]:
    """The start of the first stage's log: decisions made for the user on submission."""
    recognition = record.intake.get("recognition")
    if record.stage is not Stage.ONNX or not recognition or not recognition["is_taken"]:
        return []
    return [f"preprocessing, as recognized: {recognition['summary']}. {recognition['reason']}"]


def limits_of(settings: Settings, space: Workspace) -> Limits:
    """The limits of a stage, after its inputs are fetched."""
    time_s = settings.stage_time_s(space.stage.step, space.model.stat().st_size)
    return Limits(settings.stage_memory_bytes, time_s, settings.threads, settings.stage_disk_bytes)


def _log_if_possible(space: Workspace, failure: ModelmillError) -> dict[str, Artifact]:
    """The stage has failed already, and its reason matters more than a log that could not be stored."""
    try:
        return space.store_log() if isinstance(failure, Unavailable) else retry_transfer(space.store_log)
    except (ModelmillError, OSError) as error:
        logger.warning("The log of a failed stage is lost: %s", error)
        return {}


def _make_failure(error: BaseException, artifacts: dict[str, Artifact] | None = None) -> StageOutcome:
    if isinstance(error, ModelmillError):
        failure = error
    elif isinstance(error, OSError):
        failure = StageFailed(
            f"the worker could not use its work folder: {error.strerror or error}", hint=TELL_OPERATOR
        )
    elif isinstance(error, Exception):
        logger.error("A stage failed in an unforeseen way.", exc_info=error)
        failure = StageFailed(f"{type(error).__name__}: {error}", hint=TELL_OPERATOR)
    else:
        failure = StageCancelled("the worker was shut down", hint="Submit the job again.")
    failed = JobError(step="", reason=failure.message, code=failure.code, hint=failure.hint, detail=failure.detail)
    facts = {"error": asdict(failed), "artifacts": _to_plain(artifacts or {})}
    return StageOutcome("fail", failure.message, facts)


def _reuse(stage: ReusedStage, log: dict[str, Artifact]) -> StageOutcome:
    cached = stage.cached
    facts = {"summary": cached.summary, "versions": cached.versions, "artifacts": _to_plain(stage.artifacts | log)}
    return StageOutcome("ok", facts={**facts, "reused_from": cached.job_id, "saved_s": cached.took_s})


def _to_plain(artifacts: dict[str, Artifact]) -> dict[str, JsonObject]:
    return {name: asdict(artifact) for name, artifact in artifacts.items()}
