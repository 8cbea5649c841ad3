"""The HTML pages of joint inference: endpoints parse, call one use case, render. ROUTES is their table.

Order matters: the fixed paths /ui/services/new and /ui/services/rows come before /ui/services/{namespace}/{name}.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from app.joint_inference.pages import actions, calibration, calibration_new, drift, new, service, service_list
from app.results.pages import routes

ROUTES: list[BaseRoute] = [
    *service_list.ROUTES,
    *new.ROUTES,
    *calibration.ROUTES,
    *calibration_new.ROUTES,
    *drift.ROUTES,
    *actions.ROUTES,
    *routes("/ui/services/{namespace}/{name}", service.producer_in),
    *service.ROUTES,
]
