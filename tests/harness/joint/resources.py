"""Resources of joint inference as their users write them: the sample of the repository, and Sedna's spelling."""

from __future__ import annotations

import copy
import functools
from typing import Any

from app.joint_inference.documents import parse_document
from tests.harness.paths import SAMPLES

SAMPLE = SAMPLES / "helmet" / "service.yaml"
SEDNA = """
apiVersion: sedna.io/v1alpha1
kind: JointInferenceService
metadata:
  name: helmet-detection
spec:
  edgeWorker:
    model: {name: small}
    hardExampleMining:
      name: IBT
      parameters:
        - {key: threshold_img, value: "0.9"}
    template:
      spec:
        nodeName: edge0
        dnsPolicy: ClusterFirst
        containers:
          - name: little-model
            image: kubeedge/little:v0.5.0
            env:
              - {name: input_shape, value: "416,736"}
              - {name: secret, valueFrom: {secretKeyRef: {name: s, key: k}}}
  cloudWorker:
    model: {name: big}
    template:
      spec:
        nodeName: cloud0
        containers: [{name: big-model, env: [{name: input_shape, value: "544,544"}]}]
"""


def sample() -> dict[str, Any]:
    """Another one each time, which may be changed."""
    return copy.deepcopy(_read_sample())


@functools.cache
def _read_sample() -> dict[str, Any]:
    return dict(parse_document(SAMPLE.read_bytes()))
