"""The fields of a task. What fits which workload is judged field by field, so that each problem names its field."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from app.training.model import Algorithm, Priority, Rollout, Workload
from app.training.model.learning_curve import is_lower_better
from app.training.spec.overrides import INTERPOLATION, Overrides, is_allowed
from app.training.spec.texts import (
    ClusterName,
    EnvironmentName,
    Line,
    LogicalPath,
    ModelId,
    ModelPlace,
    OnnxPath,
    Pictures,
    ProgramName,
    ResumePoint,
    Words,
    custom,
    unfit,
)

_VERL_ONLY = frozenset(
    {"algorithm", "reward_model", "rollout", "cpus_per_gpu", "total_epochs", "total_training_steps", "save_freq"}
    | {"test_freq", "overrides", "model_id", "keep_checkpoints", "keep_best", "best_metric"}
)
_SCRIPT_ONLY = frozenset({"program", "args", "cpus"})
_REQUIRED = {
    Workload.PPO: ("train_file", "val_file"),
    Workload.GRPO: ("train_file", "val_file"),
    Workload.SFT: ("train_file",),
    Workload.SCRIPT: ("code_path",),
}
_ANSWERING = (Workload.PPO, Workload.GRPO)
_ONLY_OF = {"rollout": _ANSWERING, "reward_model": _ANSWERING, "algorithm": (Workload.GRPO,)}
_PATHS = ("code_path", "model_path", "reward_model", "train_file", "val_file", "resume_from")


def fields_not_of(workload: Workload) -> frozenset[str]:
    """Fields that only tasks of other workloads have."""
    if workload is Workload.SCRIPT:
        return _VERL_ONLY
    return _SCRIPT_ONLY | {name for name, workloads in _ONLY_OF.items() if workload not in workloads}


def problem_of(workload: Workload, name: str, value: Any, *, is_default: bool, before: Mapping[str, Any]) -> str | None:
    """Why the field does not go with the workload.

    Args:
        before: the fields that stand before it, as far as they are fine.
    """
    if not is_default and name in fields_not_of(workload):
        owners = "" if workload is Workload.SCRIPT else " and ".join(_ONLY_OF.get(name, ()))
        return f"{workload} has none" + (f": it is a field of {owners}" if owners else "")
    if value is None and name in _REQUIRED[workload]:
        return f"{workload} needs it"
    if workload is Workload.SCRIPT:
        return "a script runs on one node" if name == "nnodes" and value != 1 else None
    return _check_verl(workload, name, value, before)


def _check_verl(workload: Workload, name: str, value: Any, before: Mapping[str, Any]) -> str | None:
    if name in _PATHS and value is not None and INTERPOLATION in value:
        return f"{INTERPOLATION} means something else to verl; rename the file"
    if name == "model_path" and "model_id" in before:
        return _check_models(workload, before["model_id"], value)
    if name == "n_gpus_per_node" and value < 1:
        return f"{workload} needs at least one GPU on each node"
    if name == "overrides":
        return _check_overrides(workload, value)
    return _check_steps(name, value, before)


def _check_steps(name: str, value: Any, before: Mapping[str, Any]) -> str | None:
    if name in ("save_freq", "test_freq") and value == 0:
        return "write -1 for never"
    if name == "test_freq" and (value or -1) > 0 and before.get("val_file", "") is None:
        return "there is no val_file to validate with"
    if name == "best_metric" and value is not None and is_lower_better(value) is None:
        return "its name does not tell whether less of it is better, as of a loss, or more, as of a reward"
    return None


def _check_overrides(workload: Workload, overrides: Mapping[str, Any]) -> str | None:
    for key in overrides:
        if not is_allowed(key.lstrip("+"), workload):
            return f"{key}: {workload} has no such setting that a task may change"
    return None


def _check_models(workload: Workload, model_id: str | None, model_path: str | None) -> str | None:
    if model_id is not None and model_path is not None:
        return "give either model_id or model_path"
    if model_id is None and model_path is None:
        return f"{workload} needs a model: give model_id or model_path"
    return None


Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
ResourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"), AfterValidator(custom)]
ResourceAmount = Annotated[float, Field(ge=0.001, le=100_000, allow_inf_nan=False)]
Cpus = Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)]
MAX_WAIT_S = 30 * 86400
MAX_RUN_S = 365 * 86400


class Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, use_attribute_docstrings=True
    )


class ConvertSpec(Frozen):
    """The model that a task leaves is sent to conversion as soon as it has succeeded."""

    model: OnnxPath = "model.onnx"
    """The ONNX file, from the folder of the job."""
    images: Pictures
    """Pictures for the quantization, a zip or a folder: from the folder of the job, or a whole path like
    /private/users/alice/datasets/pictures.zip."""
    name: Line = ""
    """Of the conversion."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Of the conversion, as POST /jobs takes them."""


class TaskSpec(Frozen):
    """A training task. Paths are those of the data homes: /private/common/…, /private/users/alice/…"""

    workload: Annotated[Workload, Field(strict=False)]
    """ppo, grpo and sft run verl; script runs a program of the common code folder."""
    name: Line = ""
    code_path: LogicalPath | None = None
    """A folder under /private/common: for verl its snapshot, else the verl installed on the cluster runs; for script
    the folder of the program."""
    program: ProgramName = "train.py"
    """script: the file in code_path that is run."""
    args: Annotated[Words, Field(max_length=50)] = Field(default_factory=list)
    """script: its arguments."""
    model_id: ModelId | None = None
    """A model of Hugging Face, like Qwen/Qwen2.5-0.5B-Instruct; or give model_path."""
    model_path: LogicalPath | None = None
    """A model under /private/common or in the models/ of your home."""
    train_file: LogicalPath | None = None
    val_file: LogicalPath | None = None
    """sft does without."""
    environment: EnvironmentName | None = None
    """What it runs in: an image or packages, environment variables and secrets, by the name that an administrator gave
    them; without it what the nodes have."""
    cluster: ClusterName | None = None
    """The cluster on which it runs, by its name, or any: the first that has room; without it the default one."""
    nnodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Nodes that are held at once; a script has one."""
    n_gpus_per_node: Annotated[int, Field(ge=0, le=16)] = 0
    accelerator_type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    """Type of the GPUs, as Ray names it, like A100 or H100; without it any."""
    resources: Annotated[dict[ResourceName, ResourceAmount], Field(max_length=8)] = Field(default_factory=dict)
    """Custom resources that each of its nodes must have free beside, as the operator named them: {nvlink: 1}."""
    rollout: Annotated[Rollout, Field(strict=False)] | None = None
    """ppo, grpo: the engine that generates the answers, as verl calls it: vllm (the default), sglang or trtllm."""
    algorithm: Annotated[Algorithm, Field(strict=False)] | None = None
    """grpo: how a group of answers is judged, as verl calls it: grpo (the default), dapo, rloo, reinforce_plus_plus,
    reinforce_plus_plus_baseline, remax, opo or gpg."""
    reward_model: ModelPlace | None = None
    """ppo, grpo: a model that judges each answer, on the same GPUs: one of Hugging Face, or one under /private/common
    or in the models/ of your home; without it verl's rules for the data set, or reward settings in overrides."""
    cpus_per_gpu: Cpus | None = None
    """verl: what it claims with each GPU; by default 3 for ppo and grpo, 10 for sft, as verl has it."""
    cpus: Cpus = 1
    """script: CPUs of the program."""
    total_epochs: Count | None = None
    total_training_steps: Count | None = None
    save_freq: Annotated[int, Field(ge=-1, le=1_000_000_000)] | None = None
    """Steps between checkpoints; -1 for none but the last."""
    test_freq: Annotated[int, Field(ge=-1, le=1_000_000_000)] | None = None
    """Steps between validations; -1 for none."""
    keep_checkpoints: Annotated[int, Field(ge=1, le=1000)] | None = None
    """verl: how many of the last checkpoints are kept; without it all, or with keep_best one."""
    keep_best: Annotated[int, Field(ge=1, le=1000)] | None = None
    """verl: how many of the best checkpoints are kept beside the last, by best_metric; the others are deleted."""
    best_metric: Line | None = None
    """verl: the figure that tells the best checkpoint, like val/loss; without it a validation, the reward or the
    loss. Its name must tell whether less is better or more."""
    resume_from: ResumePoint | None = None
    """The checkpoint of verl that it starts with: a task of yours, by its id, whose last one is taken, or the folder of
    one, like /private/users/alice/jobs/…/checkpoints/global_step_50. A script finds it in MODELMILL_RESUME_FROM."""
    overrides: Overrides = Field(default_factory=dict)
    """verl: further settings by their Hydra keys, like actor_rollout_ref.actor.optim.lr; + before a key adds it. A
    value is a text, a number, true, false, null, or a list or map of these."""
    priority: Annotated[Priority, Field(strict=False)] = Priority.NORMAL
    """high (administrators alone), normal or low: heeded where the queue is ordered by priority or fair shares."""
    preemptible: bool | None = None
    """May it be stopped for a more urgent task, where the installation does that with its priority? It goes on later,
    of verl from its last checkpoint. Without a word: yes for verl's workloads, no for a script."""
    backfill: bool = False
    """While this task waits at the head of the line, later ones may go ahead."""
    max_wait_s: Annotated[int, Field(ge=1, le=MAX_WAIT_S)] | None = None
    """So many seconds its program may wait for its placement group; then it is stopped, and tried again later."""
    max_run_s: Annotated[int, Field(ge=60, le=MAX_RUN_S)] | None = None
    """So many seconds an attempt may run; then it is stopped, and the task has failed. Its checkpoints are kept."""
    max_idle_s: Annotated[int, Field(ge=60, le=MAX_RUN_S)] | None = None
    """So many seconds an attempt may write neither its log nor figures; then it is stopped, and the task has failed."""
    restart_on_infra: Annotated[int, Field(ge=0, le=5)] = 1
    """How often it starts again when its machine, or Ray, was lost."""
    convert: ConvertSpec | None = None

    @field_validator("*", mode="after")
    @classmethod
    def _fits_its_workload(cls, value: Any, info: ValidationInfo) -> Any:
        name, workload = info.field_name, info.data.get("workload")
        if name is None or workload is None:
            return value
        is_default = value == _default_of(cls, name)
        problem = problem_of(workload, name, value, is_default=is_default, before=info.data)
        if problem:
            raise unfit(problem)
        return value


@cache
def _default_of(model: type[BaseModel], name: str) -> Any:
    """Returns the default of a field. All specs share one, since it is only compared: pydantic reads the signature of a
    list's or a map's factory each time, which took longer than judging all fields."""
    return model.model_fields[name].get_default(call_default_factory=True, validated_data={})
