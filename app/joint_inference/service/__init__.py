"""Joint inference: users' services, the reports of their workers, and the controllers that run them."""

from __future__ import annotations

from dataclasses import dataclass

from app.joint_inference.service.controller import Controller
from app.joint_inference.service.hard_samples import HardSamples
from app.joint_inference.service.reports import Reports, TallyPoint
from app.joint_inference.service.service_planner import ServicePlanner
from app.joint_inference.service.services import Services
from app.joint_inference.service.worker_views import WorkerView
from app.joint_inference.store import ServiceEvent


@dataclass(frozen=True)
class Joint:
    services: Services
    reports: Reports
    samples: HardSamples
    controller: Controller
