"""Where the processes of a running task are, by py-spy through the dashboard of a real Ray."""

from __future__ import annotations

import pytest

from tests.harness.training.deployment import TASKS, Trainer
from tests.harness.until import until

PROGRAM = """\
import time, ray

ray.init()

@ray.remote(num_cpus=0)
class Learner:
    def waits_in_a_step(self):
        time.sleep(600)

def waits_for_its_learner():
    ray.get(Learner.remote().waits_in_a_step.remote())

waits_for_its_learner()
"""


@pytest.mark.exhaustive
def test_the_stacks_of_a_task_are_those_of_its_driver_and_actors(trainer: Trainer) -> None:
    task_id = trainer.run(trainer.add_program("stacks", PROGRAM))
    trainer.reaches(task_id, "RUNNING")

    def stacks() -> str:
        answer = trainer.http.post(f"{TASKS}/{task_id}/stacks")
        return answer.text if answer.status_code == 200 else ""

    text = until(stacks, lambda text: "waits_in_a_step" in text and "waits_for_its_learner" in text)
    assert '"name":"driver"' in text and '"name":"Learner"' in text
    until(
        lambda: trainer.http.post(f"/ui/tasks/{task_id}/stacks", headers={"Sec-Fetch-Site": "same-origin"}),
        lambda page: page.status_code == 200 and "waits_in_a_step" in page.text,
    )
    trainer.cancel(task_id)
    answer = trainer.http.post(f"{TASKS}/{task_id}/stacks")
    assert answer.status_code == 409 and "TASK_STACKS_UNAVAILABLE" in answer.text
