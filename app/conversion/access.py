"""Request dependencies shared by all endpoints of conversion, JSON and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from app.conversion.model import JobRecord
from app.conversion.service import Conversion
from app.conversion.service.batches import Batches
from app.kit.web.auth import user_of
from app.kit.web.state import FromContainer

if TYPE_CHECKING:
    from app.conversion.service.archive import Archive

conversion_of = FromContainer[Conversion]("conversion")
archive_of: FromContainer[Archive] = FromContainer("archive")
batches_of: FromContainer[Batches] = FromContainer("sweeps")
"""What carries out several conversions that belong together."""


def find_known_job(request: Request, job_id: str) -> tuple[JobRecord, str]:
    """Returns a job, or what the archive has of it, and the part of the pages that shows it: jobs or archive.

    Raises:
        JobNotFound: This user has neither.
    """
    jobs, user = conversion_of(request).jobs, user_of(request)
    present = jobs.several([job_id], user)
    return (present[0], "jobs") if present else (jobs.known(job_id, user), "archive")
