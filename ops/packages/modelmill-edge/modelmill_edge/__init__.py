"""Joint inference of Modelmill from your own programs.

JointInference asks the edge worker that an agent runs on this machine; BigModelService serves your own big model to the
edge workers of a service.
"""

from modelmill_edge.big_model import BigModelService
from modelmill_edge.errors import EdgeError, Refused, ServiceNotRunning, Unreachable
from modelmill_edge.joint_inference import JointInference
from modelmill_edge.picture import Picture
from modelmill_edge.prediction import Box, Outcome, Prediction
from modelmill_edge.sinks import JsonLines
from modelmill_edge.sources import frames

__all__ = [
    "BigModelService",
    "Box",
    "EdgeError",
    "JointInference",
    "JsonLines",
    "Outcome",
    "Picture",
    "Prediction",
    "Refused",
    "ServiceNotRunning",
    "Unreachable",
    "frames",
]
