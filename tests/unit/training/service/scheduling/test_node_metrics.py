"""How much nodes are used: shown of the cluster, and written as metrics of the tasks that run there."""

from __future__ import annotations

import json

from app.training.model.node_use import NodeUse
from app.training.service import CurveReader, Tasks
from tests.harness.training.scripted_ray import USER, Bench, ScriptedRay


def rows(bench: Bench, submission_id: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (bench.folder(submission_id) / "nodes.jsonl").read_text().splitlines()]


def test_a_running_task_gets_a_row_about_its_node_every_15_s(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.claim(submission_id, ("node0", 8))
    for _ in range(8):
        bench.tick(5)
    told = rows(bench, submission_id)
    assert 2 <= len(told) <= 3 and all(row["step"] == int(row["time"]) for row in told)
    assert told[0]["node/node0/cpu_percent"] == 12.5 and told[0]["node/node0/gpu_memory_gib"] == 10
    tasks = Tasks(bench.options, bench.database, bench.homes, lambda: None)
    read = CurveReader(bench.homes).read(tasks.get(USER, "one"))
    assert list(read.curves["node/node0/gpu_percent"].values) == [50.0] * len(told)
    assert (read.row_count, read.node_row_count) == (0, len(told))


def test_the_cluster_is_shown_with_it(bench: Bench) -> None:
    bench.tick()
    bench.tick(1)
    view = bench.shown.view
    assert view is not None and view.use["node0"] == NodeUse(12.5, 3 << 30, 8 << 30, 50.0, 10 << 30, 80 << 30)


def test_that_it_is_not_known_changes_nothing_else(bench: Bench, ray: ScriptedRay) -> None:
    ray.away = {"use"}
    submission_id = bench.running("one")
    ray.claim(submission_id, ("node0", 8))
    bench.tick(20)
    view = bench.shown.view
    assert view is not None and view.unreachable_since is None and not view.use
    assert not (bench.folder(submission_id) / "nodes.jsonl").exists()
