"""The completion of a job: its receipt and its description are stored beside its artifacts before it is reported as
completed, so a job that was seen as COMPLETED is in the archive.

Valkey may be killed at any point. Before the description is stored the job is not in the archive at all; afterwards it
is there completely. Everything here may be repeated.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from app.conversion import model, object_keys
from app.conversion.model import Change, Status
from app.conversion.service.descriptions import Descriptions
from app.conversion.service.receipts import Receipts
from app.conversion.store import JobStore
from app.kit.errors import ModelmillError

logger = logging.getLogger(__name__)


class Completion:
    def __init__(self, store: JobStore, descriptions: Descriptions, receipts: Receipts) -> None:
        self.store = store
        self.descriptions = descriptions
        self.receipts = receipts

    def prepare(self, job_id: str, change: Change) -> Change:
        """Runs before the job is reported as completed. Returns the change with the receipt in it.

        An unavailable store does not delay the end of the job: it is archived later (see `catch_up`).
        """
        record = self.store.get(job_id)
        if record is None or record.status is not change.status:
            return change
        try:
            with_receipt = model.with_artifacts(change, self.receipts.write(model.applied(record, change)))
            self.descriptions.write(model.applied(record, with_receipt))
        except ModelmillError as error:
            logger.warning("Job %s is archived later: %s", job_id, error.message, extra={"job_id": job_id})
            self.store.note_unarchived(job_id)
            return change
        self.store.note_archived(record.owner, job_id)
        return with_receipt

    def settle(self, job_id: str) -> None:
        """Runs after the change was made or refused: the archive contains the job if and only if it has completed.

        A job that is forgotten stays in the archive as long as it was not deleted: a reset ends jobs, not what they
        made.
        """
        record = self.store.get(job_id)
        if record is not None and record.status is Status.COMPLETED:
            return
        archived = self.descriptions.read(job_id)
        if archived is not None and (
            record is not None or not self.descriptions.is_owned(job_id, archived.record.owner)
        ):
            self.descriptions.remove(job_id)
            self.receipts.remove(job_id)
            self.store.note_archived(archived.record.owner, job_id)

    def catch_up(self) -> None:
        """Archives jobs that could not be archived when they completed."""
        for job_id in self.store.unarchived():
            record = self.store.get(job_id)
            if record is not None and record.status is Status.COMPLETED:
                receipt = self.receipts.write(record)
                if receipt:
                    self.store.add_artifacts(job_id, receipt)
                self.descriptions.write(replace(record, artifacts={**record.artifacts, **receipt}))
                self.store.note_archived(record.owner, job_id)
            self.store.forget_unarchived(job_id)


def completes(change: Change) -> bool:
    """Whether the change completes a job with an output file."""
    is_last_output = f"{model.ARTIFACT}{object_keys.LAST_OUTPUT}" in change.fields
    return change.is_end and change.fields["status"] == Status.COMPLETED and is_last_output
