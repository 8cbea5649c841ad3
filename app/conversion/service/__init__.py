"""The verbs of conversion. Each module is one subject; `Conversion` holds them together for api, pages and actors."""

from __future__ import annotations

from dataclasses import dataclass

from app.conversion import model
from app.conversion.job_index import JobIndex
from app.conversion.model import JobRecord
from app.conversion.service.admission import Admission
from app.conversion.service.dispatch import Dispatch
from app.conversion.service.edits import Edits
from app.conversion.service.estimates import Estimates
from app.conversion.service.expiry import CacheSweep, Expiry
from app.conversion.service.jobs import Jobs
from app.conversion.service.previews import Previews
from app.conversion.service.receipts import Receipts
from app.conversion.service.results import Results
from app.conversion.service.resumable_uploads import ResumableUploads
from app.conversion.service.submissions import Submissions
from app.conversion.service.uploads import Uploads
from app.conversion.stage_cache import CacheFigures, StageCache
from app.conversion.work_leases import WorkLeases
from app.kit.clock import now
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class Conversion:
    uploads: Uploads
    resumable_uploads: ResumableUploads
    submissions: Submissions
    jobs: Jobs
    index: JobIndex
    edits: Edits
    dispatch: Dispatch
    estimates: Estimates
    expiry: Expiry
    previews: Previews
    results: Results
    receipts: Receipts
    cache: StageCache
    cache_figures: CacheFigures
    cache_sweep: CacheSweep
    work_leases: WorkLeases

    def job_json(self, record: JobRecord) -> JsonObject:
        """A job as the API shows it: the record, and values from comparison with other jobs."""
        return {
            **model.to_json(record),
            "queue_position": self.jobs.queue_position(record),
            "is_far_over_usual_time": self.estimates.is_far_over(record, now()),
        }
