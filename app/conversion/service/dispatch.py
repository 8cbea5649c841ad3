"""The scheduler's decisions: what follows a done message, and what to do about lost work.

It neither waits nor computes. Every operation here may be repeated with the same effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

from app.conversion import model, object_keys
from app.conversion.metrics import count_end
from app.conversion.model import Artifact, Change, JobError, JobRecord, Stage, StageState
from app.conversion.service.completion import Completion, completes
from app.conversion.service.end_message import end_message
from app.conversion.store import JobStore
from app.kit.clock import now, to_text
from app.kit.observability.tracing import note
from app.kit.process.slots import InFlight
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.messages import Message, Queue, post
from app.kit.redis.records import OutgoingMessage
from app.kit.text.json_values import JsonObject

RUNS = {Stage.ONNX: Message.RUN_ONNX, Stage.BIE: Message.RUN_BIE, Stage.NEF: Message.RUN_NEF}
"""The message that runs a stage; its queue has the name of the stage."""
QUEUES = tuple(stage.step for stage in Stage)
PREFETCH = {**dict.fromkeys(QUEUES, 1), Queue.DONE.value: 16}
"""A stage takes one job at a time; done messages take a millisecond each, so they are fetched together."""
STAGES = {stage.step: stage for stage in Stage}
SUSPECT_S = 15
UNDELIVERED_S = 30
logger = logging.getLogger(__name__)


class Dispatch:
    def __init__(self, store: JobStore, broker: BlockingBroker, completion: Completion) -> None:
        self.store = store
        self.broker = broker
        self.completion = completion

    def prepare(self, stage: Stage, job_id: str) -> OutgoingMessage:
        """The message that queues the job's stage, with the job's id: so it can be found, counted and removed."""
        return self.broker.prepare(stage.step, RUNS[stage], message_id=job_id, job_id=job_id)

    def enqueue(self, stage: Stage, job_id: str) -> None:
        """Sends it at once, for a job that should be on its queue and is not."""
        self.broker.raise_dead(stage.step, job_id)
        post(self.broker, RUNS[stage], message_id=job_id, job_id=job_id)

    def send_done(
        self, *, job_id: str, step: str, result: str, reason: str | None = None, facts: JsonObject | None = None
    ) -> None:
        """Sends the done message: the requirement's four fields, and additional facts.

        Args:
            step: the stage in lower case: onnx, bie, nef.
            result: "ok" or "fail".
            reason: a sentence for the user, for a failure.
            facts: artifacts, summary, versions, error; None: nothing to add.
        """
        post(self.broker, Message.DONE, job_id=job_id, step=step, result=result, reason=reason, facts=facts)

    def report(self, on_sent: Callable[[], None], *, step: str, **fields: Any) -> None:
        """Sends the done message as the last call of the worker's work on a job.

        Args:
            on_sent: called once Redis has received it.
            step: see `send_done`.
            fields: the other arguments of `send_done`.
        """
        message = self.broker.prepare(Queue.DONE, Message.DONE, step=step, **fields)
        self.broker.finish(step, self.broker.post_call(message), lambda _: on_sent())

    def advance(self, *, job_id: str, step: str, result: str, reason: str | None, facts: JsonObject | None) -> None:
        """Processes a done message: the job ends, or its next stage is recorded and queued in one step. Arguments as of
        `send_done`."""
        stage = STAGES[step]
        change = self._make_change(job_id, stage, result, reason, facts or {})
        after = None if change.is_end else stage.next
        message = end_message(self.broker, job_id) if after is None else self.prepare(after, job_id)
        error_code = (facts or {}).get("error", {}).get("code", "STAGE_FAILED")
        if completes(change):
            change = self.completion.prepare(job_id, change)
            is_applied = self.store.apply(job_id, change, message)
            self.completion.settle(job_id)
            _tell(job_id, change, error_code, is_applied)
        else:
            call = self.store.apply_call(job_id, change, message)
            self.broker.finish(Queue.DONE, call, partial(_tell, job_id, change, error_code))

    def lost(self, doing: InFlight) -> None:
        """A worker ended during this work. Its job fails, or is queued again if the worker had not claimed it yet."""
        record = self.store.get(doing.record_id) if doing.record_id else None
        if record is None or record.is_terminal:
            return
        if record.claim == doing.claim:
            self._fail_lost(record)
        elif record.current.state is StageState.QUEUED and not self.broker.holds(record.stage.step, record.job_id):
            self.enqueue(record.stage, record.job_id)

    def has_gone_on(self, doing: InFlight) -> bool:
        """Whether the job that a worker started has another worker since, or is queued: its folder may be theirs."""
        record = self.store.get(doing.record_id) if doing.record_id else None
        return record is not None and not record.is_terminal and record.claim != doing.claim

    def requeue_from(self, doing: InFlight, queues: Iterable[str]) -> None:
        """Returns the messages that the worker had fetched and not started to its queue, and releases their claims."""
        for queue in queues:
            if doing.next_claim and queue in QUEUES:
                for job_id in self.broker.fetched(doing.broker_id, queue):
                    self.store.apply(job_id, model.given_back(Stage(queue.upper()), claim=doing.next_claim))
            count = self.broker.requeue_from(doing.broker_id, queue)
            if count:
                logger.warning("Put back %d message(s) on queue %s that a dead worker had fetched.", count, queue)

    def resume(self, job_id: str) -> None:
        """Resumes a job that has waited for another with the same work."""
        record = self.store.get(job_id)
        if record is not None and not record.is_terminal and record.current.state is StageState.QUEUED:
            self.enqueue(record.stage, job_id)

    def sweep(self, parked: Container[str] = ()) -> None:
        """Handles what no worker reports: hosts that never come back, interrupted dispatches.

        Args:
            parked: Jobs that are on no queue on purpose.
        """
        self.broker.maintain((*QUEUES, Queue.DONE, Queue.PERIODIC, Queue.NOTIFICATIONS))
        alive = self.store.workers()
        queued: dict[Stage, list[str]] = {stage: [] for stage in Stage}
        for record in self.store.active():
            if record.current.state is StageState.RUNNING:
                # By the job that it names, not only by its name: a host may come back under the name of a dead one.
                worker = alive.get(record.current.worker or "", {})
                self._sweep_running(record, is_alive=worker.get("job_id") == record.job_id)
            elif record.job_id not in parked:
                queued[record.stage].append(record.job_id)
        for stage, job_ids in queued.items():
            self._sweep_queued(stage, job_ids)

    def _make_change(self, job_id: str, stage: Stage, result: str, reason: str | None, facts: JsonObject) -> Change:
        moment = to_text(now())
        artifacts = {name: Artifact(**data) for name, data in facts.get("artifacts", {}).items()}
        times = {name: facts[name] for name in ("started_at", "finished_at") if facts.get(name)}
        if result == "ok":
            so_far = tuple(STAGES.values())[: stage.place + 1]
            return model.succeeded(
                stage,
                now=moment,
                times=times,
                artifacts=artifacts,
                output={f"{done.step}_key": object_keys.result(job_id, done) for done in so_far},
                summary=facts.get("summary", {}),
                versions=facts.get("versions", {}),
                reused_from=facts.get("reused_from"),
                saved_s=facts.get("saved_s"),
            )
        error = JobError(**{**facts.get("error", {}), "step": stage.step, "reason": reason or "the stage failed"})
        return model.failed(stage, now=moment, error=error, artifacts=artifacts, times=times)

    def _sweep_running(self, record: JobRecord, *, is_alive: bool) -> None:
        if is_alive:
            self.store.clear_lost(record.claim)
        elif self.store.note_lost(record.claim, after_s=SUSPECT_S):  # of the claim, not the job: stages follow quickly
            self._fail_lost(record)

    def _sweep_queued(self, stage: Stage, job_ids: list[str]) -> None:
        held = self.broker.held(stage.step, job_ids)
        for job_id in job_ids:
            if job_id not in held and self.store.note_lost(f"queued:{stage.step}:{job_id}", after_s=UNDELIVERED_S):
                logger.warning("Job %s was never queued for %s: queued again.", job_id, stage)
                self.enqueue(stage, job_id)

    def _fail_lost(self, record: JobRecord) -> None:
        error = JobError(
            step=record.stage.step,
            reason="worker lost",
            code="WORKER_LOST",
            hint="The worker that ran this stage died. Submit the job again; if it dies again, the stage may need more "
            "memory than its host has.",
        )
        facts = {"error": {"code": error.code, "hint": error.hint, "detail": {"worker": record.current.worker}}}
        self.send_done(job_id=record.job_id, step=error.step, result="fail", reason=error.reason, facts=facts)


def _tell(job_id: str, change: Change, error_code: str, is_applied: object) -> None:
    """Logs and counts the effect of a done message."""
    step = change.stage.step
    if not is_applied:
        logger.info("Done message %s of job %s comes too late: nothing to do.", step, job_id)
    elif change.is_end:
        status = change.fields["status"]
        count_end(step, status, error_code)
        note(job_status=status)
        logger.info("Job %s is %s.", job_id, status)
