"""Every task of verl that the product shows or writes, and every setting that it sets, against the configuration that
the real verl publishes: Hydra composes it, and nothing mandatory is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from pydantic_core import PydanticCustomError

from app.training.model import Rollout, Workload
from app.training.pages import new_form
from app.training.pages.examples import example
from app.training.service import TrainingOptions
from app.training.spec import TaskSpec, read_spec
from app.training.spec.verl_keys import check_key, is_allowed
from app.training.workloads import submission_of
from tests.harness.paths import REPOSITORY
from tests.harness.training.verl import CONFIG, composed, missing

pytestmark = pytest.mark.skipif(not CONFIG.is_dir(), reason="verl's configuration is not there: ops/test fetches it")
HOME, COMMON = "/private/users/alice", "/private/common"
VERL = [Workload.PPO, Workload.GRPO, Workload.SFT]
FORM = {
    "model_id": "Qwen/Qwen2.5-0.5B-Instruct", "train_file": f"{HOME}/datasets/a.parquet",
    "val_file": f"{HOME}/datasets/b.parquet", "n_gpus_per_node": "8",
}  # fmt: skip
WHOLE_FORM = {
    **FORM, "name": "every field", "code_path": f"{COMMON}/code/verl", "rollout": "sglang", "nnodes": "2",
    "cpus_per_gpu": "2.5", "total_epochs": "3", "total_training_steps": "70", "save_freq": "10", "test_freq": "5",
    "max_wait_s": "60", "restart_on_infra": "2", "backfill": "1",
    "overrides": "data.train_batch_size: 64\ntrainer.resume_mode: disable",
}  # fmt: skip


def read(text: str) -> TaskSpec:
    return read_spec(text.encode())[0]


def filled_in(workload: Workload, fields: dict[str, str]) -> TaskSpec:
    spec, _, problems = new_form.spec_of({**new_form.empty_values(workload), **fields})
    assert spec is not None, problems
    return spec


def documented() -> Iterator[Any]:
    for file in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        tasks = re.findall(r"```yaml\n(workload: (?:ppo|grpo|sft)\n.*?)```", file.read_text(), re.DOTALL)
        for number, text in enumerate(tasks):
            yield pytest.param(read(text), id=f"{file.name}-{number}")


def shown() -> Iterator[Any]:
    for workload in VERL:
        yield pytest.param(read(example(workload, HOME, COMMON)), id=f"example-{workload}")
        yield pytest.param(filled_in(workload, FORM), id=f"form-{workload}")
        yield pytest.param(filled_in(workload, {**FORM, "n_gpus_per_node": "1"}), id=f"form-{workload}-one-gpu")
        yield pytest.param(filled_in(workload, WHOLE_FORM), id=f"whole-form-{workload}")


def words(spec: TaskSpec) -> list[str]:
    """Of its command line: what comes after the interpreter."""
    made = submission_of(
        spec, submission_id="t--a01", task_id="t", user="alice", logical_root="/private",
        options=TrainingOptions(is_on=True, homes_root="/private"),
    )  # fmt: skip
    return shlex.split(made.entrypoint)[5:]


@pytest.mark.parametrize("spec", [*documented(), *shown()])
def test_verl_knows_every_setting_of_what_is_shown_and_misses_none(spec: TaskSpec) -> None:
    config = composed(words(spec))
    assert missing(config) == set()
    assert config.data.train_files == spec.train_file
    assert config.trainer.n_gpus_per_node == spec.n_gpus_per_node
    if spec.workload is not Workload.SFT:
        assert config.actor_rollout_ref.rollout.name == (spec.rollout or Rollout.VLLM)
        assert config.trainer.use_v1 is False
        parts = (config.actor_rollout_ref.actor, config.critic)
        assert [part.use_dynamic_bsz for part in parts] == [True, True]
        both = (config.actor_rollout_ref.ref, config.actor_rollout_ref.rollout)
        assert [part.log_prob_use_dynamic_bsz for part in both] == [True, True]


def test_something_is_documented() -> None:
    assert list(documented())


def test_lists_and_maps_arrive_as_they_were_written() -> None:
    spec = filled_in(Workload.GRPO, FORM).model_copy(
        update={
            "overrides": {
                "actor_rollout_ref.actor.checkpoint.save_contents": ["model", "hf_model"],
                "+data.apply_chat_template_kwargs": {"enable_thinking": False, "deep": [1, {"a": "b c, d]"}]},
                "actor_rollout_ref.model.target_modules": ["q_proj", "v_proj"],
            }
        }
    )
    config = composed(words(spec))
    assert config.actor_rollout_ref.actor.checkpoint.save_contents == ["model", "hf_model"]
    assert config.actor_rollout_ref.model.target_modules == ["q_proj", "v_proj"]
    kept = OmegaConf.to_container(config.data.apply_chat_template_kwargs)
    assert kept == {"enable_thinking": False, "deep": [1, {"a": "b c, d]"}]}


def test_the_real_configuration_refuses_what_it_does_not_know() -> None:
    spec = filled_in(Workload.PPO, FORM).model_copy(update={"overrides": {"data.no_such_setting": 1}})
    with pytest.raises(HydraException, match="no_such_setting"):
        composed(words(spec))


@pytest.mark.parametrize("workload", VERL)
def test_of_verls_own_settings_none_that_names_files_addresses_or_code_is_a_tasks_to_change(workload: Workload) -> None:
    names = set(_leaves(composed(words(filled_in(workload, FORM)))))
    taken = {name for name in names if _is_taken(name, workload)}
    assert {"data.train_batch_size", "trainer.resume_mode"} <= taken
    risky = re.compile(r"path|dir$|file|cmd|class|_fn$|ur[il]$|target$|custom|hook|module$|lib$|host|address|trust")
    assert [name for name in sorted(taken) if risky.search(name.rpartition(".")[2])] == []
    assert len(taken) < len(names)


def _leaves(node: DictConfig, at: str = "") -> Iterator[str]:
    for name in node:
        below = node._get_node(name)
        place = f"{at}.{name}" if at else str(name)
        if isinstance(below, DictConfig) and len(below):
            yield from _leaves(below, place)
        else:
            yield place


def _is_taken(name: str, workload: Workload) -> bool:
    try:
        check_key(name)
    except PydanticCustomError:
        return False
    return is_allowed(name, workload)
