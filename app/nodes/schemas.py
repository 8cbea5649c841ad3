"""What the JSON API of nodes takes and gives, and what the forms of its pages send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.kit.access import MOST
from app.kit.network.addresses import without_credentials
from app.kit.text.json_values import JsonObject
from app.kit.web.http import answer_of
from app.kit.web.strict import Strict
from app.nodes.cameras import MOST_SOURCE, MOST_TYPE, Camera
from app.nodes.grants import MOST_CAMERAS
from app.nodes.model import WORKER_REPORT, DiscoveredCamera, Node, Side, WorkerReport, WorkerState
from app.nodes.wire import MAX_SEQ, MAX_SEQS

MAX_WAIT_S = 60.0
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
Name = Annotated[str, Field(max_length=255)]
Seq = Annotated[int, Field(ge=0, le=MAX_SEQ)]


class NewNode(Strict):
    name: Name
    """Name as Kubernetes allows it for nodes: lower-case letters, digits, '-' and '.', at most 63 characters."""
    side: Side = Side.EDGE
    replace: bool = False
    """Whether a registered node gets a new token; its orders stay."""


class RegisteredAnswer(BaseModel):
    name: str
    side: Side
    token: str
    """Shown this once."""
    command: str
    """Starts the agent on the node's machine."""


Names = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=MOST)]
Cameras = Annotated[dict[Annotated[str, Field(max_length=1000)], Names], Field(max_length=MOST_CAMERAS)]


class Access(Strict):
    """Names of users, and of groups as @group. Administrators may use everything."""

    allowed: Names | None = None
    """Who may use the node; null: everybody."""
    owners: Names = Field([])
    """Users and groups who, like administrators, may change this rule, the labels and the cameras. Only administrators
    can set them."""
    videos: Cameras = Field({})
    """By the id of a video, if fewer may use it: a user must be allowed here, too."""
    sources: Cameras = Field({})
    """By the path or pattern of a source that the node offers, in the same way."""


Labels = Annotated[
    dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]], Field(max_length=64)
]


class NodeLabels(Strict):
    labels: Labels
    """All labels of the node, such as {"site": "berlin"}, by the rules of Kubernetes."""


class NodesQuery(BaseModel):
    selector: Annotated[str, Field(max_length=4000)] = ""
    """Only those with these labels, as site=berlin,camera=yes."""


class CameraAnswer(BaseModel):
    id: str
    """Video jobs name it so, and services as video:ID."""
    type: str
    source: str
    """Without user and password."""


class DiscoveredCameraAnswer(BaseModel):
    """A camera on the network, as it describes itself."""

    address: str
    service: str
    """The URL of its ONVIF service."""
    name: str
    hardware: str


class CamerasAnswer(BaseModel):
    cameras: list[CameraAnswer]
    discovered: list[DiscoveredCameraAnswer]
    """Cameras that answer on the node's network, where its agent was started with --discover."""


class NewCamera(Strict):
    type: Annotated[str, Field(min_length=1, max_length=MOST_TYPE)]
    """What the camera shows, such as "traffic flow"."""
    source: Annotated[str, Field(min_length=1, max_length=MOST_SOURCE)]
    """A URL, or an absolute path on the node, that --source of its agent offers."""


class ChangedCamera(Strict):
    type: Annotated[str, Field(min_length=1, max_length=MOST_TYPE)] | None = None
    """New value; null: unchanged."""
    source: Annotated[str, Field(min_length=1, max_length=MOST_SOURCE)] | None = None
    """New value; null: unchanged."""


class WorkerAnswer(BaseModel):
    """State of a worker; kind, uid and part identify its order."""

    kind: str
    uid: str
    part: str
    namespace: str
    owner_name: str
    name: str
    generation: int
    state: WorkerState
    pid: int
    address: str
    restarts: int
    exit_code: int | None
    reason: str
    message: str
    log: list[str]
    started_at: str
    detail: JsonObject
    is_encrypted: bool = False
    """It accepts encrypted connections only, from nodes with a certificate."""


class TlsAnswer(BaseModel):
    mode: str
    """auto, required or off."""
    is_serving: bool
    """Workers that other machines call accept encrypted connections only."""
    issuer: str
    """Of the node's certificate: installation, given, or empty: it has none."""
    expires_at: str
    """Of the certificate."""
    problem: str
    """Why it has none, or not a new one."""


class NodeAnswer(BaseModel):
    name: str
    side: Side
    labels: dict[str, str]
    """By which services and jobs select it."""
    is_online: bool
    created_at: str
    last_seen_at: str | None
    address: str
    version: str
    cpu: float
    """Share in use, 0 to 1."""
    memory: float
    load: float
    memory_bytes: int
    cores: int
    free_disk_bytes: int
    accelerators: list[str]
    providers: list[str]
    """Execution providers that its onnxruntime was built with, as openvino and cpu."""
    provider: str
    """Used by services and stages without their own: auto, or the one that its agent was started with."""
    offers: JsonObject
    """What else it has, by kind of work, as {"videojobs": {"videos": {"0": {"type": "traffic flow"}}}}."""
    worker_states: dict[WorkerState, int]
    """How many of its workers are in which state; UNKNOWN while the node is offline."""
    tls: TlsAnswer
    """Of its links to other nodes."""
    order_problem: str
    """Why the node could not store what it was last told to run; empty: it could."""
    report_problem: str
    """Why the node cannot store what its workers report, which they keep meanwhile; empty: it can."""
    delivery_problem: str
    """Why the web server does not take its reports, which wait on its disk, as for lack of room; empty: it does."""
    lost_reports: int
    """How many stored reports of its workers its agent has dropped because too many waited for the web server."""
    lost_reports_at: str
    """When it dropped the last one; empty: none."""
    refused_reports: int
    """How many reports of its workers the web server has refused; its agent has dropped them."""
    refused_reports_at: str
    """When the last one was refused; empty: none."""
    workers: list[WorkerAnswer] | None
    """What each of them is, for administrators; null for others, whose services they need not be."""


class NodesAnswer(BaseModel):
    nodes: list[NodeAnswer]


class MessagesQuery(Strict):
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 25.0
    """Seconds that the response may wait for an order."""


class FrameAnswer(BaseModel):
    header: JsonObject
    """namespace, resourceKind, resourceName, operation, uid, part, seq, generation."""
    content: str
    """Base64 of a JSON object."""


class MessagesAnswer(BaseModel):
    messages: list[FrameAnswer]


class Acknowledged(BaseModel):
    seqs: Annotated[list[Seq], Field(max_length=MAX_SEQS)]
    """Numbers of the messages that the node has stored."""


class Report(BaseModel):
    """A heartbeat, due every ten seconds, and at once when the state of a worker changes."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    version: Annotated[str, Field(max_length=32)] = ""
    address: Annotated[str, Field(max_length=255)] = ""
    """Where other machines reach the workers of this one."""
    known: dict[str, Seq] | None = None
    """Orders that the node has when it connects: kind/uid/part → number of the order."""
    report: JsonObject


class CertificateRequest(Strict):
    request: Annotated[str, Field(max_length=10_000)]
    """A PKCS #10 request in PEM. Only its key counts: the certificate is for the node."""


class CertificateAnswer(BaseModel):
    certificate: str
    """PEM."""
    expires_at: str


class AuthoritiesAnswer(BaseModel):
    authorities: str
    """Certificates and lists of revoked certificates, PEM."""


class CameraForm(BaseModel):
    type: Annotated[str, Field(max_length=MOST_SOURCE)] = ""
    source: Annotated[str, Field(max_length=MOST_SOURCE)] = ""


class LabelForm(BaseModel):
    labels: Annotated[str, Field(max_length=30_000)] = ""


class NodeForm(BaseModel):
    name: Name = ""
    side: Side = Side.EDGE


def node_answer(node: Node, now: datetime, *, is_whole: bool) -> NodeAnswer:
    """is_whole: with its workers."""
    workers = node.workers_at(now)
    return answer_of(
        NodeAnswer,
        node,
        node.report,
        is_online=node.is_online(now),
        worker_states=Counter(worker.state for worker in workers),
        workers=[_describe_worker(worker) for worker in workers] if is_whole else None,
        tls=TlsAnswer(**vars(node.report.tls)),
    )


def camera_answer(camera: Camera) -> CameraAnswer:
    return CameraAnswer(id=camera.id, type=camera.type, source=without_credentials(camera.source))


def cameras_answer(cameras: Iterable[Camera], discovered: Iterable[DiscoveredCamera]) -> CamerasAnswer:
    seen = [DiscoveredCameraAnswer.model_validate(vars(one)) for one in discovered]
    return CamerasAnswer(cameras=[camera_answer(camera) for camera in cameras], discovered=seen)


def _describe_worker(worker: WorkerReport) -> WorkerAnswer:
    fields = WORKER_REPORT.write(worker)
    return WorkerAnswer(**fields.pop("key"), **fields)
