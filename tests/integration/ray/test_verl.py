"""The real verl on a real Ray cluster, as far as a machine without GPUs lets it: ppo and grpo to the process group of
NCCL, sft on a platform of CPUs to its end."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.api import Api, has_ended
from tests.harness.mlflow_server import running_mlflow
from tests.harness.ray_cluster import STAND_INS, RayCluster, running_cluster
from tests.harness.training.deployment import ENDED, Trainer
from tests.harness.training.verl import HAS_ALL, VERL, put_optimum, run, validate
from tests.harness.training.verl_tasks import documented, shown, words

pytestmark = [
    pytest.mark.ray,
    pytest.mark.exhaustive,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not HAS_ALL, reason="verl is not there: ops/test --all installs it"),
]
COMMON = "/private/common"
ON_CPU = STAND_INS.parent / "verl_cpu"
NO_GPU = "Distributed package doesn't have NCCL built in"
"""What PyTorch for CPUs says where the workers of verl, each with its GPU, join."""
STEPS_PER_EPOCH = 4
ON_THE_CPU = {
    "engine.strategy": "fsdp2",
    "trainer.device": "cpu",
    "data.train_batch_size": 16,
    "data.num_workers": 0,
    "+model.override_config": {"attn_implementation": "sdpa"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, and the data of both kinds."""
    folder = tmp_path_factory.mktemp("tiny")
    run("-m", "tests.harness.training.tiny_model", str(folder))
    return folder


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Iterator[Trainer]:
    """The whole product, before nodes on which verl is installed."""
    with running_cluster([(4, 20), (4, 20)], environment={"PYTHONPATH": str(VERL)}) as cluster:
        made = Trainer(tmp_path_factory.mktemp("verl"), cluster)
        try:
            _begin(made, data)
            yield made
        finally:
            made.close()


@pytest.fixture
def cpu_cluster(tmp_path: Path) -> Iterator[RayCluster]:
    """One node, on which verl takes the CPU for its accelerator, and optimum has an interpreter of its own."""
    platform = {"VERL_USE_EXTERNAL_MODULES": "verl_on_cpu", "VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}
    optimum = {"MODELMILL_ONNX_PYTHON": str(put_optimum(tmp_path / "python-of-optimum"))}
    environment = {"PYTHONPATH": f"{VERL}:{ON_CPU}", **platform, **optimum}
    with running_cluster([(1, 11)], environment=environment) as cluster:
        yield cluster


@pytest.fixture
def mlflow(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "mlflow"
    folder.mkdir()
    with running_mlflow(folder) as url:
        yield url


@pytest.fixture
def cpu_trainer(tmp_path: Path, data: Path, cpu_cluster: RayCluster, mlflow: str) -> Iterator[Trainer]:
    trackers = json.dumps(["tensorboard", "mlflow"])
    made = Trainer(tmp_path, cpu_cluster, training_trackers=trackers, mlflow_tracking_uri=mlflow)
    try:
        _begin(made, data)
        yield made
    finally:
        made.close()


@pytest.fixture
def untracked(tmp_path: Path, data: Path, cpu_cluster: RayCluster) -> Iterator[Trainer]:
    made = Trainer(tmp_path, cpu_cluster)
    try:
        _begin(made, data)
        yield made
    finally:
        made.close()


def _begin(trainer: Trainer, data: Path) -> None:
    """verl takes a minute to be imported by its processes, one after the other."""
    trainer.patience_s = 600
    trainer.start()
    shutil.copytree(data / "model", trainer.common / "models" / "tiny")
    for file in data.glob("*.parquet"):
        shutil.copy(file, trainer.common / "datasets")


def task(workload: str) -> dict[str, Any]:
    file = f"{COMMON}/datasets/{'messages' if workload == 'sft' else 'prompts'}.parquet"
    return {
        "workload": workload,
        "model_path": f"{COMMON}/models/tiny",
        "train_file": file,
        "val_file": file,
        "n_gpus_per_node": 1 if workload == "sft" else 2,
        "overrides": {"data.train_batch_size": 16},
    }


def of_real_tasks(data: Path) -> Iterator[list[str]]:
    """Their command lines, on a model that is there: nothing is fetched from Hugging Face."""
    for _, spec in [*documented(), *shown()]:
        model = {"model_id": None, "model_path": "/private/model"}
        yield [word.replace("/private/model", str(data / "model")) for word in words(spec.model_copy(update=model))]


def test_verls_own_checks_pass_all_that_is_documented_shown_and_written_by_the_form(data: Path) -> None:
    validate(list(of_real_tasks(data)))


def test_its_checks_do_find_what_is_wrong(data: Path) -> None:
    *_, command = (words for words in of_real_tasks(data) if "verl.trainer.main_ppo" in words)
    with pytest.raises(AssertionError, match="micro_batch_size"):
        validate([[*command, "actor_rollout_ref.actor.use_dynamic_bsz=false"]])


def test_ppo_grpo_and_sft_at_once_come_as_far_as_the_gpus(trainer: Trainer) -> None:
    """Their data is read, their groups are placed, their workers run and meet; none meets another's."""
    kinds = ["sft", "ppo", "grpo", "ppo"]
    tasks = [trainer.send({**task(kind), "overrides": _batches(kind)}) for kind in kinds]
    for task_id in tasks:
        ended = trainer.reaches(task_id, *ENDED)
        log = "\n".join(trainer.logs(task_id, tail=5000))
        assert (ended["state"], ended["failure_kind"]) == ("FAILED", "RUNTIME_ERROR"), log[-3000:]
        assert NO_GPU in ended["error_summary"] or NO_GPU in log, log[-3000:]
        assert "TransferQueue" not in log
        assert "ActorUnschedulableError" not in log


def _batches(workload: str) -> dict[str, Any]:
    own = {} if workload == "sft" else {"actor_rollout_ref.actor.ppo_mini_batch_size": 8}
    return {"data.train_batch_size": 16, **own}


def test_a_task_whose_node_is_lost_goes_on_from_its_last_checkpoint_keeps_the_best_and_tells_its_trackers(
    cpu_cluster: RayCluster, cpu_trainer: Trainer, mlflow: str
) -> None:
    overrides = ON_THE_CPU
    task_id = cpu_trainer.send(
        {
            **task("sft"),
            "save_freq": 1,
            "keep_checkpoints": 2,
            "keep_best": 1,
            "total_epochs": 15,
            "overrides": overrides,
        }
    )
    place = Path(cpu_trainer.when(task_id, lambda record: record["checkpoints"])["checkpoints"]["path"])
    saved = (
        cpu_trainer.common.parent / place.relative_to("/private") / "checkpoints" / "latest_checkpointed_iteration.txt"
    )
    cpu_trainer.when(task_id, lambda _: saved.exists() and int(saved.read_text()) >= 3)
    cpu_cluster.kill_worker()
    lost_at = int(saved.read_text())
    cpu_cluster.start_worker(*cpu_cluster.sizes[0])
    ended = cpu_trainer.reaches(task_id, *ENDED)
    log = "\n".join(cpu_trainer.logs(task_id, tail=5000))
    assert ended["state"] == "SUCCEEDED", log[-3000:]
    assert [attempt["failure_kind"] for attempt in ended["attempts"]] == ["INFRA_ERROR", None]
    steps = [int(step) for step in re.findall(r"\bstep:(\d+) ", log)]
    skips = lost_at % STEPS_PER_EPOCH == 0  # verl passes over an epoch then, which its task says
    last = 60 - STEPS_PER_EPOCH * skips
    assert (steps[0], steps[-1]) == (lost_at + 1, last)
    assert ended["error_summary"].startswith(f"It trained {last} of 60 steps" if skips else ""), ended
    assert bool(ended["error_summary"]) is skips
    place = f"/api/v2/tasks/{task_id}"
    (series,) = cpu_trainer.http.get(f"{place}/metrics?name=train/loss").json()["series"]
    _, best = min(zip(series["values"], series["steps"], strict=True))
    kept = lambda _: {one["step"] for one in cpu_trainer.http.get(f"{place}/checkpoints").json()["checkpoints"]}  # noqa: E731
    cpu_trainer.when(task_id, lambda record: kept(record) == {last - 1, last, best})
    boards = sorted((saved.parent.parent / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert b"train/loss" in boards[-1].read_bytes(), "the lost attempt may not: TensorBoard writes every two minutes"
    assert _last_step_at(mlflow, task_id) == last


LOADING = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokens = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([model.num_parameters(), tokens.decode(model.generate(**tokens("1 +", return_tensors="pt"))[0])]))
"""


def test_a_checkpoint_becomes_a_model_that_transformers_loads_and_an_onnx_that_is_converted_and_registered(
    untracked: Trainer,
) -> None:
    """By verl's own merger and optimum, on its node; and a new task trains on from there by model_path."""
    steps = {"total_training_steps": 2, "save_freq": 1, "overrides": ON_THE_CPU}
    task_id = untracked.send({**task("sft"), **steps})
    assert untracked.reaches(task_id, *ENDED)["state"] == "SUCCEEDED"
    answer = untracked.http.post(f"/api/v2/tasks/{task_id}/export", json={"checkpoint": 2, "onnx": True})
    assert answer.status_code == 201, answer.text
    export = answer.json()["task_id"]
    ended = untracked.reaches(export, *ENDED)
    assert ended["state"] == "SUCCEEDED", "\n".join(untracked.logs(export))[-3000:]
    folder = untracked.common.parent / "users/local/models" / export
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    parameters, text = json.loads(run("-c", LOADING, str(folder)).splitlines()[-1])
    assert parameters > 0 and text.startswith("1 +"), text
    assert [each["path"] for each in ended["artifacts"]] == ["onnx/model.onnx"]
    assert "The ONNX answers like the model" in "\n".join(untracked.logs(export))
    _goes_on(untracked, export)
    further = {**task("sft"), **steps, "model_path": f"/private/users/local/models/{export}"}
    assert untracked.reaches(untracked.send(further), *ENDED)["state"] == "SUCCEEDED"


def _goes_on(trainer: Trainer, export: str) -> None:
    """Its ONNX by one click to the registry and to conversion, with the shapes and samples that the task describes."""
    place, artifact = f"/api/v2/tasks/{export}", {"artifact": "onnx/model.onnx"}
    kept = trainer.http.post(f"{place}/models", json={**artifact, "name": "tiny"})
    assert kept.status_code == 201, kept.text
    inputs = {each["name"] for each in trainer.http.get(kept.json()["model"]).json()["inputs"]}
    assert inputs == {"input_ids", "attention_mask", "position_ids"}
    trainer.start_converting()
    job = trainer.http.post(f"{place}/convert", json={**artifact, "options": {"quantization": {"method": "minmax"}}})
    assert job.status_code == 201, job.text
    with Api(trainer.deployment.url) as api:
        made = api.wait(job.json()["job_id"], has_ended)
    assert made["status"] == "COMPLETED", made
    assert made["options"]["input_shapes"]["input_ids"] == [1, 64]


def _last_step_at(server: str, task_id: str) -> int:
    """Of the loss of a task, as an MLflow server has it."""
    api = f"{server}/api/2.0/mlflow"
    query = {"filter": "name = 'modelmill'", "max_results": 1}
    (experiment,) = httpx.get(f"{api}/experiments/search", params=query).json()["experiments"]
    listed = httpx.post(f"{api}/runs/search", json={"experiment_ids": [experiment["experiment_id"]]}).json()["runs"]
    runs = [run for run in listed if run["info"]["run_name"] == task_id]
    return max(metric["step"] for run in runs for metric in run["data"]["metrics"] if metric["key"] == "train/loss")
