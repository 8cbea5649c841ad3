"""The operations on video: users' jobs, stages of the catalog, plans, and reports from nodes."""

from __future__ import annotations

from dataclasses import dataclass

from app.video.service.catalogue import Catalogue
from app.video.service.clips import Clip, Clips, RecordingReport
from app.video.service.controller import Controller
from app.video.service.job_sets import JobSets
from app.video.service.jobs import Jobs
from app.video.service.pictures import Pictures, Snapshots
from app.video.service.planner import Planner
from app.video.service.reports import Reports, SeriesPoint, plots_in
from app.video.service.resources import NodeVideos, Resources
from app.video.service.submission import Submission
from app.video.store import DecisionRecord, JobEvent


@dataclass(frozen=True)
class Video:
    catalogue: Catalogue
    jobs: Jobs
    sets: JobSets
    resources: Resources
    planning: Planner
    reports: Reports
    pictures: Pictures
    clips: Clips
    controller: Controller
