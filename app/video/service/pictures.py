"""Pictures of jobs: snapshots that runners send, and where the live picture is to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from app.kit.errors import BadRequest, TooLarge
from app.kit.objects import ObjectStore
from app.kit.objects.content import find_content
from app.nodes.service import Nodes
from app.video import store
from app.video.errors import NoPicture
from app.video.model.job import JobState
from app.video.service.jobs import Jobs, job_not_found
from app.video.service.orders import job_key
from app.video.service.reports import require_authorized
from app.video.service.resources import running_worker

MAX_PICTURE_BYTES = 2 << 20
JPEG_BEGIN, JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"


@dataclass(frozen=True)
class LiveStream:
    """Where the live picture of a job is to be had."""

    url: str
    """Of the runner's MJPEG."""
    secret: str
    """Its bearer token."""


@dataclass(eq=False)
class Pictures:
    """Pictures of jobs, as nodes send them.

    Args:
        snapshots: the newest picture of each job.
        on_snapshot: hears of each picture that a node has sent: uid, JPEG, when it came.
        keep_clips: makes the clips of the newest events of a recorded job be fetched soon, by its uid.
    """

    jobs: Jobs
    nodes: Nodes
    snapshots: Snapshots
    _: KW_ONLY
    on_snapshot: Callable[[str, bytes, datetime], None]
    keep_clips: Callable[[str], None]

    def live(self, user: str, uid: str, *, now: datetime) -> LiveStream | None:
        """Returns where its pictures come from; None while it does not run or its node is silent."""
        job = self.jobs.get(user, uid)
        node = self.nodes.access.find_for(user, job.node)
        if job.state is JobState.DONE or node is None:
            return None
        worker = running_worker(node, job_key(uid), now)
        return LiveStream(f"{worker.url}/user/video/{uid}", job.secret) if worker else None

    def put_snapshot(self, node: str, uid: str, picture: bytes, *, now: datetime) -> None:
        """Keep a picture of a job, instead of the one before. One that comes after the job's end is dropped.

        Args:
            node: that sends it.
            picture: a JPEG.

        Raises:
            TooLarge: It has more than MAX_PICTURE_BYTES.
            BadRequest: It is no whole JPEG.
            VideoJobNotFound: This node does not run the job.
        """
        if len(picture) > MAX_PICTURE_BYTES:
            raise TooLarge(f"A picture has at most {MAX_PICTURE_BYTES >> 20} MiB.", hint="Send a smaller one.")
        if not picture.startswith(JPEG_BEGIN) or JPEG_END not in picture[-64:]:
            raise BadRequest("That is no JPEG.", hint="Send a whole one.")
        with self.jobs.database.read() as conn:
            job = require_authorized(store.get(conn, uid), uid, node=node, user="").job
        if job.state is JobState.DONE:
            return  # the last one stays
        self.snapshots.put(uid, picture)
        self.on_snapshot(uid, picture, now)
        if job.dag.recording is not None:
            self.keep_clips(uid)
        if self.forget_if_gone(uid):
            raise job_not_found(uid)

    def forget_if_gone(self, uid: str) -> bool:
        """Returns whether a job was deleted meanwhile; what was stored of it since then goes, too."""
        with self.jobs.database.read() as conn:
            is_gone = store.get(conn, uid) is None
        if is_gone:
            self.snapshots.forget(uid)
        return is_gone

    def snapshot(self, user: str, uid: str) -> bytes:
        self.jobs.get(user, uid)
        picture = self.snapshots.get(uid)
        if picture is None:
            raise NoPicture(
                f"The job {uid} has not drawn a picture yet.", hint="The first comes a few seconds after it began."
            )
        return picture


class Snapshots:
    """The newest picture of each job."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, uid: str, jpeg: bytes) -> None:
        self._objects.put(_build_key(uid), [jpeg], content_type="image/jpeg")

    def get(self, uid: str) -> bytes | None:
        return find_content(self._objects, _build_key(uid))

    def forget(self, uid: str) -> None:
        """With the pictures of its events."""
        self._objects.delete_prefix(f"video/{uid}/")


def _build_key(uid: str) -> str:
    return f"video/{uid}/snapshot.jpg"
