"""What Dramatiq runs, more patient: `dramatiq tests.harness.video.patient_actors` in place of `dramatiq actors`."""

from __future__ import annotations

import actors  # noqa: F401  # what is run
from app.nodes import model as nodes
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.service import planner

nodes.OFFLINE_AFTER_S = 600.0
planner.GAP_S = 10.0
(PolicyRunner.__init__.__kwdefaults__ or {})["limit_s"] = 60.0
