"""The document of an environment: what an administrator lets tasks run in, and within which limits.

Secrets stand in it by name alone. Their values lie in files of the operator's, which are read when an attempt starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from app.kit.access import AccessRule, BadAccess, read_allowed
from app.kit.text.json_values import JsonObject
from app.training.errors import BadSpec
from app.training.model import Priority
from app.training.model.clusters import ANY
from app.training.spec.document import Problem, bad, read_document
from app.training.spec.fields import MAX_RUN_S, Frozen, TaskSpec
from app.training.spec.texts import ClusterName, EnvironmentName, Line, unfit, visible

OURS = ("MODELMILL_", "RAY_")
"""What begins so is set by the product, or by Ray."""


def _check_name(name: str) -> str:
    if name.startswith(OURS):
        raise unfit(f"names that begin with {' or '.join(OURS)} are taken")
    return name


def _check_users(names: list[str]) -> list[str]:
    try:
        return list(read_allowed(names).names or ())
    except BadAccess as error:
        raise unfit(f"{error.message} {error.hint}") from None


VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"), AfterValidator(_check_name)]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Text = Annotated[str, StringConstraints(max_length=4000), AfterValidator(visible)]
Requirement = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(visible)]


class EnvironmentSpec(Frozen):
    """What tasks run in that name it. Everything may be left out."""

    description: Line = ""
    image: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,299}$")] | None = None
    """Container image of the program and Ray's workers; the nodes need podman. With it no pip."""
    pip: Annotated[list[Requirement], Field(max_length=100)] = Field(default_factory=list)
    """Packages as pip takes them, or paths of wheels on the nodes: Ray installs them there over what the nodes have."""
    env: Annotated[dict[VariableName, Text], Field(max_length=100)] = Field(default_factory=dict)
    """Environment variables."""
    secrets: Annotated[dict[VariableName, SecretName], Field(max_length=50)] = Field(default_factory=dict)
    """Environment variables whose values are secrets, each by the name of its file in MODELMILL_TRAINING_SECRETS."""
    allowed: Annotated[list[str], Field(max_length=200), AfterValidator(_check_users)] | None = None
    """Users, and groups as @group, who may use it; without it everybody, an empty list: administrators alone."""
    clusters: Annotated[list[ClusterName], Field(min_length=1, max_length=20)] | None = None
    """Names of the clusters that have it; without it all."""
    priority: Annotated[Priority, Field(strict=False)] | None = None
    """Of its tasks that say none; those that say one may say this or a lower one."""
    max_gpus_per_task: Annotated[int, Field(ge=0, le=1024)] | None = None
    max_gpus: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """How many GPUs its running tasks hold together; others wait, and let those of other environments go ahead."""
    max_run_s: Annotated[int, Field(ge=60, le=MAX_RUN_S)] | None = None
    """So many seconds its attempts may run; a task may say less."""

    @model_validator(mode="after")
    def _is_consistent(self) -> EnvironmentSpec:
        if self.image and self.pip:
            raise unfit("Ray takes either an image or packages")
        if self.image:
            require_quotable(self.env)
        if both := sorted(set(self.env) & set(self.secrets)):
            raise unfit(f"{both[0]} is among env and secrets")
        return self

    @property
    def access(self) -> AccessRule:
        return read_allowed(self.allowed)


def require_quotable(variables: Mapping[str, str]) -> None:
    """Ray puts the variables of a container into a shell's line between quotation marks, as they are: a value that has
    such a mark would end there, and the node would run the rest.

    Args:
        variables: Of a task or environment with an image.

    Raises:
        BadSpec: It names the variable, and not its value.
    """
    for name, value in variables.items():
        if "'" in value:
            problem = f"Ray cannot pass {name} to an image: its value contains a quotation mark (')"
            raise bad([{"at": "environment", "problem": problem}])


def read_environment(body: bytes) -> tuple[EnvironmentSpec, str]:
    """The document, YAML or JSON, and its text.

    Raises:
        TooLarge, UnreadableSpec, BadSpec: It is not a valid environment.
    """
    return read_document(EnvironmentSpec, body)


_NAME = TypeAdapter(EnvironmentName)


def check_name(name: str) -> None:
    """Refuses a name that tasks could not use.

    Raises:
        BadSpec: It is such a name.
    """
    try:
        _NAME.validate_python(name)
    except ValidationError:
        problem = "it has up to 64 small letters, digits, ., _ and -, and begins with a letter or digit"
        raise bad([{"at": "name", "problem": problem}]) from None


def unknown(name: str, known: Collection[str]) -> BadSpec:
    """That a task names an environment that its user does not have; whether others have it is not said."""
    problem = f"there is no environment {name} for you"
    return bad([{"at": "environment", "problem": f"{problem}; there are {', '.join(known)}" if known else problem}])


def choose_cluster(name: str | None, clusters: Sequence[str], having: Collection[str] | None = None) -> str:
    """The cluster on which a task may start, as its record names it: "" is the default one.

    Args:
        name: As the task names it; None: it names none.
        clusters: The installation's, the default one first.
        having: Those that have the environment of the task; None: all.

    Raises:
        BadSpec: There is no such cluster, or it does not have the environment.
    """
    usable = [each for each in clusters if having is None or each in having]
    if name is None:
        name = clusters[0] if clusters[0] in usable else ANY
    if name == ANY and usable:
        return ANY if len(usable) > 1 else _as_noted(usable[0], clusters)
    if name not in usable:
        problem = f"there is no cluster {name}" if name not in (ANY, *clusters) else "it does not have this environment"
        raise bad([{"at": "cluster", "problem": f"{problem}; there are {', '.join(usable)}" if usable else problem}])
    return _as_noted(name, clusters)


def _as_noted(name: str, clusters: Sequence[str]) -> str:
    return "" if name == clusters[0] else name


def within(spec: TaskSpec, environment: EnvironmentSpec) -> JsonObject:
    """What an environment makes of a task's priority and limit of time, as fields of the task.

    Raises:
        BadSpec: The task asks for more than the environment gives.
    """
    gpus = spec.nnodes * spec.n_gpus_per_node
    problems: list[Problem] = []
    limits = [limit for limit in (environment.max_gpus_per_task, environment.max_gpus) if limit is not None]
    if limits and gpus > min(limits):
        problem = f"these are {gpus} GPUs, and this environment gives a task {min(limits)}"
        problems.append({"at": "n_gpus_per_node", "problem": problem})
    run_s = environment.max_run_s
    if run_s is not None and spec.max_run_s is not None and spec.max_run_s > run_s:
        problems.append({"at": "max_run_s", "problem": f"this environment gives a task {run_s} seconds"})
    says_priority = "priority" in spec.model_fields_set
    if environment.priority is not None and says_priority and spec.priority.rank < environment.priority.rank:
        problems.append({"at": "priority", "problem": f"in this environment it is {environment.priority} at most"})
    if problems:
        raise bad(problems)
    priority = spec.priority if says_priority or environment.priority is None else environment.priority
    return {"priority": priority, "max_run_s": spec.max_run_s or run_s}
