"""Types of GPU and custom resources on a real cluster: the second of its two nodes has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.training.gateway.ray_gateway import RayGateway
from tests.harness.ray_cluster import RayCluster
from tests.harness.training.deployment import ENDED, TASKS, Trainer
from tests.harness.until import until

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def linked(ray_cluster: RayCluster) -> Iterator[str]:
    """The id of that node."""
    gateway = RayGateway(ray_cluster.options())
    [node] = [node for node in gateway.nodes() if node.resources]
    assert (dict(node.resources), node.accelerators) == ({"accelerator_type:A100": 1, "nvlink": 2}, ["A100"])
    yield node.node_id
    gateway.close()


@pytest.mark.exhaustive  # a job of the gateway does
def test_programs_and_groups_of_verl_lie_on_the_nodes_that_have_them(trainer: Trainer, linked: str) -> None:
    """Of verl's it is the stand-in, which takes its groups as verl does, and imports what it is told as verl does."""
    code = trainer.add_program("typed", "")
    scripts = [trainer.run(code, accelerator_type="A100") for _ in range(2)]
    verl = trainer.submit(gpus=2, accelerator_type="A100", resources={"nvlink": 2}, hold_s=20)
    trainer.reaches(verl, "RUNNING")
    held = until(
        lambda: trainer.http.get("/api/v2/cluster").json()["holders"],
        lambda holders: [one for one in holders if one["task_id"] == verl and one["by_node"]],
    )
    assert [one["by_node"] for one in held if one["task_id"] == verl] == [{linked: 2}]
    behind = trainer.submit(gpus=1, resources={"nvlink": 1}, hold_s=0)
    waiting = trainer.when(behind, lambda task: task["waiting"] and task["waiting"]["code"] == "RESOURCES")
    assert waiting["waiting_reason"] == "waiting: no node has nvlink free beside its GPUs and CPUs"
    for task_id in (*scripts, verl, behind):
        task = trainer.reaches(task_id, *ENDED)
        assert task["state"] == "SUCCEEDED", task["error_summary"]
    assert {trainer.task(task_id)["attempts"][0]["driver_node_id"] for task_id in scripts} == {linked}


@pytest.mark.exhaustive  # the units of admission do, and jobs of the gateway on nodes with such resources
def test_what_no_node_has_is_refused_when_it_is_sent(trainer: Trainer) -> None:
    until(lambda: trainer.http.get("/api/v2/cluster").json()["nodes"], bool)
    body = {"workload": "script", "code_path": trainer.add_program("absent", ""), "accelerator_type": "H100"}
    answer = trainer.http.post(TASKS, json=body)
    assert answer.status_code == 422, answer.text
    assert "there are A100" in answer.json()["error"]["message"]
