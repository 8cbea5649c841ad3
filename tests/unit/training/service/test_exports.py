"""A checkpoint becomes a model by a task of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.homes.errors import PathRefused
from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.errors import TaskNotFound
from app.training.model import Demand, NewTask, Workload
from app.training.service import CurveReader, Tasks, TrainingOptions
from app.training.service.exports import Exports
from app.training.service.resubmission import Resubmission
from app.training.spec import read_spec
from app.training.workloads import submission_of

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPEC = """\
workload: sft
name: chat
model_id: a/b
train_file: /private/common/x
n_gpus_per_node: 1
environment: lab
"""


@pytest.fixture
def tasks(tmp_path: Path, database: Database) -> Tasks:
    homes = Homes(HomesOptions(tmp_path / "homes"), database, None)
    homes.files.create("alice")
    with database.write() as conn:
        task = store.add_task(conn, NewTask("t1", "alice", Workload.SFT, SPEC, Demand(1, 1, 10)), to_text(NOW))
        store.change(conn, task, to_text(NOW), latest_attempt_no=1)
    homes.folders.begun("alice", "t1", now=NOW)
    for step in (20, 40):
        (homes.options.root / f"users/alice/jobs/t1/checkpoints/global_step_{step}").mkdir(parents=True)
    made = Tasks(TrainingOptions(is_on=True, homes_root="/nodes"), database, homes, lambda: None)
    made.environments.put("lab", b"env: {A: b}", by="root", now=NOW)
    return made


@pytest.fixture
def exports(tasks: Tasks) -> Exports:
    return Exports(tasks, Resubmission(tasks, CurveReader(tasks.homes)))


def test_it_runs_the_bundled_program_on_that_checkpoint_in_the_environment_of_its_task(
    tasks: Tasks, exports: Exports
) -> None:
    task = exports.export("alice", "t1", 20, to_onnx=True, now=NOW)
    spec, _ = read_spec(task.spec_text.encode())
    assert (task.name, task.environment, task.demand.gpus) == ("chat · step_20", "lab", 0)
    submission = submission_of(
        spec,
        submission_id="s",
        task_id=task.task_id,
        user="alice",
        options=tasks.options,
        logical_root="/private",
        resume_path=spec.resume_from,
    )
    assert submission.env["MODELMILL_RESUME_FROM"] == "/nodes/users/alice/jobs/t1/checkpoints/global_step_20"
    assert submission.entrypoint.endswith("/nodes/common/code/export/export.py --onnx")
    assert (tasks.homes.options.root / "common/code/export/export.py").is_file()


def test_without_a_step_it_is_the_last_one(exports: Exports) -> None:
    task = exports.export("alice", "t1", "last", to_onnx=False, now=NOW)
    assert "global_step_40" in task.spec_text and "args" not in task.spec_text


def test_what_is_not_there_or_anothers_is_refused(exports: Exports) -> None:
    with pytest.raises(PathRefused, match="no checkpoint of step 30"):
        exports.export("alice", "t1", 30, to_onnx=False, now=NOW)
    with pytest.raises(TaskNotFound):
        exports.export("bob", "t1", "last", to_onnx=False, now=NOW)
