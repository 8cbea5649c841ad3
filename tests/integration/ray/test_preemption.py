"""Preemption on a real cluster: a task gives way, and another attempt of it goes on when the urgent one has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.ray_cluster import RayCluster
from tests.harness.training.deployment import ENDED, TASKS, Trainer

pytestmark = [pytest.mark.ray, pytest.mark.slow]
COUNTER = """
import os, pathlib, time
state = pathlib.Path(os.environ["MODELMILL_TRAIN_FILE"]).with_name("counted")
step = int(state.read_text()) if state.exists() else 0
print("begins at", step, flush=True)
while step < 3:
    time.sleep(0.2)
    if not step or pathlib.Path(os.environ["MODELMILL_TRAIN_FILE"]).with_name("go").exists():
        step += 1
        state.write_text(str(step))
print("ends at", step)
"""
"""Counts to one, and on from there when it is told to go: what it has written so far outlives it."""


@pytest.fixture
def preempting(tmp_path: Path, ray_cluster: RayCluster) -> Iterator[Trainer]:
    made = Trainer(
        tmp_path, ray_cluster, training_queue="priority", training_preempted='["low"]', training_preemption_grace_s="5"
    )
    try:
        made.start()
        yield made
    finally:
        made.cancel(*made.unended())
        made.close()


@pytest.mark.exhaustive  # the scheduler's own tests show it
def test_a_running_task_gives_way_and_goes_on_after_the_urgent_one(preempting: Trainer) -> None:
    trainer, code = preempting, preempting.add_program("counter", COUNTER)
    data = "/private/common/datasets/train.parquet"
    spare = trainer.run(code, n_gpus_per_node=4, cpus=15, priority="low", preemptible=True, train_file=data)
    other = trainer.submit(gpus=4, priority="low", hold_s=300)
    for task_id in (spare, other):
        trainer.reaches(task_id, "RUNNING")
    counted = trainer.common / "datasets" / "counted"
    trainer.when(spare, lambda _: counted.exists())
    urgent = trainer.submit(gpus=4, nodes=2, hold_s=1)
    assert trainer.reaches(urgent, *ENDED)["state"] == "SUCCEEDED"
    (trainer.common / "datasets" / "go").touch()
    done = trainer.reaches(spare, *ENDED)
    assert (done["state"], [attempt["failure_kind"] for attempt in done["attempts"]]) == (
        "SUCCEEDED",
        ["PREEMPTED", None],
    )
    assert "begins at 1" in trainer.logs(spare)
    again = trainer.when(other, lambda task: len(task["attempts"]) == 2)
    assert again["attempts"][0]["failure_kind"] == "PREEMPTED"
    kinds = [event["event_type"] for event in trainer.http.get(f"{TASKS}/{other}/events").json()["events"]]
    assert "PREEMPTION_ASKED" in kinds
