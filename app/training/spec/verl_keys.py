"""Which of verl's own settings a task may change, by the key that Hydra knows them by. Pure.

An allow list: the parts of verl's configuration that are about training itself. Within those no key that names files,
addresses or code, whatever verl adds there; none that asks for more of the cluster than was reckoned with; and none
that the product sets.
"""

from __future__ import annotations

import re

from app.training.model import Workload
from app.training.spec.texts import unfit

OURS: dict[str, str] = {
    "data.train_files": "train_file",
    "data.val_files": "val_file",
    "actor_rollout_ref.model.path": "model_id or model_path",
    "actor_rollout_ref.rollout.name": "rollout",
    "critic.model.path": "model_id or model_path",
    "model.path": "model_id or model_path",
    "algorithm.adv_estimator": "workload",
    "trainer.nnodes": "nnodes",
    "trainer.n_gpus_per_node": "n_gpus_per_node",
    "trainer.total_epochs": "total_epochs",
    "trainer.total_training_steps": "total_training_steps",
    "trainer.save_freq": "save_freq",
    "trainer.test_freq": "test_freq",
    "trainer.default_local_dir": "",
    "trainer.project_name": "",
    "trainer.experiment_name": "",
    "trainer.logger": "",
    "trainer.use_v1": "",
    "hydra": "",
    "ray_kwargs": "",
}
"""What the product sets, and by which field; "" for what no field sets."""

_TRAINER = (
    "trainer.balance_batch",
    "trainer.log_val_generations",
    "trainer.esi_redundant_time",
    "trainer.resume_mode",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.max_critic_ckpt_to_keep",
    "trainer.max_ckpt_to_keep",
    "trainer.del_local_ckpt_after_load",
    "trainer.ray_wait_register_center_timeout",
    "trainer.seed",
    "trainer.val_before_train",
    "trainer.val_only",
    "trainer.critic_warmup",
    "trainer.device",
)
_BY_REINFORCEMENT = (
    "data",
    "actor_rollout_ref.actor",
    "actor_rollout_ref.ref",
    "actor_rollout_ref.rollout",
    "actor_rollout_ref.model",
    "critic",
    "algorithm",
    "reward.num_workers",
    "reward.reward_manager.name",
    "reward.reward_kwargs",
    "reward_model.reward_manager",
    "reward_model.reward_kwargs",
    *_TRAINER,
)
_BY_EXAMPLES = ("data", "model", "engine", "optim", "checkpoint", *_TRAINER)
ALLOWED = {Workload.PPO: _BY_REINFORCEMENT, Workload.GRPO: _BY_REINFORCEMENT, Workload.SFT: _BY_EXAMPLES}
"""Where a key lies that a task may set: verl/trainer/config/ppo_trainer.yaml and sft_trainer_engine.yaml."""

NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_KEY = re.compile(rf"\+{{0,2}}({NAME}(?:\.{NAME})*)")
_FILES_OR_CODE = re.compile(
    r"(?:.*_)?(?:path|paths|dir|dirs|file|files|url|urls|uri|host|hosts|address|endpoint|tokenizer"
    r"|lib|libs|code|cmd|command|class|cls|fn|func|function|module|impl|plugin|hook|target)"
    r"|custom_.*|class_name|engine_kwargs|profiler|prometheus|sampler|source|trace"
)
_DEMANDS = frozenset({"nnodes", "n_gpus_per_node", "enable_resource_pool", "disaggregation"})


def check_key(key: str) -> None:
    """Raises PydanticCustomError, whose text names the key. Whether the workload has it: is_allowed."""
    found = _KEY.fullmatch(key) if len(key) <= 200 else None
    if found is None:
        raise unfit(f"{key[:200]!r} is no key of a setting: write it like actor_rollout_ref.rollout.n")
    plain = found[1]
    for ours, field in OURS.items():
        if _is_in(plain, ours) or _is_in(ours, plain):
            by = f"by {field}" if field else "by Modelmill itself"
            raise unfit(f"{key}: {ours} is set {by}")
    names = plain.split(".")
    if _DEMANDS.intersection(names):
        raise unfit(f"{key}: what a task takes of the cluster is said by nnodes and n_gpus_per_node")
    if "trust_remote_code" in names or any(map(_FILES_OR_CODE.fullmatch, names)):
        raise unfit(f"{key}: files, addresses and code are named by the fields of the task, which are checked")
    if not any(is_allowed(plain, workload) for workload in ALLOWED):
        raise unfit(f"{key}: it is none of the settings of verl that a task may change")


def is_allowed(plain: str, workload: Workload) -> bool:
    """A key without a dot names to Hydra a whole file of verl's configuration."""
    return "." in plain and any(_is_in(plain, place) for place in ALLOWED[workload])


def _is_in(key: str, place: str) -> bool:
    return f"{key}.".startswith(f"{place}.")
