"""What training tells Prometheus, from a database, a picture and a scheduler that do as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from app.kit.observability.metrics import SHARED
from app.kit.queue.broker import connect_to_look
from app.kit.sql import Database, timeboxed_query
from app.training import store
from app.training.metrics.collector import TrainingCollector, gpus
from app.training.model import Demand, Node, State
from app.training.service import ClusterPicture, ClusterView, Holder
from tests.harness.training.scripted_ray import TOO_FEW, Bench, ScriptedRay
from tests.harness.until import PATIENCE_S
from tests.harness.valkey import Valkey

NODE = Node("n", "10.0.0.1", 8, 8, 8, 8)
HEAD = Node("head", "10.0.0.9", 4, 4, 8, 8, may_train=False)
ENDED, WAITED = "modelmill_training_attempts_ended_total", "modelmill_training_wait_seconds"


def value(collector: TrainingCollector, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry.get_sample_value(f"modelmill_training_{name}", labels)


def of_bench(bench: Bench) -> TrainingCollector:
    return TrainingCollector(bench.database, bench.shown, now=lambda: bench.now)


def shared(name: str, **labels: str) -> float:
    return SHARED.get_sample_value(name, labels) or 0.0


# --- tasks ------------------------------------------------------------------------------------------
def test_tasks_are_counted_by_state_and_ended_ones_not_at_all(bench: Bench, ray: ScriptedRay) -> None:
    ray.end(bench.running("ended"))
    bench.tick()
    bench.running("runs")
    for name in ("waits", "waits too"):
        bench.add(name)
    bench.tick()
    bench.add("new")
    told = {state: value(of_bench(bench), "tasks", state=state) for state in State}
    assert {state: count for state, count in told.items() if count} == {
        State.RUNNING: 1,
        State.PENDING_RESOURCES: 2,
        State.QUEUED: 1,
    }
    assert told[State.SUBMITTING] == 0
    assert told[State.SUCCEEDED] is None
    with bench.database.read() as conn:
        assert State.SUCCEEDED not in {
            count.state for count in store.count_by_state(conn)
        }  # in time there are many of them


def test_the_age_is_that_of_the_task_that_waits_longest_and_not_of_one_that_runs(bench: Bench) -> None:
    bench.running("runs")
    assert value(of_bench(bench), "oldest_waiting_age_seconds") == 0
    bench.now += timedelta(seconds=100)
    bench.add("first")
    bench.tick(20)
    bench.add("second")
    bench.now += timedelta(seconds=10)
    assert value(of_bench(bench), "oldest_waiting_age_seconds") == 30


def test_while_the_database_is_away_the_cluster_is_told_still(bench: Bench, tmp_path: Path) -> None:
    bench.tick()
    away = Database(f"sqlite:///{tmp_path / 'nothing here'}")
    collector = TrainingCollector(away, bench.shown, now=lambda: bench.now)
    assert value(collector, "tasks", state="QUEUED") is None
    assert value(collector, "scheduler_up") == 1
    away.close()


class Stalling(Database):
    """Answers when it is let, and counts who asks."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.goes_on = threading.Event()
        self.asked = 0

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.asked += 1
        self.goes_on.wait(PATIENCE_S)
        with self.inner.read() as conn:
            yield conn


def test_scrapes_do_not_wait_for_a_database_that_stalls_nor_pile_up_there(
    database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeboxed_query, "WITHIN_S", 0.01)
    bench.add("one")
    stalling = Stalling(database)
    taking = timeboxed_query.TimeboxedQuery(stalling, store.count_by_state)
    assert [taking.take(), taking.take(), taking.take()] == [None] * 3
    assert stalling.asked == 1
    stalling.goes_on.set()
    monkeypatch.setattr(timeboxed_query, "AGAIN_WITHIN_S", 30)  # what has just stalled is given less time
    picture = taking.take()
    assert picture is not None
    assert [(count.state, count.tasks) for count in picture] == [(State.QUEUED, 1)]


# --- the cluster ------------------------------------------------------------------------------------
def holder(gpus: int, **by_node: float) -> Holder:
    return Holder("t", "alice", "ppo", "RUNNING", gpus, dict(by_node))


@pytest.mark.parametrize(
    ("node", "holders", "told"),
    [
        (NODE, (), {"free": 8}),
        (replace(NODE, free_gpus=4), (holder(4, n=4),), {"held": 4, "free": 4}),
        (NODE, (holder(4, n=4),), {"held": 4, "free": 4}),  # Ray has freed what its task holds for a moment yet
        (replace(NODE, free_gpus=7), (holder(4, n=1), holder(2)), {"held": 1, "promised": 5, "free": 2}),
        (replace(NODE, free_gpus=5), (), {"outside": 3, "free": 5}),
        (replace(NODE, free_gpus=1), (holder(4),), {"outside": 7, "promised": 1}),
    ],
    ids=["empty", "held", "just freed", "not claimed yet", "used by others", "others were faster"],
)
def test_each_gpu_of_a_node_that_may_train_is_told_once(
    node: Node, holders: tuple[Holder, ...], told: dict[str, float]
) -> None:
    series = gpus(ClusterView("", (node, HEAD), holders))
    assert series == {"held": 0, "promised": 0, "outside": 0, "free": 0, **told}
    assert sum(series.values()) == node.total_gpus


def test_the_cluster_is_told_as_the_scheduler_last_saw_it(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("one", 3), ("node0", 3))
    bench.tick()
    bench.now += timedelta(seconds=7)
    collector = of_bench(bench)
    names = ("scheduler_up", "ray_up", "nodes", "look_age_seconds")
    assert [value(collector, name) for name in names] == [1, 1, 1, 7]
    assert value(collector, "gpus", state="held") == 3
    assert value(collector, "gpus", state="free") == 5


def test_when_ray_does_not_answer_that_is_told_and_the_look_is_a_look(bench: Bench, ray: ScriptedRay) -> None:
    bench.tick()
    ray.away = {"*"}
    bench.tick(60)
    collector = of_bench(bench)
    assert [value(collector, name) for name in ("scheduler_up", "ray_up", "look_age_seconds")] == [1, 0, 0]
    assert value(collector, "gpus", state="free") == 8


def test_when_nobody_schedules_nothing_is_told_of_the_cluster(database: Database, valkey: Valkey) -> None:
    collector = TrainingCollector(database, ClusterPicture(valkey.client))
    assert value(collector, "scheduler_up") == 0
    for name in ("ray_up", "nodes", "look_age_seconds"):
        assert value(collector, name) is None


def test_without_redis_nobody_can_say_whether_somebody_schedules(database: Database, own_valkey: Valkey) -> None:
    collector = TrainingCollector(database, ClusterPicture(connect_to_look(own_valkey.url(0))))
    own_valkey.kill()
    assert value(collector, "scheduler_up") is None
    assert value(collector, "tasks", state="QUEUED") == 0


# --- what the scheduler counts ----------------------------------------------------------------------
@pytest.mark.slow
def test_every_attempt_is_counted_by_how_it_ended(bench: Bench, ray: ScriptedRay) -> None:
    before = {result: shared(ENDED, result=result) for result in ("SUCCEEDED", "RUNTIME_ERROR", "LOST", "CANCELED")}
    ray.end(bench.running("good"))
    ray.fail(bench.running("bad"), "RuntimeError: no")
    bench.tick()
    ray.forget(bench.running("lost"))
    bench.tick()
    bench.cancel("lost")
    bench.running("stopped")
    bench.cancel("stopped")
    for _ in range(3):
        bench.tick(5)
    assert bench.state("stopped") is State.CANCELED
    assert {result: shared(ENDED, result=result) for result in before} == {
        result: n + 1 for result, n in before.items()
    }


def test_time_in_line_is_measured_at_each_admission_from_when_the_line_was_joined(
    bench: Bench, ray: ScriptedRay
) -> None:
    counted, summed = shared(f"{WAITED}_count"), shared(f"{WAITED}_sum")
    bench.add("one", demand=Demand(1, 8, 0))
    bench.tick(30)
    ray.run("one--a01")
    ray.fail("one--a01", TOO_FEW)
    bench.tick(3600)  # as long as it ran
    bench.tick(bench.options.retry_interval_s)
    assert len(bench.attempts("one")) == 2
    assert shared(f"{WAITED}_count") - counted == 2
    assert shared(f"{WAITED}_sum") - summed == 30 + bench.options.retry_interval_s
