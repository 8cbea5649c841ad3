"""Claims jobs for one worker of one stage, and notes them in the worker's slot.

The claim is prepared before there is a job to claim, so that the fetch of a message can make it in the same step
(blocking_consumer). If the message came another way, the claim is made here. Each is valid for one job. The slot
names two of them: that of the job started last, and the one that the next fetch makes.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

from app.conversion import model
from app.conversion.model import JobRecord, Stage
from app.conversion.store import JobStore
from app.kit.observability.tracing import span
from app.kit.process.slots import InFlight, Slot
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.retry import until_answered


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
        self._form = model.claimed(stage, worker=slot.name, token=os.urandom(16).hex())
        """The claims of this worker, but for their numbers."""
        self._numbers = itertools.count(1)
        self.claim = store.claim_by_fetch(self._form)
        self._place = self.claim.index(self._form.fields["claim"])
        self._claim = self._next = ""
        self._prepare()
        slot.write(InFlight(broker.broker_id, next_claim=self._next))

    def take(self, job_id: str, work_dir: str) -> JobRecord | None:
        """Returns the job if this worker has claimed it. The slot records it before any work starts, in case this
        process dies."""
        claim = self._claim = self._next
        self._prepare()
        self.slot.write(InFlight(self._broker.broker_id, job_id, claim, work_dir, self._next))
        fields = self._broker.claimed(self.stage.step, job_id)
        if fields:
            return model.from_fields(fields)
        change = replace(self._form, fields={**self._form.fields, "claim": claim})
        with span("claim"):
            return until_answered(lambda: self._store.claim(job_id, change), f"claim job {job_id}")

    def park(self, job_id: str) -> None:
        """Returns the job that was taken last to the waiting ones: its work has not started."""
        self._store.apply(job_id, model.given_back(self.stage, claim=self._claim))

    def give_back(self, job_id: str) -> None:
        """Returns a job that was fetched and not taken."""
        self._store.apply(job_id, model.given_back(self.stage, claim=self._next))

    def unbegun(self) -> list[str]:
        return self._broker.unbegun(self.stage.step)

    def _prepare(self) -> None:
        """Prepares the claim on the next job."""
        self._next = self.claim[self._place] = f"{self._form.fields['claim']}-{next(self._numbers)}"
