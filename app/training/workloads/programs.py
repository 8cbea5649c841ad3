"""verl's programs: which module trains, what it claims, and which Hydra keys represent the fields of a spec.

Names as in verl 0.7 to 0.9 (verl/trainer/config/ppo_trainer.yaml and sft_trainer_engine.yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from app.training.model import Algorithm, Demand, Workload
from app.training.model.capacity import ACCELERATOR, ANY_OF_TYPE
from app.training.spec import TaskSpec


@dataclass(frozen=True)
class Program:
    """A program of verl."""

    module: str
    """What Python runs."""
    cpus_per_gpu: float
    """In each bundle of its placement groups."""
    driver_cpus: float
    """CPUs of its additional processes."""
    model_keys: tuple[str, ...]
    """The key of the model."""
    keep_keys: tuple[str, ...]
    """The key of the number of checkpoints to keep."""
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    """Always set."""
    defaults: Mapping[str, JsonValue] = field(default_factory=dict)
    """Set unless the task overrides them."""


_ONE_TRAINER = {"++trainer.use_v1": False}
"""verl's newer trainer (its default since 0.9) keeps its data in an actor with one name for the whole cluster: of two
tasks the second joins the first and dies with it. It also places parts on the head, which has no CPUs."""
_BATCHES = {"actor_rollout_ref.actor.use_dynamic_bsz": True}
"""By tokens: otherwise verl requires a micro batch size of each part. Critic, reference and rollout follow the
actor."""

_GROUP: Mapping[str, JsonValue] = {"actor_rollout_ref.rollout.n": 5}
"""A group of one answer has nothing to be compared with, and that is verl's default."""
_DAPO: Mapping[str, JsonValue] = {
    "actor_rollout_ref.rollout.n": 16,
    "actor_rollout_ref.actor.clip_ratio_low": 0.2,
    "actor_rollout_ref.actor.clip_ratio_high": 0.28,
    "actor_rollout_ref.actor.clip_ratio_c": 10.0,
    "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
    "reward.reward_manager.name": "dapo",
}
_KL_LOSS: Mapping[str, JsonValue] = {"actor_rollout_ref.actor.use_kl_loss": True}

ALGORITHMS: Mapping[Algorithm, Mapping[str, JsonValue]] = {
    Algorithm.GRPO: {**_GROUP, **_KL_LOSS},
    Algorithm.DAPO: _DAPO,
    Algorithm.RLOO: _GROUP,
    Algorithm.REINFORCE_PLUS_PLUS: {},
    Algorithm.REINFORCE_PLUS_PLUS_BASELINE: _GROUP,
    Algorithm.REMAX: {},
    Algorithm.OPO: _GROUP,
    Algorithm.GPG: {**_GROUP, "actor_rollout_ref.actor.policy_loss.loss_mode": "gpg"},
}
"""Defaults unless the task overrides them, as in verl's examples."""

PROGRAMS: Mapping[Workload, Program] = {
    Workload.PPO: Program(
        "verl.trainer.main_ppo",
        cpus_per_gpu=3,
        driver_cpus=1,  # its TaskRunner
        model_keys=("actor_rollout_ref.model.path", "critic.model.path"),
        keep_keys=("trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep"),
        settings={"algorithm.adv_estimator": "gae", **_ONE_TRAINER},
        defaults=_BATCHES,
    ),
    Workload.GRPO: Program(
        "verl.trainer.main_ppo",
        cpus_per_gpu=3,
        driver_cpus=1,
        model_keys=("actor_rollout_ref.model.path",),
        keep_keys=("trainer.max_actor_ckpt_to_keep",),
        settings=_ONE_TRAINER,
        defaults=_BATCHES,
    ),
    Workload.SFT: Program(
        "verl.trainer.sft_trainer_ray",
        cpus_per_gpu=10,  # it leaves RayResourcePool its default of max_colocate_count
        driver_cpus=0,
        model_keys=("model.path",),
        keep_keys=("trainer.max_ckpt_to_keep",),
    ),
}


def program_of(spec: TaskSpec) -> Program | None:
    """The program of a task, with the settings of its algorithm; None: a script."""
    program = PROGRAMS.get(spec.workload)
    if program is None or spec.workload is not Workload.GRPO:
        return program
    algorithm = spec.algorithm or Algorithm.GRPO
    estimator = Algorithm.GRPO if algorithm is Algorithm.DAPO else algorithm
    return replace(
        program,
        settings={**program.settings, "algorithm.adv_estimator": estimator.value},
        defaults={**program.defaults, **ALGORITHMS[algorithm]},
    )


def demand_of(spec: TaskSpec) -> Demand:
    program = PROGRAMS.get(spec.workload)
    resources = resources_of(spec)
    if program is None:
        return Demand(1, spec.n_gpus_per_node, spec.cpus, claims_by_group=False, resources=resources)
    cpus_per_gpu = program.cpus_per_gpu if spec.cpus_per_gpu is None else spec.cpus_per_gpu
    cpus_per_node = spec.n_gpus_per_node * cpus_per_gpu
    return Demand(spec.nnodes, spec.n_gpus_per_node, cpus_per_node, program.driver_cpus, resources=resources)


def resources_of(spec: TaskSpec) -> tuple[tuple[str, float], ...]:
    """Custom resources of each of its slots, by Ray's names."""
    of_type = {f"{ACCELERATOR}{spec.accelerator_type}": ANY_OF_TYPE} if spec.accelerator_type else {}
    return tuple(sorted({**spec.resources, **of_type}.items()))
