"""Ray is away, and comes back."""

from __future__ import annotations

import pytest

from app.kit.clock import to_text
from app.training.gateway.ray_translation import version_remark
from app.training.metrics.collector import cluster_families
from app.training.model import State, WaitingCode
from tests.harness.training.scripted_ray import BEGIN, TOO_FEW, Bench, ScriptedRay


def test_while_ray_is_away_nothing_changes_but_what_is_said_and_it_recovers_alone(
    bench: Bench, ray: ScriptedRay
) -> None:
    ray.claim(bench.running("one"), ("node0", 8))
    for name in ("two", "three"):
        bench.add(name)
    bench.tick()
    bench.add("four")
    ray.away = {"*"}
    bench.tick(5)
    since = to_text(bench.now)
    bench.tick(5)
    states = [bench.state(name) for name in ("one", "two", "three", "four")]
    assert states == [State.RUNNING, State.PENDING_RESOURCES, State.PENDING_RESOURCES, State.QUEUED]
    for name in ("two", "three", "four"):
        waiting = bench.task(name).waiting
        assert waiting is not None
        assert (waiting.code, waiting.facts) == (WaitingCode.RAY, {"since": since}), name
    assert bench.shown.view is not None
    assert (bench.shown.view.unreachable_since, bench.shown.view.queued) == (since, 3)
    assert "Ray does not answer" in bench.shown.view.problem
    assert [node.node_id for node in bench.shown.view.nodes] == ["node0"]
    ray.away = set()
    bench.tick(5)
    assert (bench.shown.view.unreachable_since, bench.shown.view.problem) == (None, "")
    waiting = bench.task("two").waiting
    assert waiting is not None
    assert waiting.code is WaitingCode.GPUS


def test_when_ray_goes_away_again_it_is_since_then(bench: Bench, ray: ScriptedRay) -> None:
    for away in ({"*"}, set(), {"*"}):
        ray.away = away
        bench.tick(5)
    assert bench.shown.view is not None
    assert bench.shown.view.unreachable_since == to_text(bench.now)


def test_since_when_ray_is_away_outlives_the_scheduler(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    ray.away = {"*"}
    bench.tick()
    bench.restart()
    bench.tick(60)
    assert bench.shown.view is not None
    assert bench.shown.view.unreachable_since == to_text(BEGIN)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["job", "nodes", "placement_groups", "submit", "stop", "log", "log_tail"])
def test_whatever_call_finds_ray_away_all_goes_on_when_it_is_back(bench: Bench, ray: ScriptedRay, what: str) -> None:
    ends = bench.running("ends", 2, backfill=True)
    bench.running("canceled", 2)
    bench.running("runs", 2)
    ray.write(ends, b"trained\n")
    ray.fail(ends, TOO_FEW)
    bench.cancel("canceled")
    bench.add("waits", 2)
    ray.away = {what}
    bench.tick(1)
    bench.tick(1)
    ray.away = set()
    for _ in range(3):
        bench.tick(1)
    assert bench.state("ends") is State.PENDING_RESOURCES
    assert bench.state("canceled") is State.CANCELED
    assert bench.state("runs") is State.RUNNING
    assert bench.submitted() == ["ends--a01", "canceled--a01", "runs--a01", "waits--a01"]
    assert bench.log(ends) == b"trained\n"
    assert bench.attempts("waits")[0].attempt_no == 1


def test_an_answer_that_was_lost_makes_no_second_job(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    ray.keeps_answer = True
    bench.tick()
    assert bench.state("one") is State.SUBMITTING
    ray.keeps_answer = False
    ray.run("one--a01")
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.RUNNING, ["one--a01"])
    assert len(bench.attempts("one")) == 1


def test_a_log_that_ray_withholds_delays_an_end_and_does_not_prevent_it(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.end(submission_id)
    ray.away = {"log"}
    bench.tick(1)
    assert bench.state("one") is State.RUNNING
    bench.tick(30)
    assert bench.state("one") is State.SUCCEEDED


def test_another_version_of_ray_is_said_while_tasks_go_on(bench: Bench, ray: ScriptedRay) -> None:
    ray.remarks = version_remark("2.55.0", "2.60.0")
    bench.add("one", 1)
    bench.tick()
    view = bench.shown.view
    assert view is not None and view.unreachable_since is None and bench.submitted() == ["one--a01"]
    assert "runs Ray 2.55.0, and the scheduler has 2.60.0" in view.problem
    (matches,) = [
        sample.value
        for family in cluster_families({"": view}, bench.now, None)
        for sample in family.samples
        if sample.name == "modelmill_training_ray_version_matches"
    ]
    assert matches == 0
    assert version_remark("2.60.0", "2.60.0") == version_remark(None, "2.60.0") == ""
