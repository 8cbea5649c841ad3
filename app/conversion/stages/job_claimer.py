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
"""Stands in the form of a claim for the token, which is another for each job."""


class JobClaimer:
    """Claims jobs for the stage of one worker.

    Args:
        stage: of the worker.
        slot: of the worker: says what it does should it die.
        broker: gives back what was claimed and not started.
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
        """Nothing is being done; a new claim is ready."""
        token = token_hex(16)
        self._claim = model.claimed(self.stage, worker=self.slot.name, token=token)
        self._text = self._form.replace(TOKEN, token)
        self._note("", "")

    def take(self, job_id: str, work_dir: Path) -> JobRecord | None:
        """The job, if it is this worker's now. The slot knows before any work starts, should this process die."""
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
