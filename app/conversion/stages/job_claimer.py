"""Claims jobs for one worker of one stage, and notes them in the worker's slot.

The claim is prepared before there is a job to claim, so that the fetch of a message can make it in the same step
(blocking_consumer). Where the message came another way, the claim is made here. Each is good for one job.
"""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex

from app.conversion import model
from app.conversion.model import JobRecord, Stage
from app.conversion.store import JobStore
from app.kit.observability.tracing import span
from app.kit.process.slots import InFlight, Slot
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.retry import until_answered

TOKEN = "{token}"  # noqa: S105  # none itself
"""Placeholder for the token in a claim, which differs for each job."""


class JobClaimer:
    """Claims jobs for the stage of one worker.

    Args:
        stage: of the worker.
        slot: the worker's slot, which records its work in case it dies.
        broker: returns what was claimed and not started.
    """

    def __init__(self, stage: Stage, slot: Slot, store: JobStore, broker: BlockingBroker) -> None:
        self.stage = stage
        self.slot = slot
        self._store = store
        self._broker = broker
        self._form = store.claim_by_fetch(model.claimed(stage, worker=slot.name, token=TOKEN))
        self.rest()

    @property
    def claim(self) -> str:
        return self._text

    def rest(self) -> None:
        """No work is in progress; a new claim is ready."""
        token = token_hex(16)
        self._claim = model.claimed(self.stage, worker=self.slot.name, token=token)
        self._text = self._form.replace(TOKEN, token)
        self._note("", "")

    def take(self, job_id: str, work_dir: Path) -> JobRecord | None:
        """Returns the job if this worker has claimed it. The slot records it before any work starts, in case this
        process dies."""
        self._note(job_id, str(work_dir))
        fields = self._broker.claimed(self.stage.step, job_id)
        if fields:
            return model.from_fields(fields)
        with span("claim"):
            return until_answered(lambda: self._store.claim(job_id, self._claim), f"claim job {job_id}")

    def give_back(self, job_id: str) -> None:
        """Its work has not started."""
        self._store.apply(job_id, model.given_back(self.stage, claim=self._claim.fields["claim"]))

    def unbegun(self) -> list[str]:
        return self._broker.unbegun(self.stage.step)

    def _note(self, job_id: str, work_dir: str) -> None:
        self.slot.write(InFlight(self._broker.broker_id, job_id, self._claim.fields["claim"], work_dir))
