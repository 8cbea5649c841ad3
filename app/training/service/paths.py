"""Are the paths of a spec those that its user may name? Asked when a task is submitted, and again when it starts."""

from __future__ import annotations

from app.homes.path_rules import PathRules
from app.training.model import Workload
from app.training.spec import TaskSpec

_VERL = "verl"


def check_paths(rules: PathRules, user: str, spec: TaskSpec) -> None:
    """Raises PathRefused, which names the field; of several the first one."""
    for field in ("code_path", "model_path", "train_file", "val_file"):
        path = getattr(spec, field)
        if path is not None:
            rules.check(user, field, path)
    if spec.code_path is not None:
        folder = spec.code_path.removesuffix("/")
        if spec.workload is Workload.SCRIPT:
            rules.check(user, "program", f"{folder}/{spec.program}")
        else:
            rules.check(user, "code_path", f"{folder}/{_VERL}")
    if spec.convert is not None and spec.convert.images.startswith("/"):
        rules.check(user, "convert.images", spec.convert.images)
