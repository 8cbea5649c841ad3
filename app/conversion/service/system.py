"""The state of everything that conversion needs: workers, queues, Redis, the object store, versions. Unreachable parts
are reported, never raised."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import redis

from app.conversion.model import JobRecord, Stage
from app.conversion.service import Conversion
from app.conversion.service.estimates import ForecastAccuracy
from app.conversion.service.predictions import PredictionAccuracy
from app.kit.clock import from_text, ms_since, to_text
from app.kit.errors import ModelmillError
from app.kit.queue.messages import Queue
from app.kit.text.json_values import JsonObject
from app.settings import Settings

PACKAGES = ("modelmill", "dramatiq", "starlette", "onnx", "onnxruntime", "onnxslim", "netron")
DONE = Queue.DONE.value
QUEUES = (*(stage.step for stage in Stage), DONE)


@dataclass(frozen=True)
class WorkerView:
    name: str
    queue: str
    host: str
    pid: int
    is_busy: bool
    since: datetime
    """When it took the job, or started."""
    job_id: str = ""
    """Its current job; empty if it is idle or the job belongs to another user."""
    job_name: str = ""
    progress: int | None = None
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueueView:
    queue: str
    waiting: int
    """Jobs that no worker has taken."""
    oldest_s: float | None
    """How long the first of them has waited, in seconds."""
    workers: tuple[WorkerView, ...]

    @property
    def busy(self) -> int:
        return sum(worker.is_busy for worker in self.workers)

    @property
    def command(self) -> str:
        """The command that starts a (further) worker for this queue."""
        return f"dramatiq actors --queues {self.queue} --processes 1 --threads 1"


@dataclass(frozen=True)
class DependencyHealth:
    """A server that conversions depend on."""

    name: str
    detail: str
    latency_ms: float | None = None
    """Of one small request, in milliseconds."""
    problem: str = ""
    """Why it does not answer; empty if it does."""

    @property
    def is_up(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class CacheView:
    """The cache of stages. Sizes are those of its last sweep; counts restart when Redis does."""

    swept_at: str | None
    """None: not since Redis started, so that its size is not known."""
    size_bytes: int
    max_bytes: int
    entries: int
    hits: int
    misses: int
    saved_s: float
    is_shared: bool


@dataclass(frozen=True)
class SystemView:
    queues: tuple[QueueView, ...]
    """One per stage, in order, then the scheduler's; empty while Redis is unreachable."""
    redis: DependencyHealth
    store: DependencyHealth
    toolchains: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    forecasts: dict[str, ForecastAccuracy] = field(default_factory=dict)
    """The accuracy of the forecasts of a job's end, by toolchain; empty while Redis is unreachable."""
    predictions: dict[str, PredictionAccuracy] = field(default_factory=dict)
    """The accuracy of the predictions of applied actions, by toolchain; empty while Redis is unreachable."""
    cache: CacheView | None = None
    """None if it is off, and while Redis is unreachable."""

    @property
    def stages(self) -> tuple[QueueView, ...]:
        return tuple(queue for queue in self.queues if queue.queue != DONE)

    @property
    def scheduler(self) -> QueueView | None:
        return next((queue for queue in self.queues if queue.queue == DONE), None)

    @property
    def bie(self) -> QueueView | None:
        """BIE capacity is the number of its live workers; its use, how many of them are busy."""
        return next((queue for queue in self.queues if queue.queue == Stage.BIE.step), None)

    @property
    def unserved(self) -> tuple[str, ...]:
        """The offered toolchains that all workers of a stage lack; conversions for them would be refused."""
        served = [{name for worker in queue.workers for name in worker.toolchains} for queue in self.stages]
        return tuple(name for name in self.toolchains if not all(name in names for names in served))

    @property
    def is_ready(self) -> bool:
        """Whether a conversion submitted now can complete."""
        return self.redis.is_up and self.store.is_up and bool(self.queues) and all(q.workers for q in self.queues)


def read_system(conversion: Conversion, settings: Settings, user: str, now: datetime) -> SystemView:
    """Returns the current state. Jobs of other users are counted, not named.

    Args:
        user: whose jobs in the queues are named; others' are counted.
    """
    health = _check_redis(conversion)
    try:
        queues = _list_queues(conversion, user, now) if health.is_up else ()
        forecasts = conversion.estimates.accuracies() if health.is_up else {}
        predictions = conversion.estimates.predictions() if health.is_up else {}
        cache = _read_cache(conversion) if health.is_up else None
    except redis.RedisError as error:
        queues, forecasts, predictions, cache = (), {}, {}, None
        health = DependencyHealth(health.name, health.detail, problem=_get_first_line(error))
    return SystemView(
        queues=queues,
        redis=health,
        store=_store_health(conversion, settings),
        toolchains=tuple(toolchain.value for toolchain in settings.toolchains),
        versions=versions(),
        forecasts=forecasts,
        predictions=predictions,
        cache=cache,
    )


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Versions of this web process; workers may differ, and each job records the versions that made it."""
    numbers = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            numbers.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(numbers)


def _list_queues(conversion: Conversion, user: str, now: datetime) -> tuple[QueueView, ...]:
    workers = [
        _describe_worker(conversion, name, sign_of_life, user)
        for name, sign_of_life in conversion.jobs.store.workers().items()
    ]
    return tuple(
        QueueView(
            queue,
            conversion.jobs.broker.waiting(queue),
            _measure_oldest_s(conversion, queue, now),
            tuple(worker for worker in workers if worker.queue == queue),
        )
        for queue in QUEUES
    )


def _read_cache(conversion: Conversion) -> CacheView | None:
    cache = conversion.cache
    if not cache.is_on:
        return None
    use = conversion.cache_figures.read()
    hits, misses = sum(use.hits.values()), sum(use.misses.values())
    swept_at = to_text(use.swept_at) if use.swept_at else None
    return CacheView(swept_at, use.size_bytes, cache.max_bytes, use.entries, hits, misses, use.saved_s, cache.is_shared)


def _describe_worker(conversion: Conversion, name: str, sign_of_life: JsonObject, user: str) -> WorkerView:
    record = conversion.jobs.store.get(sign_of_life["job_id"]) if sign_of_life.get("job_id") else None
    job = record if record is not None and record.owner == user else None
    return WorkerView(
        name=name,
        queue=sign_of_life["queue"],
        host=sign_of_life["host"],
        pid=sign_of_life["pid"],
        is_busy=bool(sign_of_life.get("job_id")),
        since=_find_since(record, sign_of_life),
        job_id=job.job_id if job else "",
        job_name=job.name if job else "",
        progress=job.stages[sign_of_life["queue"]].progress if job and sign_of_life["queue"] in job.stages else None,
        toolchains=tuple(sign_of_life.get("toolchains", ())),
    )


def _find_since(record: JobRecord | None, sign_of_life: JsonObject) -> datetime:
    started = (
        record.stages[sign_of_life["queue"]].started_at if record and sign_of_life["queue"] in record.stages else None
    )
    return from_text(started) if started else datetime.fromtimestamp(sign_of_life["started_at"]).astimezone()


def _measure_oldest_s(conversion: Conversion, queue: str, now: datetime) -> float | None:
    """Only jobs have an age: a stage's message has the job's id, the scheduler's has its own."""
    if queue == DONE:
        return None
    broker: Any = conversion.jobs.broker
    first = broker.client.lindex(broker.list_key(queue), 0)
    record = conversion.jobs.store.get(first.decode()) if first else None
    queued_at = record.stages[queue].queued_at if record else None
    return max(0.0, (now - from_text(queued_at)).total_seconds()) if queued_at else None


def _check_redis(conversion: Conversion) -> DependencyHealth:
    client = conversion.jobs.store.client
    begin = time.perf_counter()
    try:
        client.ping()
        latency_ms = ms_since(begin)
        server = client.info("server")
    except redis.RedisError as error:
        return DependencyHealth("Redis", "", problem=_get_first_line(error))
    kind, number = (
        ("Valkey", server["valkey_version"]) if "valkey_version" in server else ("Redis", server["redis_version"])
    )
    return DependencyHealth(kind, str(number), round(latency_ms, 2))


def _store_health(conversion: Conversion, settings: Settings) -> DependencyHealth:
    is_s3 = settings.store == "s3"
    name = "s3" if is_s3 else "filesystem"
    detail = settings.objects_place if is_s3 else ""
    begin = time.perf_counter()
    try:
        conversion.jobs.objects.check()
    except ModelmillError as error:
        return DependencyHealth(name, detail, problem=error.message)
    return DependencyHealth(name, detail, round(ms_since(begin), 2))


def _get_first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
