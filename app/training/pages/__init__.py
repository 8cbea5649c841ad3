"""The HTML pages of training: endpoints parse, call one use case, render. ROUTES is their table.

Order matters: the fixed paths /ui/tasks/new and /ui/tasks/rows come before /ui/tasks/{task_id}.
"""

from __future__ import annotations

from app.training.pages import (
    all_tasks,
    cluster,
    environments,
    log,
    metrics,
    new,
    ray_dashboard,
    sweep,
    task,
    task_actions,
    tasks,
    tensorboard,
)
from app.training.pages.cluster import only_where_on

ROUTES = only_where_on(
    [
        *tasks.ROUTES,
        *new.ROUTES,
        *task.ROUTES,
        *task_actions.ROUTES,
        *log.ROUTES,
        *ray_dashboard.ROUTES,
        *tensorboard.ROUTES,
        *metrics.ROUTES,
        *sweep.ROUTES,
        *cluster.ROUTES,
        *environments.ROUTES,
        *all_tasks.ROUTES,
    ]
)
