"""What is written down of an attempt that ended well."""

from __future__ import annotations

from app.training.model import State, Workload
from tests.harness.training.scripted_ray import PPO, Bench, ScriptedRay

EPOCHS_ENDED = "\rEpoch 3/3: 100%|██████████| 4/4 [00:00<00:00,  4.43it/s]\n"


def test_a_fine_tuning_that_trained_too_few_steps_says_so(bench: Bench, ray: ScriptedRay) -> None:
    spec = PPO.replace("ppo", "sft")
    for name, last_step in [("all", 12), ("too-few", 8)]:
        submission_id = bench.running(name, workload=Workload.SFT, spec=spec)
        ray.write(submission_id, f"step:{last_step} - train/loss:2.8\n{EPOCHS_ENDED}".encode())
        ray.end(submission_id)
        bench.tick()
    all_steps, too_few = bench.task("all"), bench.task("too-few")
    assert (all_steps.state, all_steps.error_summary) == (State.SUCCEEDED, "")
    assert too_few.state is State.SUCCEEDED
    assert too_few.error_summary.startswith("It trained 8 of 12 steps")
