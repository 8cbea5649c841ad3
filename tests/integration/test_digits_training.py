"""The bundled example, whole: `modelmill train submit ops/samples/digits/train.yaml` ends with a model that runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.conversion.toolchains.host.runtime import HostModel
from tests.harness.api import Api
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.paths import REPOSITORY
from tests.harness.ray_cluster import RayCluster

SAMPLE = REPOSITORY / "ops/samples/digits"
PERIODIQ = str(Path(sys.executable).with_name("periodiq"))
NOT_AS_GOOD = """
import runpy, sys
import train
train.ACCURACY_MIN = 1.1
runpy.run_path(sys.argv[1], run_name="__main__")
"""
pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory, ray_cluster: RayCluster) -> Iterator[Deployment]:
    """The whole product on a cluster, with the example in its common folder as ops/ray-local puts it there."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trainer")
    with Deployment(folder, **ray_cluster.settings, ray_python=sys.executable, training_tick_s="1") as deployment:
        code = folder / "data/homes/common/code/digits"
        code.mkdir(parents=True)
        for program in SAMPLE.glob("*.py"):
            shutil.copy(program, code)
        deployment.workers("actors", onnx=1, bie=1, nef=1, done=1)
        deployment.web()
        for queue in ("training", "training_results", "periodic"):
            deployment.start([DRAMATIQ, "actors", "--queues", queue, "--processes", "1", "--threads", "1"])
        deployment.start([PERIODIQ, "actors"])
        yield deployment


def submit(deployment: Deployment, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**deployment.env, "MODELMILL_URL": deployment.url, "COLUMNS": "200"}
    command = [sys.executable, "-m", "app.cli", "train", "submit", *map(str, arguments)]
    return subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def right(nef: Path) -> float:
    """Share of pictures that it tells rightly, of those that it has not seen."""
    model, test = HostModel(nef), np.load(SAMPLE / "test.npz")
    guesses = [int(model.run({"input": picture[None]})["logits"].argmax()) for picture in test["x"]]
    return float((np.array(guesses) == test["y"]).mean())


@pytest.mark.timeout(300)
def test_the_example_trains_and_ends_with_a_model_that_tells_digits(trainer: Deployment, tmp_path: Path) -> None:
    ended = submit(trainer, SAMPLE / "train.yaml", "--out", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "epoch 12/12" in ended.stdout and "accuracy of the exported model" in ended.stdout
    assert right(tmp_path / "out.nef") > 0.95
    with Api(trainer.url) as api:
        (listed,) = api.http.get("/api/v2/tasks", params={"workload": "script"}).json()["tasks"]
        task = api.http.get(f"/api/v2/tasks/{listed['task_id']}").json()
        assert (task["state"], task["name"], len(task["attempts"])) == ("SUCCEEDED", "digits", 1)
        assert [artifact["path"] for artifact in task["artifacts"]] == ["model.onnx"]
        job = api.job(task["conversions"][0]["job_id"])
    assert (job["status"], job["origin"]) == ("COMPLETED", f"task:{task['task_id']}")
    assert (tmp_path / "out.nef").stat().st_size == job["artifacts"]["out.nef"]["size_bytes"]
    folder = trainer.folder / "data/homes/users/local/jobs" / task["latest_attempt"]["ray_submission_id"]
    assert json.loads((folder / "metrics.json").read_text())["accuracy"] >= 0.95


def test_a_model_that_is_not_good_enough_is_not_left(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    env = {**os.environ, "MODELMILL_JOB_FOLDER": str(tmp_path), "PYTHONPATH": str(SAMPLE)}
    command = [sys.executable, "-c", NOT_AS_GOOD, str(SAMPLE / "train_torch.py")]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 4
    assert "nothing was written" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_not_told_its_folder_says_so() -> None:
    pytest.importorskip("torch")
    env = {name: value for name, value in os.environ.items() if name != "MODELMILL_JOB_FOLDER"}
    command = [sys.executable, str(SAMPLE / "train_torch.py")]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, "MODELMILL_JOB_FOLDER is not set" in ended.stderr) == (2, True)
