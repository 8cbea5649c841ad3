"""Ticks on a scripted Ray: the way of a task, and what is shown of it."""

from __future__ import annotations

import json

from app.kit.clock import to_text
from app.training.model import State
from tests.harness.training.scripted_ray import BEGIN, SPEC, Bench, ScriptedRay


def test_a_task_goes_from_the_line_to_its_end(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTED, ["one--a01"])
    ray.run("one--a01", node="node0")
    bench.tick()
    assert bench.state("one") is State.RUNNING
    ray.end("one--a01", exit_code=0, ended_ms=int(BEGIN.timestamp() * 1000))
    bench.tick(7)
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, task.ended_at) == (State.SUCCEEDED, to_text(bench.now))
    assert (attempt.ray_status, attempt.exit_code, attempt.driver_node_id) == ("SUCCEEDED", 0, "node0")
    assert (attempt.ray_job_id, attempt.ended_at) == ("00000001", to_text(BEGIN))
    assert [detail["to"] for detail in bench.events("one", "STATE")] == [
        "SUBMITTING",
        "SUBMITTED",
        "RUNNING",
        "SUCCEEDED",
    ]
    assert [detail["status"] for detail in bench.events("one", "RAY_STATUS")] == ["PENDING", "RUNNING", "SUCCEEDED"][1:]


def test_a_tick_in_which_nothing_happens_writes_nothing(bench: Bench) -> None:
    bench.running("one")
    version = bench.task("one").version
    bench.tick(5)
    assert bench.task("one").version == version
    assert len(bench.events("one", "RAY_STATUS")) == 1


def test_what_is_submitted_is_what_the_workload_says(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    (submission,) = ray.submissions
    assert submission.metadata["task_id"] == "one"
    assert submission.resources == {"worker_node": 1}
    payload = json.loads(bench.attempts("one")[0].submit_payload)
    assert payload["entrypoint"] == submission.entrypoint
    assert json.loads((bench.folder("one--a01") / "submit.json").read_text()) == payload


def test_the_spec_lies_in_the_folder_byte_for_byte(bench: Bench) -> None:
    spec = f"# 訓練\r\n{SPEC}name:   two  \n"
    bench.add("one", spec=spec)
    bench.tick()
    assert (bench.folder("one--a01") / "jobspec.yaml").read_bytes() == spec.encode()


def test_the_end_of_a_job_is_never_in_the_future(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.end(submission_id, ended_ms=int(BEGIN.timestamp() * 1000) + 3600_000)
    bench.tick(5)
    assert bench.attempts("one")[0].ended_at == to_text(bench.now)


def test_a_task_that_ended_between_two_ticks_needs_no_running_state(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    ray.run("one--a01")
    ray.end("one--a01")
    bench.tick()
    assert bench.state("one") is State.SUCCEEDED


def test_only_one_that_asks_for_conversion_is_reported_when_it_succeeds(bench: Bench, ray: ScriptedRay) -> None:
    asks = f"{SPEC}convert:\n  images: images.zip\n"
    for name, spec in (("plain", SPEC), ("asks", asks), ("fails", asks)):
        bench.add(name, 1, spec=spec)
    bench.tick()
    for name in ("plain", "asks", "fails"):
        ray.run(f"{name}--a01")
    ray.end("plain--a01")
    ray.end("asks--a01")
    ray.fail("fails--a01", "RuntimeError: no")
    bench.tick()
    assert bench.succeeded == ["asks"]


def test_retention_counts_from_the_end_of_the_job(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    (times,) = bench.homes.folders.times("alice", [submission_id])
    assert times.ended_at is None
    ray.end(submission_id, ended_ms=int(BEGIN.timestamp() * 1000))
    bench.tick(100)
    (times,) = bench.homes.folders.times("alice", [submission_id])
    assert times.ended_at == BEGIN


def test_the_picture_shows_who_has_what(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("one", 4), ("node0", 4))
    bench.add("two", 2)
    bench.add("three", 8)
    bench.tick()
    view = bench.shown.view
    assert view is not None
    assert [(holder.task_id, holder.gpus, holder.by_node) for holder in view.holders] == [
        ("one", 4, {"node0": 4}),
        ("two", 2, {}),
    ]
    assert (view.queued, view.seen_at, view.nodes[0].free_gpus) == (1, to_text(bench.now), 4)
