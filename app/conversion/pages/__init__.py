"""The HTML pages of conversion: each endpoint parses the request, calls one use case and renders. `ROUTES` lists them.

Order matters: fixed paths (/ui/jobs/new, /ui/jobs/compare) come before /ui/jobs/{job_id}.
"""

from __future__ import annotations

from app.conversion.pages import (
    answers,
    archive,
    compare,
    from_home,
    graph,
    job,
    job_edit,
    jobs,
    new,
    quality,
    results,
    search,
    selection,
    system,
)

ROUTES = [
    *jobs.ROUTES,
    *selection.ROUTES,
    *new.ROUTES,
    *from_home.ROUTES,
    *compare.ROUTES,
    *job.ROUTES,
    *job_edit.ROUTES,
    *quality.ROUTES,
    *answers.ROUTES,
    *graph.ROUTES,
    *system.ROUTES,
    *results.ROUTES,
    *archive.ROUTES,
    *search.ROUTES,
]
