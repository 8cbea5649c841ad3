"""The HTML pages of video: endpoints parse, call one use case, render. ROUTES is their table.

Order matters: the fixed paths, as /ui/video/new, come before /ui/video/{uid}.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from app.results.pages import routes
from app.video.pages.actions import ROUTES as ACTIONS
from app.video.pages.job import ROUTES as JOB
from app.video.pages.job import producer_in
from app.video.pages.job_list import ROUTES as LISTING
from app.video.pages.job_sets import ROUTES as SETS
from app.video.pages.new import ROUTES as NEW
from app.video.pages.recording_page import ROUTES as RECORDING
from app.video.pages.stages import ROUTES as STAGES
from app.video.pages.what_if import ROUTES as WHAT_IF

RESULTS = routes("/ui/video/{uid}", producer_in)
ROUTES: list[BaseRoute] = [*LISTING, *NEW, *SETS, *STAGES, *WHAT_IF, *ACTIONS, *RECORDING, *RESULTS, *JOB]
