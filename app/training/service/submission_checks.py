"""What a new task may demand: its priority, its paths and the resources of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.homes.path_rules import PathRules
from app.training.errors import BadSpec
from app.training.model import Demand, Node, Priority, Workload
from app.training.model.capacity import ACCELERATOR
from app.training.spec import TaskSpec
from app.training.spec.document import bad


def check_priority(priority: Priority, *, is_admin: bool) -> None:
    """Refuses a priority that is for administrators; otherwise everybody's task would be urgent.

    Raises:
        BadSpec: It is high, and the user is no administrator.
    """
    if priority is Priority.HIGH and not is_admin:
        problem = "only administrators may ask for it"
        raise BadSpec(
            f"priority: {problem}",
            hint="Send it as normal, and ask an administrator to raise it.",
            detail={"problems": [{"at": "priority", "problem": problem}]},
        )


def check_paths(rules: PathRules, user: str, spec: TaskSpec) -> None:
    """Checks that the user may use the paths of a spec.

    Raises:
        PathRefused: One may not be used; the error names the field of the first one.
    """
    for name in ("code_path", "model_path", "train_file", "val_file"):
        path = getattr(spec, name)
        if path is not None:
            rules.check(user, name, path)
    if spec.reward_model is not None and spec.reward_model.startswith("/"):
        rules.check(user, "reward_model", spec.reward_model)
    if spec.code_path is not None:
        folder = spec.code_path.removesuffix("/")
        if spec.workload is Workload.SCRIPT:
            rules.check(user, "program", f"{folder}/{spec.program}")
        else:
            rules.check(user, "code_path", f"{folder}/verl")
    if spec.convert is not None and spec.convert.images.startswith("/"):
        rules.check(user, "convert.images", spec.convert.images)


def check_resources(demand: Demand, nodes: Sequence[Node], awaited: Collection[str]) -> None:
    """Refuse a demand for custom resources that no node has, or can give at once.

    Args:
        nodes: Of the cluster as it was last seen; none: nothing is known, and nothing refused.
        awaited: Names of resources of nodes that may join.

    Raises:
        BadSpec: It names the field.
    """
    training = [node for node in nodes if node.may_train]
    for name, amount in demand.resources:
        most = max((node.resources.get(name, 0) for node in training), default=amount)
        if name in awaited or most >= amount:
            continue
        at, word = ("accelerator_type", name.removeprefix(ACCELERATOR)) if ACCELERATOR in name else ("resources", name)
        if at == "accelerator_type":
            problem = _no_node(f"GPUs of type {word}", {kind for node in training for kind in node.accelerators})
        elif most:
            problem = f"no node of the cluster has more than {most:g} {word}"
        else:
            problem = _no_node(word, _custom(training))
        raise bad([{"at": at, "problem": problem}])


def _no_node(what: str, known: Collection[str]) -> str:
    there_are = f"; there are {', '.join(sorted(known))}" if known else ""
    return f"no node of the cluster has {what}{there_are}"


def _custom(nodes: Sequence[Node]) -> set[str]:
    return {name for node in nodes for name in node.resources if not name.startswith(ACCELERATOR)}
