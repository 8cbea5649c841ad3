"""Metrics of video at the time of a scrape: jobs by state. Counters are in service/counters.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.video import store
from app.video.model.job import JobState


class VideoCollector(Collector):
    """Gives nothing while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._query: TimeboxedQuery[Mapping[str, int]] = TimeboxedQuery(database, store.count_by_state)

    def collect(self) -> Iterable[Metric]:
        counts = self._query.take()
        if counts is not None:
            jobs = GaugeMetricFamily("modelmill_video_jobs", "Video jobs by state.", labels=["state"])
            for state in JobState:
                jobs.add_metric([state.value], counts.get(state.value, 0))
            yield jobs
