"""Figures of many processes, added up in Redis."""

from __future__ import annotations

import pytest
import redis
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.kit.observability.metrics import HASH, MetricsExporter, SharedMetrics
from app.kit.queue.broker import connect_to_look
from tests.harness.valkey import Valkey


class Process:
    """What a process counts: pictures by colour, and how long each took."""

    def __init__(self, url: str) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.seen = Counter("pictures_seen", "Pictures.", ["colour"], registry=self.registry)
        self.took = Histogram("picture_seconds", "Time.", ["colour"], registry=self.registry, buckets=(1, 2, 4))
        self.client = connect_to_look(url)
        self.pump = MetricsExporter(self.client, self.registry)

    def read(self) -> dict[str, float]:
        """Every sample as it would be scraped, by its name and labels."""
        whole = CollectorRegistry(auto_describe=False)
        whole.register(SharedMetrics(self.client.hgetall(HASH), self.registry))
        families = text_string_to_metric_families(generate_latest(whole).decode())
        return {f"{s.name}{sorted(s.labels.values())}": s.value for family in families for s in family.samples}


def test_what_several_processes_counted_is_added_up(valkey: Valkey) -> None:
    one, two = Process(valkey.url(0)), Process(valkey.url(0))
    for process, count in ((one, 2), (two, 3)):
        for _ in range(count):
            process.seen.labels("red").inc()
        process.pump.pour()
    one.seen.labels("blue").inc(0.5)
    one.pump.pour()
    assert two.read() == {"pictures_seen_total['red']": 5, "pictures_seen_total['blue']": 0.5}


def test_a_histogram_comes_with_all_its_buckets_in_order(valkey: Valkey) -> None:
    one, two = Process(valkey.url(0)), Process(valkey.url(0))
    one.took.labels("red").observe(3)
    two.took.labels("red").observe(0.5)
    for process in (one, two):
        process.pump.pour()
    assert list(one.read().items()) == [
        ("picture_seconds_bucket['1.0', 'red']", 1),
        ("picture_seconds_bucket['2.0', 'red']", 1),
        ("picture_seconds_bucket['4.0', 'red']", 2),
        ("picture_seconds_bucket['+Inf', 'red']", 2),
        ("picture_seconds_count['red']", 2),
        ("picture_seconds_sum['red']", 3.5),
    ]


def test_a_bucket_in_which_nothing_fell_is_empty_and_not_missing(valkey: Valkey) -> None:
    process = Process(valkey.url(0))
    process.took.labels("red").observe(3)
    process.pump.pour()
    assert process.read()["picture_seconds_bucket['1.0', 'red']"] == 0
    valkey.client.flushall()
    process.took.labels("red").observe(3)
    process.pump.pour()
    assert process.read()["picture_seconds_bucket['1.0', 'red']"] == 0


def test_nothing_is_sent_while_nothing_happens(valkey: Valkey) -> None:
    process = Process(valkey.url(0))
    process.seen.labels("red").inc()
    process.pump.pour()
    valkey.client.flushall()
    process.pump.pour()
    assert process.read() == {}


def test_what_was_counted_while_redis_was_away_comes_later_and_once(own_valkey: Valkey) -> None:
    process = Process(own_valkey.url(0))
    process.seen.labels("red").inc()
    own_valkey.kill()
    with pytest.raises(redis.RedisError):
        process.pump.pour()
    process.seen.labels("red").inc()
    own_valkey.start()
    process.pump.pour()
    process.pump.pour()
    assert process.read() == {"pictures_seen_total['red']": 2}


def test_what_is_left_is_poured_at_the_end(valkey: Valkey) -> None:
    process = Process(valkey.url(0))
    process.pump.start()
    process.seen.labels("red").inc()
    process.pump.stop()
    assert process.read() == {"pictures_seen_total['red']": 1}


def test_figures_of_another_release_are_passed_over(valkey: Valkey) -> None:
    process = Process(valkey.url(0))
    valkey.client.hset(HASH, '["no_such_total", []]', "1")
    assert process.read() == {}
