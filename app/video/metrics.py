"""Metrics of video at the time of a scrape: jobs by state, and how each unended job does. Counters are in
service/counters.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.video import store
from app.video.model.job import JobState, VideoJob
from app.video.store import StoredJob

MOST_JOBS = 500
JOB = ("owner", "video_job", "node", "video")


class VideoCollector(Collector):
    """Returns nothing while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._query: TimeboxedQuery[tuple[Mapping[str, int], list[StoredJob]]] = TimeboxedQuery(database, _look)

    def collect(self) -> Iterable[Metric]:
        looked_at = self._query.take()
        if looked_at is not None:
            counts, unended = looked_at
            jobs = GaugeMetricFamily("modelmill_video_jobs", "Video jobs by state.", labels=["state"])
            for state in JobState:
                jobs.add_metric([state.value], counts.get(state.value, 0))
            yield jobs
            yield from _of_jobs([stored.job for stored in unended[:MOST_JOBS]])


def _look(conn: Connection) -> tuple[Mapping[str, int], list[StoredJob]]:
    return store.count_by_state(conn), store.list_unended(conn)


def _of_jobs(jobs: Sequence[VideoJob]) -> Iterable[Metric]:
    """By job, and by its stages; for jobs that have not ended."""
    rate = GaugeMetricFamily("modelmill_video_job_frames_per_second", "Frames looked at a second.", labels=JOB)
    signal = GaugeMetricFamily("modelmill_video_job_signal", "0 while the source gives no pictures.", labels=JOB)
    delay = GaugeMetricFamily("modelmill_video_job_delay_seconds", "From capture to result.", labels=(*JOB, "quantile"))
    stages = GaugeMetricFamily(
        "modelmill_video_stage_seconds", "Time a frame takes in a stage.", labels=(*JOB, "stage")
    )
    for job in jobs:
        labels, result = (job.owner, job.uid, job.node, job.video_id), job.plan_result
        signal.add_metric(labels, int(job.no_signal_since is None))
        if isinstance(fps := result.get("fps"), int | float):
            rate.add_metric(labels, fps)
        for quantile, key in (("0.5", "e2e_p50"), ("0.95", "e2e_p95")):
            if isinstance(seconds := result.get(key), int | float):
                delay.add_metric((*labels, quantile), seconds)
        for stage, seconds in (result.get("delay") or {}).items():
            if isinstance(seconds, int | float):
                stages.add_metric((*labels, str(stage)), seconds)
    yield from (rate, signal, delay, stages)
