"""A client of Modelmill: `Modelmill`, and `AsyncModelmill` with the same verbs to be awaited."""

from __future__ import annotations

from modelmill_client._async.archived_job import AsyncArchivedJob
from modelmill_client._async.client import AsyncModelmill
from modelmill_client._async.job import AsyncJob
from modelmill_client._sync.archived_job import ArchivedJob
from modelmill_client._sync.client import Modelmill
from modelmill_client._sync.job import Job
from modelmill_client.archive_row import ArchiveRow
from modelmill_client.comparison import Comparison
from modelmill_client.errors import (
    ApiError,
    BadInput,
    BadUrl,
    Conflict,
    Damaged,
    Forbidden,
    JobFailed,
    JobNotFound,
    ModelmillError,
    NoImages,
    NotFound,
    TooMany,
    TooManyJobs,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitedEnough,
)
from modelmill_client.quality import Quality

Client = Modelmill
"""Another name of it."""

__all__ = [
    "ApiError",
    "ArchiveRow",
    "ArchivedJob",
    "AsyncArchivedJob",
    "AsyncJob",
    "AsyncModelmill",
    "BadInput",
    "BadUrl",
    "Client",
    "Comparison",
    "Conflict",
    "Damaged",
    "Forbidden",
    "Job",
    "JobFailed",
    "JobNotFound",
    "Modelmill",
    "ModelmillError",
    "NoImages",
    "NotFound",
    "Quality",
    "TooMany",
    "TooManyJobs",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WaitedEnough",
]
