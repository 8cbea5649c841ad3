"""Which fields go with which workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.training.model import Workload
from app.training.spec.overrides import INTERPOLATION
from app.training.spec.verl_keys import is_allowed

_VERL_ONLY = frozenset(
    {"rollout", "cpus_per_gpu", "total_epochs", "total_training_steps", "save_freq", "test_freq"}
    | {"overrides", "model_id"}
)
_SCRIPT_ONLY = frozenset({"program", "args", "cpus"})
_REQUIRED = {
    Workload.PPO: ("train_file", "val_file"),
    Workload.GRPO: ("train_file", "val_file"),
    Workload.SFT: ("train_file",),
    Workload.SCRIPT: ("code_path",),
}
_PATHS = ("code_path", "model_path", "train_file", "val_file")


def problem_of(workload: Workload, name: str, value: Any, *, is_default: bool, before: Mapping[str, Any]) -> str | None:
    """Why the field does not go with the workload. before: the fields that stand before it, as far as they are fine."""
    if not is_default and name in (_VERL_ONLY if workload is Workload.SCRIPT else _SCRIPT_ONLY):
        return f"{workload} has none"
    if value is None and name in _REQUIRED[workload]:
        return f"{workload} needs it"
    if workload is Workload.SCRIPT:
        return "a script runs on one node" if name == "nnodes" and value != 1 else None
    return _problem_with_verl(workload, name, value, before)


def _problem_with_verl(workload: Workload, name: str, value: Any, before: Mapping[str, Any]) -> str | None:
    if name in _PATHS and value is not None and INTERPOLATION in value:
        return f"{INTERPOLATION} means something else to verl; rename the file"
    if name == "model_path" and "model_id" in before:
        return _problem_with_models(workload, before["model_id"], value)
    if name == "n_gpus_per_node" and value < 1:
        return f"{workload} needs at least one GPU on each node"
    if name == "rollout" and value is not None and workload is Workload.SFT:
        return f"{workload} has none: it generates no answers"
    if name == "overrides":
        return _problem_with_overrides(workload, value)
    return _problem_with_steps(name, value, before)


def _problem_with_steps(name: str, value: Any, before: Mapping[str, Any]) -> str | None:
    if name in ("save_freq", "test_freq") and value == 0:
        return "write -1 for never"
    if name == "test_freq" and (value or -1) > 0 and before.get("val_file", "") is None:
        return "there is no val_file to validate with"
    return None


def _problem_with_overrides(workload: Workload, overrides: Mapping[str, Any]) -> str | None:
    for key in overrides:
        if not is_allowed(key.lstrip("+"), workload):
            return f"{key}: {workload} has no such setting that a task may change"
    return None


def _problem_with_models(workload: Workload, model_id: str | None, model_path: str | None) -> str | None:
    if model_id is not None and model_path is not None:
        return "give either model_id or model_path"
    if model_id is None and model_path is None:
        return f"{workload} needs a model: give model_id or model_path"
    return None
