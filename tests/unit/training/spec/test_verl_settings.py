"""Overrides that no supported version of verl knows are refused before the task waits for the cluster."""

from __future__ import annotations

import pytest

from app.training.errors import BadSpec
from app.training.spec import TaskSpec, read_spec
from app.training.spec.verl_settings import check_settings

ACTOR = "actor_rollout_ref.actor"


def task(overrides: str, workload: str = "grpo") -> TaskSpec:
    data = "train_file: /private/common/a\nval_file: /private/common/b\nmodel_id: a/b\nn_gpus_per_node: 1"
    return read_spec(f"workload: {workload}\n{data}\noverrides: {{{overrides}}}".encode())[0]


@pytest.mark.parametrize(
    ("overrides", "near"),
    [
        (f"{ACTOR}.optm.lr: 1e-6", f"{ACTOR}.optim.lr"),
        ("data.train_batchsize: 8", "data.train_batch_size"),
        (f"{ACTOR}.optim: {{weight_decy: 1}}", f"{ACTOR}.optim.weight_decay"),
    ],
)
def test_a_misspelled_setting_is_refused_with_the_one_that_is_meant(overrides: str, near: str) -> None:
    with pytest.raises(BadSpec, match=rf"has no such setting: did you mean {near}\?"):
        check_settings(task(overrides))


def test_one_that_is_like_no_other_may_be_of_another_version() -> None:
    with pytest.raises(BadSpec, match=rf"no such setting. If yours has it, write \+\+{ACTOR}.optim.xyz") as refused:
        check_settings(task(f"{ACTOR}.optim.xyz: 1, data.zyx: 2"))
    assert [problem["at"] for problem in refused.value.detail["problems"]] == ["overrides", "overrides"]
    check_settings(task(f"++{ACTOR}.optim.xyz: 1, +data.zyx: {{a: 2}}"))


@pytest.mark.parametrize(
    "overrides",
    [
        f"{ACTOR}.optim: {{lr: 1, weight_decay: 0.1}}",
        f"{ACTOR}.checkpoint.save_contents: [model, hf_model]",
        "actor_rollout_ref.model.override_config: {attn_implementation: eager}",
        "trainer.resume_mode: disable",
    ],
    ids=["a map of settings", "a list", "a map that is one setting", "a setting of the trainer"],
)
def test_what_a_version_of_verl_has_is_taken(overrides: str) -> None:
    check_settings(task(overrides))


@pytest.mark.parametrize(
    ("overrides", "workload"),
    [
        ("model_engine: megatron", "sft"),
        ("engine: megatron", "ppo"),
        ("engine: veomni", "sft"),
        ("+model_engine: megatron", "ppo"),
        ("engine: {strategy: fsdp2}", "sft"),
        ("model_engine: [megatron]", "grpo"),
    ],
)
def test_only_the_engines_of_a_workload_are_chosen_by_name(overrides: str, workload: str) -> None:
    with pytest.raises(BadSpec, match="engine: "):
        task(overrides, workload)


def test_megatron_is_chosen_with_its_settings() -> None:
    check_settings(task(f"model_engine: megatron, {ACTOR}.megatron.tensor_model_parallel_size: 2", "ppo"))
    check_settings(task("engine: megatron, engine.tensor_model_parallel_size: 2", "sft"))


def test_the_trainer_of_examples_has_its_own() -> None:
    check_settings(task("optim.lr: 1e-5", "sft"))
    with pytest.raises(BadSpec, match=r"did you mean optim\.lr\?"):
        check_settings(task("optim.lrr: 1e-5", "sft"))
