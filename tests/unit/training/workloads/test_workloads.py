"""What a spec takes of the cluster, and the one command line that Ray gives to a shell for it."""

from __future__ import annotations

import importlib
import logging
import shlex
from itertools import pairwise
from typing import Any

import pytest

from app.homes.errors import PathRefused
from app.training.errors import BadSpec
from app.training.gateway import Submission
from app.training.gateway.ray_translation import to_arguments
from app.training.model import Algorithm, Demand, Rollout, Workload
from app.training.service import TrainingOptions
from app.training.spec import TaskSpec
from app.training.spec.environments import EnvironmentSpec
from app.training.spec.overrides import OURS
from app.training.workloads import demand_of, submission_of
from app.training.workloads.programs import ALGORITHMS, PROGRAMS
from app.training.workloads.submissions import argument, write_value
from tests.harness.training.hydra import parsed
from tests.harness.training.texts import NASTY

ROOT = "/mnt/gpfs/homes"
JOB = f"{ROOT}/users/alice/jobs/t--a01"
TASK = f"{ROOT}/users/alice/jobs/mvp2-alice-ppo-1"
VERL = [Workload.PPO, Workload.GRPO, Workload.SFT]


def verl(workload: Workload = Workload.PPO, **fields: Any) -> TaskSpec:
    given: dict[str, Any] = {
        "model_id": "Qwen/Qwen2.5-0.5B",
        "train_file": "/private/common/d.parquet",
        "val_file": "/private/common/v.parquet",
        "n_gpus_per_node": 8,
        "code_path": "/private/common/code/verl",
    }
    return TaskSpec(workload=workload, **{**given, **fields})


def script(**fields: Any) -> TaskSpec:
    return TaskSpec(workload=Workload.SCRIPT, **{"code_path": "/private/common/code/digits", **fields})


def submission(spec: TaskSpec, *, homes_root: str = ROOT, logical_root: str = "/private", **more: Any) -> Submission:
    return submission_of(
        spec,
        submission_id="t--a01",
        task_id="mvp2-alice-ppo-1",
        user="alice",
        logical_root=logical_root,
        options=TrainingOptions(
            is_on=True, homes_root=homes_root, worker_resource="trains", python="/opt/my py/python"
        ),
        **more,
    )


def words(spec: TaskSpec, **more: Any) -> list[str]:
    """Of the command line, without the way to the folder."""
    typed = shlex.split(submission(spec, **more).entrypoint)
    assert (typed[0], typed[2:4]) == ("cd", ["&&", "exec"])
    return typed[4:]


def settings_of(spec: TaskSpec, **more: Any) -> dict[str, Any]:
    """What Hydra makes of the arguments."""
    told = words(spec, **more)[3:]
    parsed_words = [parsed(word) for word in told]
    assert len(dict(parsed_words)) == len(parsed_words)
    return dict(parsed_words)


# --- demands ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "demand"),
    [
        (verl(nnodes=2), Demand(2, 8, 24, driver_cpus=1)),
        (verl(Workload.GRPO, n_gpus_per_node=1, cpus_per_gpu=1.5), Demand(1, 1, 1.5, driver_cpus=1)),
        (verl(Workload.SFT, n_gpus_per_node=2), Demand(1, 2, 20, driver_cpus=0)),
        (script(), Demand(1, 0, 1, claims_by_group=False)),
        (script(cpus=2, n_gpus_per_node=1), Demand(1, 1, 2, claims_by_group=False)),
    ],
)
def test_a_task_takes_what_its_program_will_claim(spec: TaskSpec, demand: Demand) -> None:
    assert demand_of(spec) == demand


def test_ray_gives_a_script_what_it_takes_and_lets_verl_claim_it() -> None:
    submitted = submission(script(cpus=2, n_gpus_per_node=1))
    assert (submitted.cpus, submitted.gpus, submitted.resources) == (2, 1, {"trains": 1})
    submitted = submission(verl(nnodes=2))
    assert (submitted.cpus, submitted.gpus, submitted.resources) == (0, 0, {"trains": 1})


# --- command lines ----------------------------------------------------------------------------------
def test_ppo_is_told_everything_by_verls_own_names() -> None:
    spec = verl(
        total_epochs=3, total_training_steps=70, save_freq=-1, test_freq=5, nnodes=2, overrides={"algorithm.lam": 1e-6}
    )
    assert submission(spec).entrypoint == (
        "cd /mnt/gpfs/homes/common/code/verl && exec '/opt/my py/python' -m verl.trainer.main_ppo "
        "actor_rollout_ref.actor.use_dynamic_bsz=true algorithm.lam=1e-06 "
        "algorithm.adv_estimator=gae ++trainer.use_v1=false "
        f"data.train_files={ROOT}/common/d.parquet data.val_files={ROOT}/common/v.parquet "
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B critic.model.path=Qwen/Qwen2.5-0.5B "
        "actor_rollout_ref.rollout.name=vllm trainer.nnodes=2 "
        "trainer.n_gpus_per_node=8 trainer.total_epochs=3 trainer.total_training_steps=70 "
        f"trainer.save_freq=-1 trainer.test_freq=5 trainer.default_local_dir={TASK}/checkpoints "
        "trainer.project_name=modelmill trainer.experiment_name=mvp2-alice-ppo-1 "
        f"hydra.run.dir={JOB}/hydra 'trainer.logger=[console,file]'"
    )


def test_grpo_has_no_critic_and_samples_a_group_unless_told_otherwise() -> None:
    overrides = settings_of(verl(Workload.GRPO))
    assert overrides["algorithm.adv_estimator"] == "grpo"
    assert "critic.model.path" not in overrides
    assert overrides["actor_rollout_ref.rollout.n"] == 5
    overrides = settings_of(verl(Workload.GRPO, overrides={"actor_rollout_ref.rollout.n": 16}))
    assert overrides["actor_rollout_ref.rollout.n"] == 16


def test_sft_runs_the_trainer_for_ray_and_leaves_out_what_is_not_said() -> None:
    spec = verl(Workload.SFT, val_file=None, model_id=None, model_path="/private/users/alice/models/m")
    assert words(spec)[1:3] == ["-m", "verl.trainer.sft_trainer_ray"]
    assert set(settings_of(spec)) == {
        "data.train_files",
        "model.path",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.default_local_dir",
        "trainer.project_name",
        "trainer.experiment_name",
        "hydra.run.dir",
        "trainer.logger",
    }
    assert settings_of(spec)["model.path"] == f"{ROOT}/users/alice/models/m"


@pytest.mark.parametrize("workload", VERL)
def test_what_the_product_sets_no_task_may_set(workload: Workload) -> None:
    told = set(settings_of(verl(workload, total_epochs=1, total_training_steps=1, save_freq=1, test_freq=1)))
    ours = {
        key for key in (name.lstrip("+") for name in told) if any(f"{key}.".startswith(f"{name}.") for name in OURS)
    }
    grouped = ALGORITHMS[Algorithm.GRPO] if workload is Workload.GRPO else {}
    assert {key.lstrip("+") for key in told} - ours == {*PROGRAMS[workload].defaults, *grouped}


def test_without_a_snapshot_the_installed_verl_runs_in_the_folder_of_the_job() -> None:
    assert submission(verl(code_path=None)).entrypoint.startswith(f"cd {JOB} && exec ")


def test_a_script_runs_in_the_folder_of_its_job_with_its_arguments() -> None:
    submitted = submission(script(program="go.py", args=["--epochs", "3", "a b"]))
    assert submitted.entrypoint == (
        f"cd {JOB} && exec '/opt/my py/python' {ROOT}/common/code/digits/go.py --epochs 3 'a b'"
    )


# --- environment ------------------------------------------------------------------------------------
def test_the_environment_says_where_the_job_is_and_puts_nothing_on_the_python_path() -> None:
    common = {
        "PYTHONUNBUFFERED": "1",
        "MODELMILL_JOB_FOLDER": JOB,
        "MODELMILL_TASK_ID": "mvp2-alice-ppo-1",
        "MODELMILL_METRICS_FILE": f"{JOB}/metrics.jsonl",
        "HF_HOME": f"{ROOT}/common/hf",
    }
    assert submission(script()).env == common
    assert submission(verl()).env == {
        **common,
        "HYDRA_FULL_ERROR": "1",
        "VERL_FILE_LOGGER_PATH": f"{JOB}/metrics.jsonl",
    }
    assert submission(verl()).metadata == {"task_id": "mvp2-alice-ppo-1", "user": "alice", "workload": "ppo"}


def test_a_script_finds_its_files_by_the_environment() -> None:
    spec = script(
        train_file="/private/users/alice/datasets/d", val_file="/private/common/v", model_path="/private/common/m"
    )
    env = submission(spec).env
    assert env["MODELMILL_TRAIN_FILE"] == f"{ROOT}/users/alice/datasets/d"
    assert env["MODELMILL_VAL_FILE"] == f"{ROOT}/common/v"
    assert env["MODELMILL_MODEL_PATH"] == f"{ROOT}/common/m"


# --- paths ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("logical_root", "homes_root", "path"),
    [("/private", "/srv/homes/", "/srv/homes"), ("/private/", "/private", "/private"), ("/private", "/", "")],
)
def test_a_path_is_that_of_the_clusters_nodes(logical_root: str, homes_root: str, path: str) -> None:
    overrides = settings_of(verl(), logical_root=logical_root, homes_root=homes_root)
    assert overrides["data.train_files"] == f"{path}/common/d.parquet"
    assert overrides["trainer.default_local_dir"] == f"{path}/users/alice/jobs/mvp2-alice-ppo-1/checkpoints"


def test_the_storage_may_be_the_root_of_the_logical_paths() -> None:
    spec = verl(train_file="/common/d", val_file="/common/v", code_path="/common/verl")
    assert settings_of(spec, logical_root="/")["data.train_files"] == f"{ROOT}/common/d"


QUOTED = "/private/users/alice/datasets/x'; touch escaped; '.parquet"


def test_a_quotation_mark_in_a_variable_reaches_no_image() -> None:
    """Ray's own line for the container ends there: what follows would run on the node."""
    image = EnvironmentSpec(image="registry/trainer:1")
    with pytest.raises(BadSpec, match="Ray cannot pass MODELMILL_TRAIN_FILE to an image"):
        submission(script(train_file=QUOTED), environment=image)
    with pytest.raises(BadSpec, match="Ray cannot pass HF_TOKEN to an image"):
        submission(script(), environment=image, secrets={"HF_TOKEN": "it's"})
    assert submission(script(train_file=QUOTED)).env["MODELMILL_TRAIN_FILE"].endswith("'.parquet")


@pytest.mark.slow
def test_ray_takes_the_environment_of_an_image_and_its_container_gets_each_variable_as_it_is() -> None:
    """Ray's own check of a runtime environment, and its own command line for podman, which nobody runs here."""
    plugin = pytest.importorskip("ray._private.runtime_env.image_uri", reason="needs the extra train")
    context = importlib.import_module("ray._private.runtime_env.context")
    runtime_env = importlib.import_module("ray.runtime_env").RuntimeEnv
    environment = EnvironmentSpec(image="registry/trainer:1", env={"GREETING": '"$HOME" `id` \\ # 两'})
    composed = submission(script(train_file="/private/common/a b;c.parquet"), environment=environment)
    sent = to_arguments(composed)["runtime_env"]
    assert sent == {"env_vars": dict(composed.env), "image_uri": "registry/trainer:1"}
    assert runtime_env(**sent).image_uri() == "registry/trainer:1"
    with pytest.raises(ValueError, match="cannot be used"):
        runtime_env(**sent, pip=["torch"])
    worker = context.RuntimeEnvContext(env_vars=sent["env_vars"])
    plugin._modify_context_impl(sent["image_uri"], "/worker.py", [], worker, logging.getLogger(), "/tmp/ray")
    words = shlex.split(worker.py_executable)
    passed = [word for before, word in pairwise(words) if before == "--env"]
    assert {f"{name}={value}" for name, value in sent["env_vars"].items()} <= set(passed)
    assert words[-1] == "registry/trainer:1"


@pytest.mark.parametrize("field", ["train_file", "val_file", "model_path", "code_path"])
@pytest.mark.parametrize("path", ["/etc/passwd", "/privatex/d", "d", "/private"])
def test_a_path_from_elsewhere_becomes_no_command(field: str, path: str) -> None:
    more = {"model_id": None} if field == "model_path" else {}
    with pytest.raises(PathRefused, match=f"^{field}: "):
        submission(verl(**more, **{field: path}))


@pytest.mark.parametrize("user", ["../bob", "a/b", "root", ""])
def test_what_is_no_name_of_a_user_becomes_no_folder(user: str) -> None:
    options = TrainingOptions(is_on=True, homes_root=ROOT)
    with pytest.raises(PathRefused):
        submission_of(
            script(), submission_id="t--a01", task_id="t", user=user, options=options, logical_root="/private"
        )


# --- quoting ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("workload", VERL)
@pytest.mark.parametrize("text", NASTY)
def test_no_text_of_a_task_becomes_another_setting(workload: Workload, text: str) -> None:
    spec = verl(
        workload,
        train_file=f"/private/common/{text}",
        code_path=f"/private/common/{text}",
        model_id=None,
        model_path=f"/private/users/alice/models/{text}",
        overrides={"data.y": text.replace("/", "")},
    )
    plain = settings_of(verl(workload, overrides={"data.y": "plain"}))
    overrides = settings_of(spec)
    assert list(overrides) == list(plain)
    assert overrides["data.train_files"] == f"{ROOT}/common/{text}"
    assert overrides["data.y"] == text
    assert shlex.split(submission(spec).entrypoint)[1] == f"{ROOT}/common/{text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (-1, "-1"),
        (1e-6, "1e-06"),
        (2.0, "2.0"),
        ("null", '"null"'),
        ("True", '"True"'),
        ("3", '"3"'),
        ("nan", '"nan"'),
        ("", '""'),
        ("gae", "gae"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("1e5", '"1e5"'),
        ("模型", '"模型"'),
        ("/a b", '"/a b"'),
        (["model", "hf_model"], "[model,hf_model]"),
        ([], "[]"),
        ({}, "{}"),
        ([1, [2.5, None]], "[1,[2.5,null]]"),
        ({"a": {"b-c": True}, "d": ["x,y", "]"]}, '{a:{b-c:true},d:["x,y","]"]}'),
    ],
)
def test_a_value_keeps_its_kind(value: Any, text: str) -> None:
    assert write_value(value) == text
    value_kept = parsed(f"data.x={text}")[1]
    assert (value_kept, type(value_kept)) == (value, type(value))


@pytest.mark.parametrize("text", NASTY)
def test_a_text_within_lists_and_maps_stays_one_text(text: str) -> None:
    value = {"list": [text, {"deep": text}], "other": text}
    assert parsed(argument("data.x", value)) == ("data.x", value)


def test_the_critic_the_reference_and_the_engine_follow_the_actor_in_how_they_batch() -> None:
    assert settings_of(verl())["actor_rollout_ref.actor.use_dynamic_bsz"] is True
    own = settings_of(verl(overrides={"actor_rollout_ref.actor.use_dynamic_bsz": False}))
    assert own["actor_rollout_ref.actor.use_dynamic_bsz"] is False


@pytest.mark.parametrize(("rollout", "name"), [(None, "vllm"), (Rollout.SGLANG, "sglang")])
def test_the_engine_is_vllm_unless_the_task_names_another(rollout: Rollout | None, name: str) -> None:
    assert settings_of(verl(rollout=rollout))["actor_rollout_ref.rollout.name"] == name


@pytest.mark.parametrize(
    ("place", "on_the_nodes"),
    [("Skywork/Reward-V2", "Skywork/Reward-V2"), ("/private/common/models/judge", f"{ROOT}/common/models/judge")],
)
def test_a_model_that_judges_has_the_engine_of_the_actor_and_fits_its_gpus(place: str, on_the_nodes: str) -> None:
    settings = settings_of(verl(reward_model=place, rollout=Rollout.SGLANG, n_gpus_per_node=1))
    prefix = "reward.reward_model."
    judge = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    assert judge == {
        "enable": True,
        "model_path": on_the_nodes,
        "rollout.name": "sglang",
        "rollout.tensor_model_parallel_size": 1,
    }
    assert not any("reward_model" in key for key in settings_of(verl()))


def test_figures_go_to_the_trackers_of_the_installation_too() -> None:
    options = TrainingOptions(
        is_on=True, homes_root=ROOT, trackers=("tensorboard", "mlflow"), mlflow_uri="http://mlflow:5000"
    )
    for spec in (verl(), script()):
        made = submission_of(
            spec, submission_id="t--a01", task_id="t", user="alice", options=options, logical_root="/private"
        )
        place = "t--a01" if spec.workload == "script" else "t"  # with verl, attempts continue one curve
        assert made.env["TENSORBOARD_DIR"] == f"{ROOT}/users/alice/jobs/{place}/tensorboard"
        assert made.env["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
        assert ("trainer.logger=[console,file,tensorboard,mlflow]" in made.entrypoint) is (spec.workload != "script")


def test_how_a_group_is_judged_is_grpo_unless_the_task_names_another() -> None:
    assert settings_of(verl(Workload.GRPO))["algorithm.adv_estimator"] == "grpo"
    rloo = settings_of(verl(Workload.GRPO, algorithm=Algorithm.RLOO))
    assert (rloo["algorithm.adv_estimator"], rloo["actor_rollout_ref.rollout.n"]) == ("rloo", 5)
    assert "actor_rollout_ref.actor.use_kl_loss" not in rloo
    dapo = settings_of(
        verl(Workload.GRPO, algorithm=Algorithm.DAPO, overrides={"actor_rollout_ref.actor.clip_ratio_high": 0.3})
    )
    assert dapo["algorithm.adv_estimator"] == "grpo"
    assert dapo["reward.reward_manager.name"] == "dapo"
    assert dapo["actor_rollout_ref.actor.clip_ratio_high"] == 0.3


@pytest.mark.parametrize(("gpus", "parallel"), [(1, 1), (3, 1), (2, None), (8, None)])
def test_an_engine_over_two_gpus_is_not_asked_of_an_odd_number(gpus: int, parallel: int | None) -> None:
    overrides = settings_of(verl(n_gpus_per_node=gpus))
    assert overrides.get("actor_rollout_ref.rollout.tensor_model_parallel_size") == parallel
    own = settings_of(verl(n_gpus_per_node=3, overrides={"actor_rollout_ref.rollout.tensor_model_parallel_size": 3}))
    assert own["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 3


@pytest.mark.parametrize("workload", [Workload.PPO, Workload.GRPO])
def test_no_two_tasks_meet_in_one_queue_of_verls_newer_trainer(workload: Workload) -> None:
    assert settings_of(verl(workload))["++trainer.use_v1"] is False


@pytest.mark.parametrize("workload", VERL)
def test_all_attempts_of_a_task_have_the_same_checkpoints(workload: Workload) -> None:
    spec, options = verl(workload), TrainingOptions(is_on=True, homes_root=ROOT)
    places = set()
    for attempt in ("t--a01", "t--a02"):
        made = submission_of(
            spec, submission_id=attempt, task_id="t", user="alice", options=options, logical_root="/private"
        )
        overrides = dict(parsed(word) for word in shlex.split(made.entrypoint)[7:])
        places.add(overrides["trainer.default_local_dir"])
        assert overrides["hydra.run.dir"] == f"{ROOT}/users/alice/jobs/{attempt}/hydra"
    assert places == {f"{ROOT}/users/alice/jobs/t/checkpoints"}
