"""Every task of verl that the product shows or writes: of the documents, the page's examples, and the form."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from app.training.model import Algorithm, Workload
from app.training.pages import new_form
from app.training.pages.examples import example
from app.training.service import TrainingOptions
from app.training.spec import TaskSpec, read_spec
from app.training.spec.sweeps import read_task_or_sweep
from app.training.workloads import submission_of
from tests.harness.paths import REPOSITORY

HOME, COMMON = "/private/users/alice", "/private/common"
VERL = [Workload.PPO, Workload.GRPO, Workload.SFT]
FORM = {
    "model_id": "Qwen/Qwen2.5-0.5B-Instruct",
    "train_file": f"{HOME}/datasets/a.parquet",
    "val_file": f"{HOME}/datasets/b.parquet",
    "n_gpus_per_node": "8",
}
JUDGE = {"reward_model": "Skywork/Skywork-Reward-V2-Qwen3-0.6B"}
WHOLE_FORM = {
    **FORM,
    "name": "every field",
    "code_path": f"{COMMON}/code/verl",
    "rollout": "sglang",
    "nnodes": "2",
    "cpus_per_gpu": "2.5",
    "total_epochs": "3",
    "total_training_steps": "70",
    "save_freq": "10",
    "test_freq": "5",
    "keep_checkpoints": "3",
    "keep_best": "2",
    "best_metric": "val/loss",
    "resume_from": f"{HOME}/jobs/before/checkpoints/global_step_50",
    "max_run_s": "86400",
    "max_idle_s": "3600",
    "max_wait_s": "60",
    "restart_on_infra": "2",
    "backfill": "1",
    "overrides": "data.train_batch_size: 64\ntrainer.resume_mode: disable",
}


def read(text: str) -> TaskSpec:
    return read_spec(text.encode())[0]


def filled_in(workload: Workload, fields: dict[str, str]) -> TaskSpec:
    spec, _, problems = new_form.spec_of({**new_form.empty_values(workload), **fields})
    assert spec is not None, problems
    return spec


def documented() -> Iterator[tuple[str, TaskSpec]]:
    for file in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        tasks = re.findall(r"```yaml\n(workload: (?:ppo|grpo|sft)\n.*?)```", file.read_text(), re.DOTALL)
        for number, text in enumerate(tasks):
            spec, _, _ = read_task_or_sweep(text.encode())
            yield f"{file.name}-{number}", spec


def megatron() -> Iterator[tuple[str, TaskSpec]]:
    """With Megatron as the engine, and a setting that it alone has."""
    actor = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size: 2"
    for workload in VERL:
        chosen = "engine: megatron\nengine.tensor_model_parallel_size: 2"
        if workload is not Workload.SFT:
            chosen = f"model_engine: megatron\n{actor}"
        yield f"megatron-{workload}", filled_in(workload, {**FORM, "overrides": chosen})


def shown() -> Iterator[tuple[str, TaskSpec]]:
    for workload in VERL:
        yield f"example-{workload}", read(example(workload, HOME, COMMON))
        yield f"form-{workload}", filled_in(workload, FORM)
        yield f"form-{workload}-one-gpu", filled_in(workload, {**FORM, "n_gpus_per_node": "1"})
        yield f"whole-form-{workload}", filled_in(workload, WHOLE_FORM)
    for workload in (Workload.PPO, Workload.GRPO):
        yield f"form-{workload}-judged", filled_in(workload, {**FORM, "n_gpus_per_node": "1", **JUDGE})
    yield from megatron()
    for algorithm in Algorithm:
        yield f"form-{algorithm}", filled_in(Workload.GRPO, {**FORM, "algorithm": algorithm})


def words(spec: TaskSpec) -> list[str]:
    """Of its command line: what comes after the interpreter."""
    made = submission_of(
        spec,
        submission_id="t--a01",
        task_id="t",
        user="alice",
        logical_root="/private",
        options=TrainingOptions(is_on=True, homes_root="/private"),
    )
    return shlex.split(made.entrypoint)[5:]
