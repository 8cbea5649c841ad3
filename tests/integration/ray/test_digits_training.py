"""The bundled example, whole: `modelmill train submit ops/samples/digits/train.yaml` ends with a model that runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.inference.runtimes.sessions import HostModel
from tests.harness.api import Api
from tests.harness.deployment import Deployment
from tests.harness.paths import REPOSITORY
from tests.harness.training.deployment import Trainer

SAMPLE = REPOSITORY / "ops/samples/digits"
SHORT = """
import os, sys
import train_torch
train_torch.EPOCHS, train_torch.RATE = 1, 1e-6
print("without a folder:", train_torch.main())
os.environ[train_torch.FOLDER] = sys.argv[1]
print("not good enough:", train_torch.main())
"""
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="there is no PyTorch"),
]


def submit(deployment: Deployment, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**deployment.env, "MODELMILL_URL": deployment.url, "COLUMNS": "200"}
    command = [sys.executable, "-m", "app.cli.main", "train", "submit", *map(str, arguments)]
    return subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def right(nef: Path) -> float:
    """Share of pictures that it tells rightly, of those that it has not seen."""
    model, test = HostModel(nef), np.load(SAMPLE / "test.npz")
    guesses = [int(model.run({"input": picture[None]})["logits"].argmax()) for picture in test["x"]]
    return float((np.array(guesses) == test["y"]).mean())


@pytest.mark.exhaustive  # each link of it is tried
def test_the_example_trains_and_ends_with_a_model_that_tells_digits(trainer: Trainer, tmp_path: Path) -> None:
    trainer.start_converting()
    ended = submit(trainer.deployment, SAMPLE / "train.yaml", "--out", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "epoch 12/12" in ended.stdout and "accuracy of the exported model" in ended.stdout
    assert right(tmp_path / "out.nef") > 0.95
    with Api(trainer.deployment.url) as api:
        (listed,) = api.http.get("/api/v2/tasks", params={"workload": "script", "q": "digits"}).json()["tasks"]
        task = api.http.get(f"/api/v2/tasks/{listed['task_id']}").json()
        assert (task["state"], task["name"], len(task["attempts"])) == ("SUCCEEDED", "digits", 1)
        assert [artifact["path"] for artifact in task["artifacts"]] == ["model.onnx"]
        job = api.job(task["conversions"][0]["job_id"])
    assert (job["status"], job["origin"]) == ("COMPLETED", f"task:{task['task_id']}")
    assert (tmp_path / "out.nef").stat().st_size == job["artifacts"]["out.nef"]["size_bytes"]
    folder = trainer.common.parent / "users/local/jobs" / task["latest_attempt"]["ray_submission_id"]
    assert json.loads((folder / "metrics.json").read_text())["accuracy"] >= 0.95


@pytest.mark.exhaustive
def test_the_program_is_told_its_folder_and_leaves_no_model_that_is_not_good_enough(tmp_path: Path) -> None:
    """After one epoch in which it learns next to nothing it is not."""
    env = {name: value for name, value in os.environ.items() if name != "MODELMILL_JOB_FOLDER"}
    job = tmp_path / "job"
    job.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", SHORT, str(job)],
        env={**env, "PYTHONPATH": str(SAMPLE), "TMPDIR": str(tmp_path)},  # PyTorch makes a folder of its own there
        capture_output=True,
        text=True,
        check=False,
    )
    assert "without a folder: 2\n" in ended.stdout, ended.stderr
    assert "MODELMILL_JOB_FOLDER is not set" in ended.stderr
    assert "not good enough: 4\n" in ended.stdout, ended.stderr
    assert "nothing was written" in ended.stderr
    assert not list(job.iterdir())
