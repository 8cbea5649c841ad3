"""Environments on a real cluster: what an administrator wrote is what the program finds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.harness.folder_contents import contents_of, paths_below
from tests.harness.training.deployment import ENDED, TASKS, Trainer

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ENVIRONMENTS = "/api/v2/task-environments"
VALUE = "hf-value-that-nobody-sees"
TELLER = """
import os, pathlib, sys
print("speed", os.environ["SPEED"], "token", os.environ["HF_TOKEN"])
pathlib.Path(os.environ["MODELMILL_JOB_FOLDER"], "seen").write_text(os.environ["HF_TOKEN"][::-1])
sys.exit(f"refused {os.environ['HF_TOKEN']}")
"""
IMPORTER = """
import tiny_package, sys
print("tiny", tiny_package.ANSWER, sys.prefix)
"""


@pytest.fixture(scope="module")
def secrets(trainer: Trainer) -> Path:
    folder = Path(trainer.deployment.env["MODELMILL_TRAINING_SECRETS"])
    folder.mkdir(exist_ok=True)
    (folder / "hub").write_text(f"{VALUE}\n")
    return folder


def put(trainer: Trainer, name: str, text: str) -> None:
    answer = trainer.http.put(f"{ENVIRONMENTS}/{name}", content=text)
    assert answer.status_code == 200, answer.text


def test_a_program_finds_variables_and_secrets_and_nobody_else_sees_these(trainer: Trainer, secrets: Path) -> None:
    put(trainer, "told", "env: {SPEED: fast}\nsecrets: {HF_TOKEN: hub}\n")
    task_id = trainer.run(trainer.add_program("teller", TELLER), environment="told")
    task = trainer.reaches(task_id, *ENDED)
    assert (task["state"], task["environment"]) == ("FAILED", "told")
    folder = trainer.deployment.folder / "data/homes/users/local/jobs" / task["attempts"][0]["ray_submission_id"]
    assert (folder / "seen").read_text() == VALUE[::-1]
    assert "speed fast token ***" in trainer.logs(task_id)
    assert "refused ***" in task["attempts"][0]["message"]
    answers = [trainer.http.get(path).text for path in (ENVIRONMENTS, f"{TASKS}/{task_id}", f"{TASKS}/{task_id}/logs")]
    pages = [
        trainer.http.get(path).text for path in (f"/ui/tasks/{task_id}", "/ui/admin/environments", "/ui/tasks/new")
    ]
    assert not [text for text in [*answers, *pages] if VALUE in text]
    of_product = (path for path in paths_below(trainer.deployment.folder) if secrets not in path.parents)
    assert not [path for path, content in contents_of(of_product).items() if VALUE.encode() in content]


def test_an_environment_that_is_none_is_refused_at_submission(trainer: Trainer) -> None:
    answer = trainer.http.post(
        TASKS, json={"workload": "script", "code_path": trainer.add_program("none", ""), "environment": "nowhere"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "TASK_SPEC_INVALID")


@pytest.mark.exhaustive
def test_a_program_imports_what_the_environment_installs(trainer: Trainer, tmp_path: Path) -> None:
    """Ray copies the nodes' virtual environment and installs into the copy."""
    put(trainer, "packed", f"pip: [{tiny_wheel(tmp_path)}]\n")
    task_id = trainer.run(trainer.add_program("importer", IMPORTER), environment="packed")
    trainer.patience_s = 500
    task = trainer.reaches(task_id, *ENDED)
    assert task["state"] == "SUCCEEDED", (task["error_summary"], trainer.logs(task_id))
    [line] = [line for line in trainer.logs(task_id) if line.startswith("tiny 42")]
    assert "runtime_resources/pip" in line


def tiny_wheel(folder: Path) -> Path:
    path, info = folder / "tiny_package-1-py3-none-any.whl", "tiny_package-1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_package.py", "ANSWER = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path
