"""Nodes as their pages show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.inference.predictor_options import ExecutionProvider, display_name_of
from app.kit.access import AccessRule
from app.kit.text.plain_text import by_number
from app.nodes.grants import Grants
from app.nodes.model import Node, NodeReport, WorkerReport, WorkerState

MOST_BYTES = 1 << 60
MOST_TEXT = 200
STATES = tuple(WorkerState)


@dataclass(frozen=True)
class VideoView:
    """A video that a node offers."""

    video_id: str
    type: str
    name: str
    problem: str = ""
    """Why it cannot be used."""


@dataclass(frozen=True)
class NodeView:
    """One node."""

    node: Node
    is_online: bool
    cpu: int
    """Per cent in use."""
    memory: int
    """Per cent in use."""
    memory_bytes: int
    free_disk_bytes: int
    states: tuple[tuple[WorkerState, int], ...]
    """The number of workers in each state, without zeros."""
    workers: tuple[WorkerReport, ...]
    """Only for those who may see them."""
    certificate_until: datetime | None = None
    """When its certificate expires; None: it has none, or the time is unknown."""
    lost_at: datetime | None = None
    """When its agent dropped the last report; None: it has dropped none, or the time is unknown."""
    refused_at: datetime | None = None
    """When the web server refused the last report; None: it has refused none, or the time is unknown."""
    providers: tuple[str, ...] = ()
    """The readable names of its onnxruntime's execution providers."""
    provider: str = ""
    """The readable name of the provider of its agent; empty: the first usable one."""
    decoding: str = ""
    """What decodes its videos; empty: unknown."""
    videos: tuple[VideoView, ...] = ()
    sources: tuple[str, ...] = ()
    """The sources that its agent offers: paths and patterns."""


def view_of(node: Node, now: datetime, *, is_whole: bool) -> NodeView:
    """Creates a view. Its figures are limited to plausible values, because a node may report anything."""
    report, workers = node.report, node.workers_at(now)
    count = Counter(worker.state for worker in workers)
    return NodeView(
        node=node,
        is_online=node.is_online(now),
        cpu=_to_percent(report.cpu),
        memory=_to_percent(report.memory),
        memory_bytes=_read_bytes(report.memory_bytes),
        free_disk_bytes=_read_bytes(report.free_disk_bytes),
        states=tuple((state, count[state]) for state in STATES if count[state]),
        workers=tuple(sorted(workers, key=_by_name)) if is_whole else (),
        certificate_until=_parse_moment(report.tls.expires_at),
        lost_at=_parse_moment(report.lost_reports_at),
        refused_at=_parse_moment(report.refused_reports_at),
        providers=tuple(display_name_of(name) for name in report.providers),
        provider="" if report.provider == ExecutionProvider.AUTO else display_name_of(report.provider),
        decoding=_describe_decoding(report),
        videos=_list_videos(report),
        sources=tuple(_list_offered(report, "sources")),
    )


@dataclass(frozen=True)
class AccessField:
    """A field of the form that sets who may use a node, or one of its cameras."""

    name: str
    """The name of the form's field."""
    kind: str
    """videos, sources or owners; empty: the node."""
    camera: str
    text: str


def access_fields(node: Node, grants: Grants, sent: Mapping[str, str], *, is_admin: bool) -> list[AccessField]:
    """Returns fields for the node, for each camera that it offers, and for restricted cameras that are gone.

    Args:
        node: the node with its offers.
        grants: the current rules.
        sent: the form's values, which replace the current ones.
        is_admin: whether there is a field for its owners.
    """
    cameras = [
        (kind, name, allowed)
        for kind, narrowed in (("videos", grants.videos), ("sources", grants.sources))
        for name, allowed in {**dict.fromkeys(_list_offered(node.report, kind), AccessRule()), **narrowed}.items()
    ]
    owners = [("owners", "owners", "", grants.owners)] if is_admin else []
    rows = [
        ("allowed", "", "", grants.node),
        *owners,
        *((f"{kind}.{name}", kind, name, rule) for kind, name, rule in cameras),
    ]
    return [AccessField(field, kind, name, sent.get(field, rule.text)) for field, kind, name, rule in rows]


def _parse_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _list_offered(report: NodeReport, what: str) -> list[str]:
    kinds = [kind.get(what) for kind in report.offers.values() if isinstance(kind, Mapping)]
    return [str(name)[:MOST_TEXT] for names in kinds if isinstance(names, Mapping) for name in names]


def _describe_decoding(report: NodeReport) -> str:
    texts = (kind.get("decoding") for kind in report.offers.values() if isinstance(kind, Mapping))
    return next((str(text)[:MOST_TEXT] for text in texts if text), "")


def _list_videos(report: NodeReport) -> tuple[VideoView, ...]:
    """Returns the videos of all kinds of work."""
    kinds = [kind.get("videos") for kind in report.offers.values() if isinstance(kind, Mapping)]
    return tuple(
        VideoView(str(video_id), _get_text(video, "type"), _get_text(video, "name"), _get_text(video, "problem"))
        for videos in kinds
        if isinstance(videos, Mapping)
        for video_id, video in sorted(videos.items(), key=lambda item: by_number(str(item[0])))
        if isinstance(video, Mapping)
    )


def _get_text(video: Mapping[str, Any], name: str) -> str:
    value = video.get(name)
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _by_name(worker: WorkerReport) -> tuple[str, str, str]:
    return worker.namespace, worker.owner_name, worker.key.part


def _to_percent(share: float) -> int:
    return round(100 * min(1.0, max(0.0, share)))


def _read_bytes(count: int) -> int:
    return min(MOST_BYTES, max(0, count))
