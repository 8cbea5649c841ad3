"""The HTML pages of training: endpoints parse, call one use case, render. ROUTES is their table.

Order matters: the fixed paths /ui/tasks/new and /ui/tasks/rows come before /ui/tasks/{task_id}.
"""

from __future__ import annotations

from app.training.pages import (
    all_tasks,
    cluster,
    embedded_programs,
    environments,
    log,
    metrics,
    new,
    sweep,
    task,
    task_actions,
    tasks,
)
from app.training.pages.cluster import only_where_on

ROUTES = only_where_on(
    [
        *tasks.ROUTES,
        *new.ROUTES,
        *task.ROUTES,
        *task_actions.ROUTES,
        *log.ROUTES,
        *embedded_programs.ROUTES,
        *metrics.ROUTES,
        *sweep.ROUTES,
        *cluster.ROUTES,
        *environments.ROUTES,
        *all_tasks.ROUTES,
    ]
)
