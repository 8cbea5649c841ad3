"""A submission to Ray: one command line for its shell, the resources of its driver, and its environment.

No user text becomes shell or Hydra code: each word is quoted for both. Paths are those of the cluster's nodes. Nothing
of a user is added to PYTHONPATH: a program finds its code because it is started from there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from app.homes.errors import make_refusal
from app.homes.model import COMMON, JOBS, home_of
from app.training.gateway import Submission
from app.training.model import Demand, Rollout, Workload
from app.training.model.learning_curve import METRICS_FILE
from app.training.spec import TaskSpec
from app.training.spec.environments import EnvironmentSpec, require_quotable
from app.training.spec.overrides import INTERPOLATION
from app.training.workloads.programs import Program, demand_of, program_of

_PLAIN_PATH = re.compile(r"[\w/][\w.-]*(?:/[\w.-]+)+", re.ASCII)
"""Contains a slash, so it is neither a number nor null nor a list, and needs no quotes."""
_PLAIN_WORD = re.compile(r"(?!(?:null|true|false|inf|nan)$)[a-z_][\w-]*", re.ASCII | re.IGNORECASE)


def argument(key: str, value: JsonValue) -> str:
    return f"{key}={write_value(value)}"


def write_value(value: JsonValue) -> str:
    """Writes a value as Hydra reads it.

    Raises:
        ValueError: It is a text that Hydra would replace even within quotes; specs refuse it.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{write_value(below)}" for name, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_value, value)) + "]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    if INTERPOLATION in value:
        raise ValueError(f"Hydra would replace {INTERPOLATION}")
    is_plain = _PLAIN_PATH.fullmatch(value) or _PLAIN_WORD.fullmatch(value)
    return value if is_plain else _quote(value)


def _quote(text: str) -> str:
    """Only a backslash before a quote, including the last one, has a meaning for Hydra."""
    return '"' + re.sub(r'(\\*)"', r'\1\1\\"', re.sub(r"(\\+)$", r"\1\1", text)) + '"'


NO_ENVIRONMENT, USUAL_PYTHON = EnvironmentSpec(), "python3"
CHECKPOINTS = "checkpoints"
PLACEMENT, PLACEMENT_FOLDER = "modelmill_placement", "placement"
"""A module of ours, and its folder among the common code, where the scheduler puts it."""
METRICS = "MODELMILL_METRICS_FILE"
TENSORBOARD, MLFLOW = "tensorboard", "mlflow"


class ClusterOptions(Protocol):
    """homes_root: the path on the cluster's nodes. worker_resource: the resource that only training nodes have.
    trackers: verl's loggers in addition to those of the task's page."""

    @property
    def homes_root(self) -> str: ...
    @property
    def worker_resource(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def trackers(self) -> Sequence[str]: ...
    @property
    def mlflow_uri(self) -> str: ...


@dataclass(frozen=True)
class _Paths:
    """The paths of the program. The folders exist before it starts."""

    logical: str
    """The root of paths in tasks."""
    real: str
    """The same on the nodes of the cluster."""
    job: str
    """The folder of the attempt."""
    task: str
    """The folder that all attempts share."""

    def real_of(self, field: str, path: str) -> str:
        """Translates a path of a task.

        Raises:
            PathRefused: It leads elsewhere.
        """
        if not path.startswith(f"{self.logical}/"):
            raise make_refusal(field, f"it must lie under {self.logical}/")
        return self.real + path.removeprefix(self.logical)


def submission_of(
    spec: TaskSpec,
    *,
    submission_id: str,
    task_id: str,
    user: str,
    options: ClusterOptions,
    logical_root: str,
    resume_path: str | None = None,
    environment: EnvironmentSpec = NO_ENVIRONMENT,
    secrets: Mapping[str, str] | None = None,
) -> Submission:
    """Creates the submission of a spec. The paths are not checked here: app.training.service.submission checks them.

    Args:
        logical_root: The root of paths in tasks.
        resume_path: The checkpoint that verl starts with, as a path in tasks; None: the task's own last one.
        environment: What it runs in.
        secrets: Of the environment, by variable.

    Raises:
        BadSpec: Ray cannot pass a variable to the image of its environment.
    """
    root = options.homes_root.rstrip("/")
    jobs = f"{root}/{home_of(user)}/{JOBS}"
    paths = _Paths(logical_root.rstrip("/"), root, f"{jobs}/{submission_id}", f"{jobs}/{task_id}")
    program = program_of(spec)
    if program is None:
        folder, words = _build_script(spec, paths)
    else:
        of_task = _build_settings(spec, program, paths, task_id, resume_path)
        loggers = ",".join(["console", "file", *options.trackers])
        folder, words = _build_verl(spec, program, paths, of_task)
        words.append(f"trainer.logger=[{loggers}]")
    demand = demand_of(spec)
    # Ray puts the interpreter of packages or an image first on the path
    python = USUAL_PYTHON if environment.pip or environment.image else options.python
    env = environment.env | _build_env(spec, paths, task_id, resume_path) | _tracker_environment(spec, paths, options)
    env |= _build_placement(demand, paths)
    if environment.image:
        require_quotable({**env, **(secrets or {})})
    return Submission(
        submission_id=submission_id,
        # exec: the program itself gets the signals and returns the exit code, without a shell around it
        entrypoint=f"cd {shlex.quote(folder)} && exec {shlex.join([python, *words])}",
        env=env,
        secrets=secrets or {},
        cpus=0 if demand.claims_by_group else demand.cpus,
        gpus=0 if demand.claims_by_group else demand.gpus,
        resources={options.worker_resource: 1, **({} if demand.claims_by_group else dict(demand.resources))},
        metadata={"task_id": task_id, "user": user, "workload": spec.workload.value},
        pip=tuple(environment.pip),
        image=environment.image or "",
    )


def _build_script(spec: TaskSpec, paths: _Paths) -> tuple[str, list[str]]:
    """Runs in the folder of its job, so that its output is kept."""
    program = paths.real_of("code_path", f"{(spec.code_path or '').rstrip('/')}/{spec.program}")
    return paths.job, [program, *spec.args]


def _build_verl(
    spec: TaskSpec, program: Program, paths: _Paths, of_task: Mapping[str, JsonValue]
) -> tuple[str, list[str]]:
    """Runs in the folder of its code, from which Python and Ray's workers then import."""
    folder = paths.real_of("code_path", spec.code_path) if spec.code_path else paths.job
    settings = {**program.defaults, **_build_rollout_defaults(spec), **spec.overrides, **program.settings, **of_task}
    arguments = [argument(key, value) for key, value in settings.items()]
    return folder, ["-m", program.module, *arguments]


def _build_reward_model(spec: TaskSpec, paths: _Paths, engine: str | None) -> dict[str, JsonValue]:
    """It takes turns with the actor on the task's GPUs."""
    place = spec.reward_model
    if place is None:
        return {}
    return {
        "reward.reward_model.enable": True,
        "reward.reward_model.model_path": paths.real_of("reward_model", place) if place.startswith("/") else place,
        "reward.reward_model.rollout.name": engine,
    }


def _build_rollout_defaults(spec: TaskSpec) -> dict[str, JsonValue]:
    """verl's own default is an engine over two GPUs, which does not work for an odd number of GPUs."""
    if spec.workload is Workload.SFT or spec.n_gpus_per_node % 2 == 0:
        return {}
    parts = ["actor_rollout_ref", *(["reward.reward_model"] if spec.reward_model else [])]
    return {f"{part}.rollout.tensor_model_parallel_size": 1 for part in parts}


def _build_settings(
    spec: TaskSpec, program: Program, paths: _Paths, task_id: str, resume_path: str | None
) -> dict[str, JsonValue]:
    model = paths.real_of("model_path", spec.model_path) if spec.model_path else spec.model_id
    generates = spec.workload is not Workload.SFT
    engine = (spec.rollout or Rollout.VLLM).value if generates else None
    settings: dict[str, JsonValue] = {
        "data.train_files": spec.train_file and paths.real_of("train_file", spec.train_file),
        "data.val_files": spec.val_file and paths.real_of("val_file", spec.val_file),
        **dict.fromkeys(program.model_keys, model),
        "actor_rollout_ref.rollout.name": engine,
        **_build_reward_model(spec, paths, engine),
        "trainer.nnodes": spec.nnodes,
        "trainer.n_gpus_per_node": spec.n_gpus_per_node,
        "trainer.total_epochs": spec.total_epochs,
        "trainer.total_training_steps": spec.total_training_steps,
        "trainer.save_freq": spec.save_freq,
        "trainer.test_freq": spec.test_freq,
        # verl deletes all but the last; if the best stay, too, the scheduler does
        **dict.fromkeys(program.keep_keys, None if spec.keep_best else spec.keep_checkpoints),
        "trainer.resume_mode": resume_path and "resume_path",
        "trainer.resume_from_path": resume_path and paths.real_of("resume_from", resume_path),
        "trainer.default_local_dir": f"{paths.task}/{CHECKPOINTS}",
        "trainer.project_name": "modelmill",
        "trainer.experiment_name": task_id,
        "hydra.run.dir": f"{paths.job}/hydra",
    }
    return {key: value for key, value in settings.items() if value is not None}


def _tracker_environment(spec: TaskSpec, paths: _Paths, options: ClusterOptions) -> dict[str, str]:
    """Where trackers write, for verl and for scripts that have one. Attempts of verl continue one curve; those of a
    program share no folder."""
    place = paths.job if spec.workload is Workload.SCRIPT else paths.task
    folder = {"TENSORBOARD_DIR": f"{place}/{TENSORBOARD}"} if TENSORBOARD in options.trackers else {}
    server = {"MLFLOW_TRACKING_URI": options.mlflow_uri} if MLFLOW in options.trackers and options.mlflow_uri else {}
    return folder | server


def _build_placement(demand: Demand, paths: _Paths) -> dict[str, str]:
    """By what verl's placement groups ask for the custom resources of their slots: see ops/samples/placement."""
    if not demand.resources or not demand.claims_by_group:
        return {}
    return {
        "VERL_USE_EXTERNAL_MODULES": PLACEMENT,
        "MODELMILL_SLOT_RESOURCES": json.dumps(dict(demand.resources)),
        "PYTHONPATH": f"{paths.real}/{COMMON}/code/{PLACEMENT_FOLDER}:${{PYTHONPATH}}",  # the nodes' own after it
    }


def _build_env(spec: TaskSpec, paths: _Paths, task_id: str, resume_path: str | None) -> dict[str, str]:
    env = {
        "PYTHONUNBUFFERED": "1",
        "MODELMILL_JOB_FOLDER": paths.job,
        "MODELMILL_TASK_ID": task_id,
        METRICS: f"{paths.job}/{METRICS_FILE}",
        "HF_HOME": f"{paths.real}/{COMMON}/hf",
    }
    if spec.workload is not Workload.SCRIPT:
        # without the first, Hydra hides where a program failed; the second is where verl's logger `file` writes
        return {**env, "HYDRA_FULL_ERROR": "1", "VERL_FILE_LOGGER_PATH": env[METRICS]}
    for field in ("train_file", "val_file", "model_path"):
        path = getattr(spec, field)
        if path is not None:
            env[f"MODELMILL_{field.upper()}"] = paths.real_of(field, path)
    if resume_path is not None:
        env["MODELMILL_RESUME_FROM"] = paths.real_of("resume_from", resume_path)
    return env
