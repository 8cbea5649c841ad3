"""What Dramatiq runs, less patient: `dramatiq tests.harness.joint.hurried_actors` in place of `dramatiq actors`."""

from __future__ import annotations

from actors import nodes
from app.joint_inference.service import controller

controller.IMPATIENT_S = 1
nodes.LOOK_S = 1.0
