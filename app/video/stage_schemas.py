"""What the JSON API takes and gives of stages, of where they can run, and of how long they would take."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.inference.model_card import ModelCard
from app.kit.access import MOST
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import Strict
from app.video.model.plan import VideoConf
from app.video.model.report import Measurement
from app.video.schemas import NAME, DagJson, FlowMappingJson, Text, VideoConfJson, VideoId


class NewStage(Strict):
    kind: Annotated[str, Field(pattern=NAME)]
    models: Annotated[
        list[Annotated[str, Field(max_length=255)] | list[Annotated[str, Field(max_length=255)]]], Field(max_length=3)
    ] = Field([])
    """By model_id: big, medium, small; of a kind that needs several models each entry names that many."""
    parameters: Annotated[dict[str, str], Field(max_length=50)] = Field({})


class StageAccess(Strict):
    """Names of users, and of groups as @group; null: everybody. Administrators may use everything."""

    allowed: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=MOST)] | None = None


class WhatIf(Strict):
    """A job, or a DAG on a node, and assumptions that differ from the current state."""

    job_uid: Text | None = None
    node: Text | None = None
    video_id: VideoId | None = None
    dag: DagJson | None = None
    nodes: dict[str, JsonObject] | None = None
    """name → {up_mbps, down_mbps, cpu_ratio, online}"""
    video_conf: VideoConfJson | None = None
    model_id: Annotated[int, Field(ge=0, le=2)] | None = None


class MeasurementQuery(Strict):
    node: Text = ""
    stage: Text = ""


class NodeVideosAnswer(BaseModel):
    node: str
    address: str
    is_online: bool
    last_seen_at: str | None
    videos: dict[str, dict[str, str]]
    media_server: str
    """URL below which it broadcasts pictures; empty: it has none."""


class NodesAnswer(BaseModel):
    nodes: list[NodeVideosAnswer]


class KindAnswer(BaseModel):
    name: str
    inputs: dict[str, str]
    optional: list[str]
    outputs: dict[str, str]
    metric: str
    models: int
    """How many models one variant has."""
    parameters: list[str]


class KindsAnswer(BaseModel):
    kinds: list[KindAnswer]
    generators: dict[str, dict[str, str]]
    render: dict[str, str]


class PoliciesAnswer(BaseModel):
    policies: dict[str, str]
    """name → what it does"""
    default: str


class StageAnswer(BaseModel):
    name: str
    kind: str
    models: list[list[str]]
    parameters: dict[str, str]
    variants: Annotated[list[list[JsonObject]], DescribedType(list[list[ModelCard]])]
    """The models as they are pinned."""
    problem: str = ""
    """Why these are older versions than the names refer to; empty: they are not."""


class StagesAnswer(BaseModel):
    stages: list[StageAnswer]


class PredictionAnswer(BaseModel):
    video_conf: VideoConf
    flow_mapping: FlowMappingJson
    delay_s: float
    """Seconds from a frame's capture to its result, along the slowest path through the DAG."""
    by_stage: dict[str, float]
    """stage → seconds, including transport and waiting."""
    fps: float
    """Sustainable frames per second, at most those of the plan."""
    bytes_up: float
    """To other nodes, per processed frame."""
    link_s: float
    """Seconds for which a processed frame occupies the slowest of its links; 0: none."""
    quality: float
    """0 to 1, relative to the biggest models at full size."""
    bottleneck: str
    """A node or a link, as: node edge0, link to cloud0."""
    is_measured: bool
    """False: a value had to be guessed."""


class WhatIfAnswer(BaseModel):
    """Fastest first."""

    predictions: list[PredictionAnswer]


class MeasurementsAnswer(BaseModel):
    measurements: list[Measurement]
