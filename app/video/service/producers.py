"""Video jobs as producers of results."""

from __future__ import annotations

from sqlalchemy import Connection

from app.results.model.producer import Producer
from app.video import store
from app.video.errors import JobEnded
from app.video.model.job import JobState, VideoJob
from app.video.service.jobs import job_not_found

KIND = "video"


def producer_of_job(job: VideoJob) -> Producer:
    return Producer(
        KIND,
        job.uid,
        job.owner,
        job.title,
        f"/api/v2/video/jobs/{job.uid}",
        f"/ui/video/{job.uid}",
        "video",
        f"/ui/video/{job.uid}/snapshot",
        f"video:{job.uid}",
        {"job": job.uid, "node": job.node, "video_id": job.video_id},
        is_recorded=job.dag.recording is not None,
        is_over=job.state is JobState.DONE,
        by_pts=not job.realtime,
    )


class VideoProducers:
    """Video jobs as producers of rows: see `Producers` of the results."""

    def find(self, conn: Connection, uid: str) -> Producer | None:
        """Returns a job as a producer, also one that has ended; None: there is no such job."""
        stored = store.get(conn, uid)
        return producer_of_job(stored.job) if stored else None

    def lock(self, conn: Connection, uid: str) -> Producer:
        """Locks a job until the transaction ends.

        Raises:
            VideoJobNotFound: There is none.
            JobEnded: It has ended.
        """
        stored = store.lock(conn, uid)
        if stored is None:
            raise job_not_found(uid)
        if stored.job.state is JobState.DONE:
            raise JobEnded(f"The job {uid} has ended.", hint="Submit it again.")
        return producer_of_job(stored.job)

    def uids(self, conn: Connection) -> list[str]:
        return store.open_uids(conn)
