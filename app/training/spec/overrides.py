"""Settings of verl that a task changes: which ones it may, by the keys that Hydra knows them by, and to what. Pure.

The keys are an allow list: the parts of verl's configuration that are about training itself. Within those no key that
names files, addresses or code, whatever verl adds there; none that asks for more of the cluster than was reckoned with;
and none that the product sets. A value is a text, a number, true, false, null, or a list or map of these.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue, PlainValidator

from app.training.model import Workload
from app.training.spec.texts import MAX_WORDS_BYTES, pathless, short_enough, unfit, visible

OURS: dict[str, str] = {
    "data.train_files": "train_file",
    "data.val_files": "val_file",
    "actor_rollout_ref.model.path": "model_id or model_path",
    "actor_rollout_ref.rollout.name": "rollout",
    "critic.model.path": "model_id or model_path",
    "model.path": "model_id or model_path",
    "algorithm.adv_estimator": "workload or algorithm",
    "trainer.nnodes": "nnodes",
    "trainer.n_gpus_per_node": "n_gpus_per_node",
    "trainer.total_epochs": "total_epochs",
    "trainer.total_training_steps": "total_training_steps",
    "trainer.save_freq": "save_freq",
    "trainer.test_freq": "test_freq",
    "trainer.max_actor_ckpt_to_keep": "keep_checkpoints",
    "trainer.max_critic_ckpt_to_keep": "keep_checkpoints",
    "trainer.max_ckpt_to_keep": "keep_checkpoints",
    "trainer.resume_from_path": "resume_from",
    "trainer.default_local_dir": "",
    "trainer.project_name": "",
    "trainer.experiment_name": "",
    "trainer.logger": "",
    "trainer.use_v1": "",
    "hydra": "",
    "ray_kwargs": "",
}
"""Keys that the product sets, and the field that sets each; "" if there is none."""

_TRAINER = (
    "trainer.balance_batch",
    "trainer.log_val_generations",
    "trainer.esi_redundant_time",
    "trainer.resume_mode",
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
"""Prefixes of keys that a task may set: verl/trainer/config/ppo_trainer.yaml and sft_trainer_engine.yaml."""

ENGINES = {
    "model_engine": (frozenset({Workload.PPO, Workload.GRPO}), ("dp", "megatron")),
    "engine": (frozenset({Workload.SFT}), ("fsdp", "megatron")),
}
"""Files of verl's configuration that a task may choose: the key, whose workloads, and their names. Either engine has
settings of its own."""

NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_KEY = re.compile(rf"\+{{0,2}}({NAME}(?:\.{NAME})*)")
_FILES_OR_CODE = re.compile(
    r"(?:.*_)?(?:path|paths|dir|dirs|file|files|url|urls|uri|host|hosts|address|endpoint|tokenizer"
    r"|lib|libs|code|cmd|command|class|cls|fn|func|function|module|impl|plugin|hook|target)"
    r"|custom_.*|class_name|engine_kwargs|profiler|prometheus|sampler|source|trace"
)
_DEMANDS = frozenset({"nnodes", "n_gpus_per_node", "enable_resource_pool", "disaggregation"})


def check_key(key: str) -> None:
    """Checks the form of a key; is_allowed checks whether the workload has it.

    Raises:
        PydanticCustomError: It is of another form, or Modelmill sets it; the text names it.
    """
    match = _KEY.fullmatch(key) if len(key) <= 200 else None
    if match is None:
        raise unfit(f"{key[:200]!r} is no key of a setting: write it like actor_rollout_ref.rollout.n")
    plain = match[1]
    if plain in ENGINES:
        return
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
    """For Hydra, a key without a dot names a whole file of verl's configuration."""
    if plain in ENGINES:
        return workload in ENGINES[plain][0]
    return "." in plain and any(_is_in(plain, place) for place in ALLOWED[workload])


def _is_in(key: str, place: str) -> bool:
    return f"{key}.".startswith(f"{place}.")


MAX_OVERRIDES = 100
MAX_TEXT = 1000
INTERPOLATION = "${"
"""Starts Hydra's interpolations, which include environment variables."""
_NAME = re.compile(NAME)
_NO_NAMES = frozenset({"true", "false", "null", "inf", "nan"})
"""As a map key, Hydra reads these as something other than a text."""


def keys_in(key: str, value: JsonValue) -> Iterator[str]:
    """The key, and those of the maps in its value, as they would be written separately."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from keys_in(f"{key}.{name}", below)
        if value:
            return
    if isinstance(value, list):
        for below in value:
            if isinstance(below, dict | list):
                yield from keys_in(key, below)
    yield key


def _parse_value(value: Any) -> JsonValue:
    if isinstance(value, dict):
        return {_name(name): _parse_value(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_parse_value(below) for below in value]
    if isinstance(value, str):
        return _format_value(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise unfit("it must be a finite number")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise unfit("it must be a text, a number, true, false, null, or a list or map of these")


def _format_value(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise unfit(f"it is longer than {MAX_TEXT} characters")
    if INTERPOLATION in value:
        raise unfit(f"{INTERPOLATION} is not taken")
    if "/" in pathless(visible(value)):
        raise unfit("it names a path, a repository or an address: the fields of the task do that, which are checked")
    return value


def _name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _NO_NAMES:
        raise unfit(f"{str(name)[:200]!r} is no key of a setting: letters, digits, _ and - are")
    return name


def _parse_overrides(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if len(values) > MAX_OVERRIDES:
        raise unfit(f"there are more than {MAX_OVERRIDES}")
    for key, value in values.items():
        names = ENGINES.get(key.lstrip("+"), ((), ()))[1]
        if names and (key not in ENGINES or value not in names):
            raise unfit(f"{key}: write {key.lstrip('+')}: {' or '.join(names)}")
        for named in {key: None, **dict.fromkeys(keys_in(key, value))}:
            check_key(named)
    if not short_enough(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()):
        raise unfit(f"they are longer than {MAX_WORDS_BYTES // 1024} KiB together")
    return values


_Value = Annotated[JsonValue, PlainValidator(_parse_value, json_schema_input_type=JsonValue)]
Overrides = Annotated[dict[str, _Value], AfterValidator(_parse_overrides)]
