"""The arguments and result of a scheduling policy: the requirement's function, keyword-only and pure.

Custom policies are entry points of the group `modelmill.video_policies`, `name = "package.module:function"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Protocol

from typing_extensions import TypedDict

from app.kit.text.json_values import JsonObject
from app.video.model.report import PlanResult

ENTRY_POINTS = "modelmill.video_policies"
DEFAULT = "profile"
LIMIT_S = 1.0
"""Seconds. A policy that takes longer is ended, and the last plan stays."""


class StageFacts(TypedDict):
    kind: str
    n_models: int
    """How many variants it has: model_id 0 … n_models-1, big first."""
    before: list[str]
    """Stages it waits for."""
    pictures: bool
    """It is given the picture, which has to be carried to where it runs."""


class DagInfo(TypedDict):
    """The requirement's {generator, flow, input}, and beside it what the product knows of the stages. flow is a list,
    the generator first, also of a graph: an order in which each stage comes after what it needs."""

    generator: str
    flow: list[str]
    input: dict[str, dict[str, str]]
    stages: dict[str, StageFacts]


class ServiceInfo(TypedDict):
    """A stage on a node that serves it. The figures are those of all stages of the node together."""

    n_process: int
    """How many processes compute."""
    cpu_ratio: float
    """The share of the node that they use, 0..1."""
    mem_ratio: float
    """The share of the node's memory that they use, 0..1."""
    url: NotRequired[str]
    queue: NotRequired[int]
    """Calls that wait."""


class NodeInfo(TypedDict):
    """A node as a policy sees it."""

    node: str
    ip: str
    role: str
    """Seen from the job: host, edge or cloud."""
    online: bool
    cpu_ratio: float
    video_ratio: NotRequired[float]
    """The part of it that the runners and stages of video jobs use, as far as the node reports it."""
    mem_ratio: float
    cores: int
    accelerators: list[str]
    up_mbps: float | None
    """From the job's host to this node; None: not known yet."""
    down_mbps: float | None
    age_s: float
    """Since its last report."""
    service: dict[str, ServiceInfo]


ResourceInfo = dict[str, NodeInfo]
"""By node_ip; of nodes that share an address, by name."""


class ConstraintInfo(TypedDict):
    delay: tuple[float, float]
    """[lo, hi] in seconds; lo -1: none."""
    quality: float
    given: JsonObject
    """As the user wrote it."""


class GeneratorInfo(TypedDict):
    seq: NotRequired[int]
    bytes: NotRequired[float]
    """Of a frame as it is sent now."""
    objects: NotRequired[int]
    """Boxes in the newest frame."""
    fps: NotRequired[float]
    """Of the source itself, where it says."""
    width: NotRequired[int]
    height: NotRequired[int]


class Measured(TypedDict):
    """A row of the profile: see Measurement."""

    node: str
    stage: str
    model_id: int
    resolution: str
    delay_s: float
    bytes: float
    quality: float


class VideoConfAnswer(TypedDict, total=False):
    resolution: str
    fps: float
    nskip: int
    ntracking: int
    encoder: str


class PlaceAnswer(TypedDict):
    model_id: int
    node_role: str
    node_ip: str


Answer = tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]
"""(video_conf, flow_mapping): VideoConfAnswer, flat or by stage, and stage → PlaceAnswer."""


PolicyState = JsonObject
"""What a policy remembers of one job, as JSON; see `Policy`."""


class Policy(Protocol):
    def __call__(
        self,
        *,
        job_uid: str,
        dag: DagInfo,
        resource_info: ResourceInfo,
        last_plan_res: PlanResult | None,
        user_constraint: ConstraintInfo,
        generator_output: GeneratorInfo | None = None,
        state: PolicyState | None = None,
    ) -> Answer:
        """Decide. state: this job's own, JSON, kept between calls; change it in place. Beside what the policy puts
        there it has `last_plan` ({video_conf, flow_mapping} or None), `profile` ([Measured, …]) and `now` (seconds,
        steady), which are set again before each call. state["reason"], if set: why, in one sentence, for the log."""
