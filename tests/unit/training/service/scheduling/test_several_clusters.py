"""One scheduler before several clusters: each has its tasks, and one that is away holds up none of the others."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.kit.sql import Database
from app.training.errors import BadSpec
from app.training.model import Demand, State, WaitingCode
from app.training.model.clusters import ANY
from app.training.service import Tasks
from app.training.service.environments import Environments
from tests.harness.training.scripted_ray import SPEC, USER, Bench, ScriptedRay
from tests.harness.until import until


@pytest.fixture
def west() -> ScriptedRay:
    return ScriptedRay(4)


@pytest.fixture
def bench(database: Database, tmp_path: Path, ray: ScriptedRay, west: ScriptedRay) -> Bench:
    return Bench(database, tmp_path / "homes", ray, {"west": west})


def tasks_of(bench: Bench) -> Tasks:
    environments = Environments(bench.database, clusters=bench.options.clusters)
    return Tasks(bench.options, bench.database, bench.homes, lambda: None, environments=environments)


def submitted(bench: Bench, **fields: object) -> str:
    text = SPEC + "".join(f"{name}: {value}\n" for name, value in fields.items())
    return tasks_of(bench).submit(USER, text.encode(), now=bench.now)[0].cluster


def test_each_task_goes_to_its_cluster_and_is_followed_there(bench: Bench, ray: ScriptedRay, west: ScriptedRay) -> None:
    bench.add("here", 8)
    bench.add("there", 4, cluster="west")
    bench.tick()
    assert bench.submitted() == ["here--a01"] and [one.submission_id for one in west.submissions] == ["there--a01"]
    west.run("there--a01", log=b"far\n")
    bench.tick()
    assert bench.state("there") is State.RUNNING and bench.log("there--a01") == b"far\n"
    assert [attempt.cluster for attempt in bench.attempts("there")] == ["west"]
    assert [view.holders[0].task_id for view in bench.shown.views.values()] == ["here", "there"]
    bench.cancel("there")
    bench.tick()
    bench.tick()
    assert bench.state("there") is State.CANCELED and ("stop", "here--a01") not in ray.calls


def test_a_cluster_that_is_away_holds_up_only_its_own_tasks(bench: Bench, west: ScriptedRay) -> None:
    west.away = {"*"}
    bench.add("there", 1, cluster="west")
    bench.add("here", 1)
    bench.add("any", 1, cluster=ANY)
    bench.tick()
    assert bench.submitted() == ["here--a01", "any--a01"]
    waiting = bench.task("there").waiting
    assert waiting is not None and waiting.code is WaitingCode.RAY
    assert bench.shown.views["west"].unreachable_since is not None
    assert bench.shown.views[""].unreachable_since is None


def test_it_is_asked_again_beside_the_ticks_and_comes_back(bench: Bench, west: ScriptedRay) -> None:
    west.away = {"*"}
    bench.add("there", 1, cluster="west")
    bench.tick()
    west.away, is_open = set(), threading.Event()
    nodes = west.nodes
    west.nodes = lambda: (is_open.wait(60), nodes())[1]  # type: ignore[method-assign]  # it answers late
    bench.add("here", 1)
    bench.tick()
    assert bench.submitted() == ["here--a01"] and not west.submissions
    is_open.set()
    until(lambda: bench.tick() or west.submissions)
    assert bench.shown.views["west"].unreachable_since is None


def test_when_the_default_cluster_is_away_others_start_tasks_for_any(bench: Bench, ray: ScriptedRay) -> None:
    ray.away = {"*"}
    bench.add("any", 1, cluster=ANY)
    bench.add("here", 1)
    bench.tick()
    assert [attempt.cluster for attempt in bench.attempts("any")] == ["west"]
    assert not bench.attempts("here")


def test_a_task_for_any_says_where_it_waits_for_room_and_the_cluster_whom_it_keeps_it_for(bench: Bench) -> None:
    bench.running("one", 8)
    bench.add("large", 8, cluster=ANY)
    bench.tick()
    waiting = bench.task("large").waiting
    assert waiting is not None and waiting.facts["cluster"] == "main"  # west has only four
    first = bench.shown.views[""].first
    assert first is not None and (first.task_id, first.gpus) == ("large", 8)
    assert bench.shown.views["west"].first is None


def test_a_task_of_a_cluster_that_is_gone_from_the_settings_waits(bench: Bench) -> None:
    bench.add("lost", 1, cluster="east")
    bench.add("here", 1)
    bench.tick()
    waiting = bench.task("lost").waiting
    assert waiting is not None and waiting.code is WaitingCode.RAY and bench.submitted() == ["here--a01"]


def test_a_task_names_a_cluster_that_there_is(bench: Bench) -> None:
    assert [submitted(bench, cluster=name) for name in ("main", "west", "any")] == ["", "west", ANY]
    assert submitted(bench) == ""
    with pytest.raises(BadSpec, match="there is no cluster east; there are main, west"):
        submitted(bench, cluster="east")


def test_an_environment_says_which_clusters_have_it(bench: Bench) -> None:
    environments = tasks_of(bench).environments
    environments.put("far", b"clusters: [west]", by="root", now=bench.now)
    environments.put("both", b"clusters: [west, main]", by="root", now=bench.now)
    assert submitted(bench, environment="far") == "west" == submitted(bench, environment="far", cluster="any")
    assert submitted(bench, environment="both") == ""
    with pytest.raises(BadSpec, match="it does not have this environment; there are west"):
        submitted(bench, environment="far", cluster="main")


def test_the_queue_is_counted_by_cluster(bench: Bench) -> None:
    bench.add("one", 1)
    bench.add("two", 1, cluster="west")
    bench.add("three", 1, cluster=ANY)
    bench.add("four", 1, cluster="west", demand=Demand(1, 1, 0))
    ahead = [tasks_of(bench).get(USER, name).ahead for name in ("one", "two", "three", "four")]
    assert ahead == [0, 0, 2, 2]
