"""Metrics of the whole installation, from all processes, in one scrape of any web process.

Counters and timings of workers and schedulers (SHARED) are added up in their own memory, which costs a microsecond and
no round trip. A thread adds new values to one Redis hash every few seconds, and a scrape reads that hash. Counters
restart when Redis does, as Prometheus expects. Values that concern a single process (LOCAL) stay in it. This module
depends on no capability.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import redis
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

HASH = "metrics"
POUR_EVERY_S = 2.0
LOOK_EVERY_S = 10.0
"""How often to check for counts without a notice."""
STOP_S = 3.0
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
logger = logging.getLogger(__name__)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more per counter, of no use to Prometheus
SHARED = CollectorRegistry(auto_describe=False)
"""Counters and histograms of all processes together."""
LOCAL = CollectorRegistry(auto_describe=False)
"""Of the web process that is scraped."""
ProcessCollector(registry=LOCAL)

STORE_SECONDS = Histogram(
    "modelmill_object_store_duration_seconds",
    "Time that one operation of the object store took, whole transfers included.",
    ["operation"],
    registry=SHARED,
    buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 120, 600),
)
STORE_ERRORS = Counter(
    "modelmill_object_store_errors",
    "Operations of the object store that failed.",
    ["operation", "code"],
    registry=SHARED,
)
HTTP_REQUESTS = Counter(
    "modelmill_http_requests", "Requests by route, method and status.", ["method", "route", "status"], registry=LOCAL
)
HTTP_SECONDS = Histogram(
    "modelmill_http_request_duration_seconds",
    "Time from a request to the head of its answer, upload included.",
    ["method", "route"],
    registry=LOCAL,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)


_changed = threading.Event()


def note() -> None:
    """Something may have been counted in this process: a request was answered, a message was processed."""
    if not _changed.is_set():
        _changed.set()


class MetricsExporter:
    """Adds the counts of this process in `registry` to Redis.

    Args:
        client: one with short timeouts.
    """

    def __init__(self, client: redis.Redis, registry: CollectorRegistry = SHARED) -> None:
        self._client: Any = client
        self._registry = registry
        self._exported = dict(_iterate_values(registry))  # existing counts were added by another pump of this process
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Adds the rest and ends."""
        self._stop.set()
        _changed.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)

    def pour(self) -> None:
        """Adds what is new since the last time. While Redis is unreachable it is kept for the next time."""
        with self._lock:
            values = dict(_iterate_values(self._registry))
            added = {key: value - self._exported.get(key, 0.0) for key, value in values.items()}
            changed = {_identify_series(key) for key, value in added.items() if value}
            if not changed:
                return
            with self._client.pipeline(transaction=True) as pipe:
                for key, value in added.items():
                    if _identify_series(key) in changed:  # whole histograms: a missing bucket is not an empty one
                        pipe.hincrbyfloat(HASH, json.dumps(key), value)
                pipe.execute()
            self._exported = values

    def _run(self) -> None:
        is_last = False
        while not is_last:
            _changed.wait(LOOK_EVERY_S)
            is_last = self._stop.wait(POUR_EVERY_S)
            _changed.clear()
            try:
                self.pour()
            except redis.RedisError as error:
                logger.debug("The metrics are kept until Redis answers: %s", error)


class SharedMetrics(Collector):
    """The sums of all processes from one reading of the hash, in the form of their definitions."""

    def __init__(self, fields: dict[Any, Any], registry: CollectorRegistry = SHARED) -> None:
        self._fields = fields
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        families = {f.name: Metric(f.name, f.documentation, f.type) for f in self._registry.collect()}
        by_sample = {f.name + suffix: f for f in families.values() for suffix in SUFFIXES.get(f.type, ("",))}
        read = sorted((_read(field, value) for field, value in self._fields.items()), key=_order)
        for name, labels, value in read:
            if name in by_sample:  # otherwise another release wrote it
                by_sample[name].add_sample(name, labels, value)
        return families.values()


def _iterate_values(registry: CollectorRegistry) -> Iterator[tuple[Key, float]]:
    for family in registry.collect():
        for sample in family.samples:
            yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value


def _identify_series(key: Key) -> Key:
    """The identity of a sample: all buckets of a histogram share one."""
    name, labels = key
    return name, tuple(label for label in labels if label[0] != "le")


def _read(field: bytes, value: bytes) -> tuple[str, dict[str, str], float]:
    name, labels = json.loads(field)
    return name, dict(labels), float(value)


def _order(sample: tuple[str, dict[str, str], float]) -> tuple[str, list[tuple[str, str]], float]:
    """Returns the buckets of a histogram in order, smallest first."""
    name, labels, _ = sample
    return name, sorted((k, v) for k, v in labels.items() if k != "le"), float(labels.get("le", 0))
