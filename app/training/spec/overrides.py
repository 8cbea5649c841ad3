"""Which of verl's own settings a task may change. Pure.

Not those that the product sets itself, not those that ask for more of the cluster than was reckoned with, and not
those that name files or code: the fields of a spec do that, and they are checked.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator

from app.training.spec.texts import MAX_WORDS_BYTES, pathless, short_enough, unfit, visible

Scalar = bool | int | float | str | None
MAX_OVERRIDES = 100
MAX_TEXT = 1000
INTERPOLATION = "${"
"""With this Hydra begins what it replaces, by environment variables among others."""
OURS: dict[str, str] = {
    "data.train_files": "train_file",
    "data.val_files": "val_file",
    "actor_rollout_ref.model.path": "model_id or model_path",
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
    "hydra": "",
    "ray_kwargs": "",
}
"""What the product sets, and by which field; "" for what no field sets."""
_KEY = re.compile(r"\+{0,2}([A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*)")
_FILES = re.compile(r"(?:^|.*_)(?:path|paths|dir|dirs|file|files|lib|code)")
_DEMANDS = frozenset({"nnodes", "n_gpus_per_node", "enable_resource_pool"})


def check_key(key: str) -> None:
    """Raises PydanticCustomError, whose text names the key."""
    found = _KEY.fullmatch(key) if len(key) <= 200 else None
    if found is None:
        raise unfit(f"{key[:200]!r} is no key of a setting: write it like actor_rollout_ref.rollout.n")
    plain = found[1]
    for ours, field in OURS.items():
        if f"{plain}.".startswith(f"{ours}.") or ours.startswith(f"{plain}."):
            by = f"by {field}" if field else "by Modelmill itself"
            raise unfit(f"{key}: {ours} is set {by}")
    name = plain.rsplit(".", 1)[-1]
    if name in _DEMANDS:
        raise unfit(f"{key}: what a task takes of the cluster is said by nnodes and n_gpus_per_node")
    if name == "trust_remote_code" or _FILES.fullmatch(name):
        raise unfit(f"{key}: files and code are named by the fields of the task, which are checked")


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise unfit(f"it is longer than {MAX_TEXT} characters")
        if INTERPOLATION in value:
            raise unfit(f"{INTERPOLATION} is not taken")
        return pathless(visible(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise unfit("it must be a finite number")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise unfit("it must be a text, a number, true, false or null")


def _overrides(values: dict[str, Scalar]) -> dict[str, Scalar]:
    if len(values) > MAX_OVERRIDES:
        raise unfit(f"there are more than {MAX_OVERRIDES}")
    for key in values:
        check_key(key)
    if not short_enough(f"{key}={value}" for key, value in values.items()):
        raise unfit(f"they are longer than {MAX_WORDS_BYTES // 1024} KiB together")
    return values


_Value = Annotated[Scalar, PlainValidator(_scalar, json_schema_input_type=Scalar)]
Overrides = Annotated[dict[str, _Value], AfterValidator(_overrides)]
