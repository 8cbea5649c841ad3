"""Every task of verl that the product shows or writes, and every setting that it sets, against the configuration that
the real verl publishes: Hydra composes it, and nothing mandatory is missing."""

from __future__ import annotations

import re
import tomllib

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from app.training.model import Algorithm, Rollout, Workload
from app.training.spec import TaskSpec
from app.training.spec.verl_settings import TABLE
from tests.harness.training.verl import CONFIG, composed, config_of, missing
from tests.harness.training.verl_settings import OLDER, is_open, leaves, settings_of_tasks
from tests.harness.training.verl_tasks import FORM, VERL, documented, filled_in, megatron, shown, words
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.skipif(not CONFIG.is_dir(), reason="verl's configuration is not there: ops/test fetches it")


IN_OTHERS = re.compile(r"form-(ppo|grpo|sft|grpo-judged|gpg|.*-one-gpu|rloo|re.*|opo)|example-.*|megatron-.*")
"""Of what is shown: what sets less than a whole form, algorithms that differ by their name alone, and Megatron."""
EACH = [
    pytest.param(spec, id=name, marks=[pytest.mark.exhaustive] * bool(IN_OTHERS.fullmatch(name)))
    for name, spec in [*documented(), *shown()]
]


@pytest.mark.parametrize("spec", EACH)
def test_verl_knows_every_setting_of_what_is_shown_and_misses_none(spec: TaskSpec) -> None:
    config = composed(words(spec))
    assert missing(config) == set()
    assert config.data.train_files == spec.train_file
    assert config.trainer.n_gpus_per_node == spec.n_gpus_per_node
    if spec.workload is not Workload.SFT:
        assert config.actor_rollout_ref.rollout.name == (spec.rollout or Rollout.VLLM)
        assert config.trainer.use_v1 is False
        assert config.algorithm.adv_estimator == _estimator(spec)
        parts = (config.actor_rollout_ref.actor, config.critic)
        assert [part.use_dynamic_bsz for part in parts] == [True, True]
        both = (config.actor_rollout_ref.ref, config.actor_rollout_ref.rollout)
        assert [part.log_prob_use_dynamic_bsz for part in both] == [True, True]


def _estimator(spec: TaskSpec) -> str:
    if spec.workload is Workload.PPO:
        return "gae"
    return "grpo" if spec.algorithm in (None, Algorithm.DAPO) else str(spec.algorithm)


@pytest.mark.parametrize("version", [*OLDER[:1], *exhaustive(*((version,) for version in OLDER[1:]))])
@pytest.mark.parametrize("kinds", [("whole-form", "form-dapo"), *exhaustive((("example", "form-gpg"),))], ids=str)
def test_older_versions_know_every_setting_too_and_miss_none(version: str, kinds: tuple[str, ...]) -> None:
    config = config_of(version)
    if not config.is_dir():
        pytest.skip(f"the configuration of verl {version} is not there: ops/test fetches it")
    written = [spec for name, spec in shown() if name.startswith(kinds)]
    assert len(written) == 4
    for spec in [*written, *(spec for _, spec in shown() if spec.reward_model)]:
        assert missing(composed(words(spec), config)) == set()


@pytest.mark.parametrize(
    "spec",
    [  # what GRPO sets is among what PPO sets
        pytest.param(spec, id=name, marks=[pytest.mark.exhaustive] * (spec.workload is Workload.GRPO))
        for name, spec in megatron()
    ],
)
def test_a_task_may_choose_megatron_for_its_engine(spec: TaskSpec) -> None:
    for config in (CONFIG, config_of("0.8.0")):
        if not config.is_dir():
            pytest.skip("the configuration of verl 0.8.0 is not there: ops/test fetches it")
        chosen = composed(words(spec), config)
        assert missing(chosen) == set()
        engine = chosen.engine if spec.workload is Workload.SFT else chosen.actor_rollout_ref.actor.megatron
        assert engine.tensor_model_parallel_size == 2
        assert "fsdp_config" not in chosen.get("actor_rollout_ref", {}).get("actor", {})


@pytest.mark.exhaustive
def test_the_table_of_settings_that_a_task_may_change_is_that_of_the_supported_versions() -> None:
    if not all(config_of(version).is_dir() for version in OLDER):
        pytest.skip("the configurations of older versions are not there: ops/test fetches them")
    assert tomllib.loads(TABLE.read_text()) == settings_of_tasks()


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


@pytest.mark.parametrize(
    "workload", [pytest.param(each, marks=[pytest.mark.exhaustive] * (each is Workload.GRPO)) for each in VERL]
)
def test_of_verls_own_settings_none_that_names_files_addresses_or_code_is_a_tasks_to_change(workload: Workload) -> None:
    names = set(leaves(composed(words(filled_in(workload, FORM)))))
    taken = {name for name in names if is_open(name, workload)}
    table = set(tomllib.loads(TABLE.read_text())["sft" if workload is Workload.SFT else "ppo"])
    assert taken and taken <= table
    taken |= table
    assert {"data.train_batch_size", "trainer.resume_mode"} <= taken
    risky = re.compile(r"path|dir$|file|cmd|class|_fn$|ur[il]$|target$|custom|hook|module$|lib$|host|address|trust")
    assert [name for name in sorted(taken) if risky.search(name.rpartition(".")[2])] == []
    assert len(taken) < len(names)
