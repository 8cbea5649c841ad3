"""The API of video under /api/v2/video: OPERATIONS is its table of routes."""

from __future__ import annotations

from app.video.job_endpoints import OPERATIONS as JOBS
from app.video.job_set_endpoints import OPERATIONS as SETS
from app.video.recording_endpoints import OPERATIONS as RECORDINGS
from app.video.stage_endpoints import OPERATIONS as STAGES

OPERATIONS = [*STAGES, *JOBS, *SETS, *RECORDINGS]
