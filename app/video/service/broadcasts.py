"""Checks of a new job that is to be broadcast."""

from __future__ import annotations

from sqlalchemy import Connection

from app.kit.errors import Conflict
from app.video import store
from app.video.errors import BadDag
from app.video.model.broadcast import PLACE
from app.video.model.job import VideoJob
from app.video.service.resources import NodeVideos


def check_media_server(job: VideoJob, node: NodeVideos) -> None:
    """Raises BadDag for a broadcast from a node without a media server."""
    if job.dag.broadcast is not None and not node.media_server:
        raise BadDag(
            f"{PLACE}: the node {node.node!r} has no media server.",
            hint="Its administrator gives its agent one: modelmill node --media-server rtsp://…",
            detail={"place": PLACE},
        )


def check_path(conn: Connection, job: VideoJob) -> None:
    """Raises Conflict for a broadcast under the path of another job of this node, since one would replace the other."""
    path = job.dag.broadcast.path if job.dag.broadcast is not None else ""
    broadcasts = (
        [stored.job.dag.broadcast for stored in store.unended(conn) if stored.job.node == job.node] if path else ()
    )
    if any(broadcast is not None and broadcast.path == path for broadcast in broadcasts):
        raise Conflict(
            f"A job on {job.node} is broadcast as {path!r} already.", hint="Choose another path, or leave it out."
        )
