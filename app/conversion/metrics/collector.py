"""Measurements at the time of a scrape: queues, workers, jobs, and the sums of all processes.

Four round trips, however many jobs there are: lengths and heads of the queues, the index of the workers, one hash.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import redis
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.conversion import stage_cache
from app.conversion.model import Stage
from app.conversion.stage_cache import CacheUse, use_of
from app.kit.clock import from_text
from app.kit.observability.metrics import HASH, SharedMetrics
from app.kit.queue.messages import Queue
from app.kit.redis import worker_registry as workers

DONE = Queue.DONE.value
QUEUES = (*(stage.step for stage in Stage), DONE)
STATES = ("busy", "idle")


@dataclass(frozen=True)
class QueueReading:
    waiting: dict[str, int]
    """Messages that wait, by queue."""
    oldest_s: dict[str, float]
    """Age of the first of them in seconds, by queue."""
    workers: Counter[tuple[str, str]]
    """Number of workers by (queue, state)."""
    active_jobs: int
    totals: dict[Any, Any]
    """The sums of all processes, as Redis keeps them."""
    cache: CacheUse = field(default_factory=CacheUse)


class ConversionCollector(Collector):
    """
    Args:
        records: A client of the records' database, with short timeouts.
        queues: A client of the queues' database, with short timeouts.
        list_key: Names the list of a queue.
        viewers: Counts the open event streams of this process.
    """

    def __init__(
        self, records: redis.Redis, queues: redis.Redis, *, list_key: Callable[[str], str], viewers: Callable[[], int]
    ) -> None:
        self._records: Any = records
        self._queues: Any = queues
        self._list_key = list_key
        self._viewers = viewers

    def collect(self) -> Iterable[Metric]:
        """Without Redis: that it is unreachable, and what this process knows by itself."""
        try:
            reading = self._read()
        except redis.RedisError:
            reading = None
        yield _make_gauge("modelmill_redis_up", "1 when Redis answers.", {(): reading is not None})
        yield _make_gauge("modelmill_build_info", "The release that runs.", {(version("modelmill"),): 1}, "version")
        yield _make_gauge("modelmill_sse_viewers", "Open event streams of this web process.", {(): self._viewers()})
        if reading is not None:
            yield from families(reading)

    def _read(self) -> QueueReading:
        with self._records.pipeline(transaction=False) as pipe:
            pipe.zcard("jobs:active")
            pipe.zrange(workers.INDEX, 0, -1)
            pipe.hgetall(HASH)
            pipe.hgetall(stage_cache.HASH)
            active_jobs, worker_keys, totals, cache = pipe.execute()
        with self._queues.pipeline(transaction=False) as pipe:
            for queue in QUEUES:
                pipe.llen(self._list_key(queue))
            for queue in QUEUES:
                pipe.lindex(self._list_key(queue), 0)
            answers = pipe.execute()
        waiting, heads = answers[: len(QUEUES)], answers[len(QUEUES) :]
        texts, since = self._read_details(worker_keys, dict(zip(QUEUES, heads, strict=True)))
        now = time.time()
        oldest_s = {queue: max(0.0, now - since[queue]) if since.get(queue) else 0.0 for queue in QUEUES}
        waiting_by_queue = dict(zip(QUEUES, waiting, strict=True))
        return QueueReading(waiting_by_queue, oldest_s, _count_states(texts), active_jobs, totals, use_of(cache))

    def _read_details(
        self, worker_keys: list[bytes], heads: dict[str, bytes | None]
    ) -> tuple[list[bytes | None], dict[str, float]]:
        """What each worker says, and since when the head of each queue waits, in seconds of the epoch.

        A stage's message has its job's id, and the record says when it was queued; the scheduler's says it itself.
        """
        jobs = {queue: head.decode() for queue, head in heads.items() if head is not None and queue != DONE}
        with self._records.pipeline(transaction=False) as pipe:
            for key in worker_keys:
                pipe.get(key)
            for queue, job_id in jobs.items():
                pipe.hget(f"job:{job_id}", f"{queue}.queued_at")
            answers = pipe.execute()
        texts, queued = answers[: len(worker_keys)], answers[len(worker_keys) :]
        since = {q: from_text(at.decode()).timestamp() for q, at in zip(jobs, queued, strict=True) if at}
        if heads[DONE] is not None:
            message = self._queues.hget(f"{self._list_key(DONE)}.msgs", heads[DONE])
            since |= {DONE: json.loads(message)["message_timestamp"] / 1000} if message else {}
        return texts, since


def families(reading: QueueReading) -> Iterable[Metric]:
    """Each metric with its samples; each busy worker counts as a running job."""
    by_queue = {(queue,): float(count) for queue, count in reading.waiting.items()}
    yield _make_gauge("modelmill_queue_length", "Messages that wait, by queue.", by_queue, "queue")
    yield _make_gauge(
        "modelmill_queue_oldest_age_seconds",
        "How long the first message of the queue waits already; 0 without one.",
        {(queue,): age_s for queue, age_s in reading.oldest_s.items()},
        "queue",
    )
    yield _make_gauge(
        "modelmill_workers",
        "Living workers, by queue and whether they work.",
        {(queue, state): reading.workers[queue, state] for queue in QUEUES for state in STATES},
        "queue",
        "state",
    )
    jobs: dict[tuple[str, ...], float] = {}
    for stage in Stage:
        jobs[stage.value, "queued"] = reading.waiting[stage.step]
        jobs[stage.value, "running"] = reading.workers[stage.step, "busy"]
    yield _make_gauge("modelmill_jobs", "Jobs that have not ended, by status.", jobs, "status", "state")
    yield _make_gauge("modelmill_jobs_active", "All jobs that have not ended.", {(): reading.active_jobs})
    yield from _of_cache(reading.cache)
    yield from SharedMetrics(reading.totals).collect()


def _of_cache(use: CacheUse) -> Iterable[Metric]:
    lookups = CounterMetricFamily(
        "modelmill_stage_cache_lookups", "Stages that were looked for in the cache.", labels=("stage", "result")
    )
    for result, counts in (("hit", use.hits), ("miss", use.misses)):
        for step, count in counts.items():
            lookups.add_metric([step, result], count)
    yield lookups
    saved = "Original duration of the stages found in the cache, in seconds."
    yield CounterMetricFamily("modelmill_stage_cache_saved_seconds", saved, value=use.saved_s)
    yield _make_gauge(
        "modelmill_stage_cache_bytes", "Size of the cache of stages in bytes at its last sweep.", {(): use.size_bytes}
    )
    yield _make_gauge(
        "modelmill_stage_cache_entries", "Stages in the cache of stages at its last sweep.", {(): use.entries}
    )


def _count_states(texts: Iterable[bytes | None]) -> Counter[tuple[str, str]]:
    workers = [json.loads(text) for text in texts if text is not None]
    return Counter((worker["queue"], "busy" if worker.get("job_id") else "idle") for worker in workers)


def _make_gauge(name: str, text: str, values: dict[Any, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key), value)
    return family
