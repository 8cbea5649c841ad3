"""The resource picture: nodes, their videos, their free capacity, and the bandwidth to them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.kit.clock import from_text
from app.kit.text.json_values import is_number
from app.kit.text.plain_text import by_number
from app.nodes.model import Node, Operation, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.service import Nodes
from app.video.errors import VideoNotFound
from app.video.model.job import JOBS, SERVICES, SERVICES_PART, StageHost, VideoJob
from app.video.model.plan import Role
from app.video.scheduling.contract import NodeInfo, ResourceInfo, ServiceInfo

MAX_UID = 36
"""Characters of a uid in an order's key: see app.nodes.wire."""
_ROLE_ORDER = list(Role)
_SERVED_AT = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")


@dataclass(frozen=True)
class NodeVideos:
    """A node and the videos that it offers."""

    node: str
    address: str
    """ip:port of its agent, the requirement's node_addr."""
    is_online: bool
    last_seen_at: str | None
    videos: Mapping[str, Mapping[str, str]]
    """id → {type, name}, and where the node knows them: size (as 270x480), fps, live ("yes"), problem (why it
    cannot be used) and refused ("yes": the node opens it for nobody)."""
    media_server: str = ""
    """The URL below which it broadcasts pictures, without user and password; empty: it has none."""


class Resources:
    """What nodes offer to jobs, as they have last reported it."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def videos(self, user: str, now: datetime) -> list[NodeVideos]:
        """The nodes with videos for this user, by name."""
        return [offer for node in self.nodes.access.seen_by(user) if (offer := videos_of(node, now)).videos]

    def of_node(self, name: str, now: datetime) -> NodeVideos | None:
        """All videos of a node, whoever may use them."""
        node = self.nodes.find(name)
        return videos_of(node, now) if node else None

    def may_use(self, job: VideoJob, now: datetime) -> bool:
        """May the job's user use its node and video? Also true when either is gone: then there is nothing to
        withhold."""
        offered, node = self.of_node(job.node, now), self.nodes.access.find_for(job.owner, job.node)
        if offered is None:
            return True
        return node is not None and (job.video_id in videos_of(node, now).videos or job.video_id not in offered.videos)

    def find(self, user: str, name_or_address: str, now: datetime) -> NodeVideos | None:
        """Returns a node with videos for this user by its name, or else by its agent's address; None: there is none."""
        offers = self.videos(user, now)
        by_name = (offer for offer in offers if offer.node == name_or_address)
        by_address = (offer for offer in offers if offer.address == name_or_address and offer.address)
        return next(by_name, None) or next(by_address, None)

    def video_of(self, user: str, node: str, video_id: str, now: datetime) -> NodeVideos:
        """Returns the node of a video, with all its videos.

        Args:
            node: by name.

        Raises:
            VideoNotFound: It is not there, or this user may not use it.
        """
        video = self.find(user, node, now)
        if video is None:
            names = ", ".join(node_videos.node for node_videos in self.videos(user, now)[:10]) or "none"
            raise VideoNotFound(f"There is no node {node[:64]!r} with videos.", hint=f"Nodes with videos: {names}.")
        if video_id not in video.videos:
            raise VideoNotFound(
                f"The node {video.node!r} has no video {video_id[:64]!r}.",
                hint=f"Its videos: {', '.join(video.videos)}.",
            )
        return video

    def is_online(self, node: str, now: datetime) -> bool:
        known_node = self.nodes.find(node)
        return known_node is not None and known_node.is_online(now)

    def hosts(self, user: str, job_node: str, now: datetime) -> tuple[StageHost, ...]:
        """Where stages are served now for this user, with their roles as seen from that node: nodes that are online and
        whose host of stages runs. By role, then by name."""
        return self.hosts_among(self.nodes.access.seen_by(user), job_node, now)

    def hosts_among(
        self, nodes: Iterable[Node], job_node: str, now: datetime, secrets: Mapping[str, str] | None = None
    ) -> tuple[StageHost, ...]:
        """As hosts, of nodes that were read already.

        Args:
            nodes: the nodes to choose from.
            job_node: the node as seen from which they have roles.
            now: the current time.
            secrets: of their hosts of stages, by node, if these were read already, too.
        """
        serving = [(node, worker) for node in nodes if (worker := host_of(node, now)) is not None]
        secrets = self.secrets() if secrets is None else secrets
        hosts = [
            StageHost(node.name, role_of(node, job_node).value, node.address, worker.url, secrets[node.name])
            for node, worker in serving
            if node.name in secrets
        ]
        return tuple(sorted(hosts, key=lambda host: (_ROLE_ORDER.index(Role(host.role)), host.node)))

    def secrets(self) -> dict[str, str]:
        """The secret of each host of stages that is ordered, by node."""
        with self.nodes.database.read() as conn:
            orders = self.nodes.orders_of_kind(conn, SERVICES)
        return {
            order.node: str(order.content.get("secret", ""))
            for order in orders
            if order.key == host_key(order.node) and order.operation is not Operation.DELETE
        }

    def info(self, job: VideoJob, now: datetime) -> ResourceInfo:
        """Nodes for the job's user that serve stages, or are told to, and the job's own. online: heard of, and its host
        of stages runs.

        service: by the stages' names as the job has them; of others' jobs nothing is told."""
        visible = self.nodes.access.seen_by(job.owner)
        nodes = [node for node in visible if node.name == job.node or node.worker(host_key(node.name))]
        shared = Counter(node.address for node in nodes)
        ways = _collect_bandwidths(nodes, job, now)
        return {
            node.name if shared[node.address] > 1 or not node.address else node.address: _build_info(
                node, job, ways, now
            )
            for node in nodes
        }


def naming_only(info: ResourceInfo, stages: Collection[str]) -> ResourceInfo:
    """Returns the nodes; of the stages that they serve, only those named here."""
    return {
        key: {**node, "service": {name: service for name, service in node["service"].items() if name in stages}}
        for key, node in info.items()
    }


def host_key(node: str) -> WorkKey:
    """The key of the order that tells this node to serve stages. Names of nodes may be longer than a uid."""
    uid = node if len(node) <= MAX_UID else hashlib.sha256(node.encode()).hexdigest()[:MAX_UID]
    return WorkKey(SERVICES, uid, SERVICES_PART)


def host_of(node: Node, now: datetime) -> WorkerReport | None:
    """Its host of stages, if that runs and the node is online."""
    return running_worker(node, host_key(node.name), now)


def running_worker(node: Node, key: WorkKey, now: datetime) -> WorkerReport | None:
    """What a node that is online runs under this key, if it serves at host:port. Requests go there, so that nothing
    else is taken for an address."""
    worker = node.worker(key)
    if worker is None or not node.is_online(now) or worker.state is not WorkerState.RUNNING:
        return None
    return worker if _SERVED_AT.fullmatch(worker.address) else None


def role_of(node: Node, job_node: str) -> Role:
    """The role of a node, as seen from the node of a job."""
    if node.name == job_node:
        return Role.HOST
    return Role.EDGE if node.side is Side.EDGE else Role.CLOUD


def videos_of(node: Node, now: datetime) -> NodeVideos:
    """The videos that a node offers. Its report may have any form."""
    offer = node.report.offers.get(JOBS)
    offer = offer if isinstance(offer, Mapping) else {}
    videos = offer.get("videos")
    return NodeVideos(
        node.name,
        str(offer.get("address", "")),
        node.is_online(now),
        node.last_seen_at,
        {
            str(video_id): {key: str(value) for key, value in video.items()}
            for video_id, video in sorted(
                videos.items() if isinstance(videos, Mapping) else (), key=lambda entry: by_number(str(entry[0]))
            )
            if isinstance(video, Mapping)
        },
        str(offer.get("media_server", "")),
    )


def _build_info(node: Node, job: VideoJob, ways: Mapping[str, Sequence[float | None]], now: datetime) -> NodeInfo:
    host, report = host_of(node, now), node.report
    up, down = ways.get(node.name, (None, None))
    age_s = (now - from_text(node.last_seen_at)).total_seconds() if node.last_seen_at else float("inf")
    return NodeInfo(
        node=node.name,
        ip=node.address,
        role=role_of(node, job.node).value,
        online=host is not None,
        cpu_ratio=report.cpu,
        video_ratio=sum(report.worker_cpu.get(kind, 0.0) for kind in (JOBS, SERVICES)),
        mem_ratio=report.memory,
        cores=report.cores,
        accelerators=list(report.accelerators),
        up_mbps=up,
        down_mbps=down,
        age_s=round(min(max(0.0, age_s), 1e9), 3),
        service=_collect_services(host, job) if host else {},
    )


def _collect_services(host: WorkerReport, job: VideoJob) -> dict[str, ServiceInfo]:
    own = {f"{job.uid}/{stage.name}": stage.name for stage in job.stages}
    served = host.detail.get("stages")
    served = served if isinstance(served, Mapping) else {}
    names = {str(own.get(key, key)) for key in served if key in own or "/" not in str(key)}
    return {
        name: ServiceInfo(
            n_process=int(_read_number(host.detail.get("n_process")) or 0),
            cpu_ratio=_read_number(host.detail.get("cpu_ratio")) or 0.0,
            mem_ratio=_read_number(host.detail.get("mem_ratio")) or 0.0,
            queue=int(_read_number(host.detail.get("queue")) or 0),
            url=f"{host.url}/service/{name}",
        )
        for name in sorted(names)
    }


def _collect_bandwidths(
    nodes: Iterable[Node], job: VideoJob, now: datetime
) -> dict[str, tuple[float | None, float | None]]:
    """node → (up, down) from the job's node, as its host of stages measured them, or as the frames of the job went
    there, whichever is newer; Mbit/s."""
    own = next((node for node in nodes if node.name == job.node), None)
    host = host_of(own, now) if own else None
    probed = host.detail.get("way") if host else None
    ways, measured_at = dict[str, tuple[float | None, float | None]](), dict[str, float]()
    for node, way in probed.items() if isinstance(probed, Mapping) else ():
        if isinstance(way, Mapping):
            ways[node] = _read_number(way.get("up_mbps")), _read_number(way.get("down_mbps"))
            measured_at[node] = _to_timestamp(way.get("at"))
    sent = job.plan_result.get("up_mbps")
    for node, up in sent.items() if isinstance(sent, Mapping) and job.reported_at else ():
        if _read_number(up) is not None and _to_timestamp(job.reported_at) >= measured_at.get(node, 0.0):
            ways[node] = _read_number(up), ways.get(node, (None, None))[1]
    return ways


def _read_number(value: Any) -> float | None:
    return float(value) if is_number(value) and value >= 0 else None


def _to_timestamp(value: Any) -> float:
    """Seconds since the epoch; 0 if the value is no time."""
    try:
        return from_text(value).timestamp() if isinstance(value, str) else _read_number(value) or 0.0
    except (ValueError, OverflowError):
        return 0.0
