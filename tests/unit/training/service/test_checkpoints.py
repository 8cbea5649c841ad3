"""The checkpoints that verl leaves, and which of them a new task begins with."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.homes.errors import PathRefused
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.model import Demand, NewTask, Task, Workload
from app.training.service.checkpoints import checkpoints_in, resume_path
from app.training.spec import TaskSpec, read_spec

AT = to_text(datetime(2026, 11, 1, 12, tzinfo=UTC))
FOLDER = "/private/users/alice/jobs/before/checkpoints"


@pytest.fixture
def folder(homes: Homes) -> Path:
    made = homes.options.root / "users/alice/jobs/before/checkpoints"
    made.mkdir(parents=True)
    homes.folders.begun("alice", "before", now=datetime(2026, 11, 1, 12, tzinfo=UTC))
    for step in (100, 20):
        (made / f"global_step_{step}" / "actor").mkdir(parents=True)
        (made / f"global_step_{step}" / "actor" / "model.pt").write_bytes(b"x" * step)
    (made / "latest_checkpointed_iteration.txt").write_text("100")
    return made


@pytest.fixture
def before(database: Database) -> Task:
    """A task of alice that has left checkpoints."""
    new = NewTask("before", "alice", Workload.PPO, "", Demand(1, 8, 24))
    with database.write() as conn:
        task = store.add_task(conn, new, AT)
        return store.change(conn, task, AT, latest_attempt_no=1) or task


def spec(resume_from: str) -> TaskSpec:
    text = "workload: sft\nmodel_id: a/b\ntrain_file: /private/common/d\nn_gpus_per_node: 1\n"
    return read_spec(f"{text}resume_from: {resume_from}\n".encode())[0]


def test_checkpoints_are_told_by_step_with_their_sizes(homes: Homes, folder: Path) -> None:
    told = checkpoints_in(homes, "alice", FOLDER)
    assert [(one.step, one.size_bytes, one.path) for one in told] == [
        (20, 20, f"{FOLDER}/global_step_20"),
        (100, 100, f"{FOLDER}/global_step_100"),
    ]


def test_links_and_other_folders_are_no_checkpoints(homes: Homes, folder: Path, tmp_path: Path) -> None:
    (folder / "global_step_300").symlink_to(tmp_path)
    (folder / "global_step_x").mkdir()
    (folder / "hydra").mkdir()
    assert [one.step for one in checkpoints_in(homes, "alice", FOLDER)] == [20, 100]
    assert checkpoints_in(homes, "alice", "/private/users/alice/jobs/none/checkpoints") == []


def test_a_task_stands_for_its_last_checkpoint(database: Database, homes: Homes, folder: Path, before: Task) -> None:
    assert resume_path(database, homes, "alice", spec("before")) == f"{FOLDER}/global_step_100"


def test_a_folder_stands_for_itself(database: Database, homes: Homes, folder: Path) -> None:
    path = f"{FOLDER}/global_step_20"
    assert resume_path(database, homes, "alice", spec(path)) == path


@pytest.mark.parametrize(
    ("resume_from", "reason"),
    [
        ("no-such-task", "there is no task"),
        (FOLDER, "a folder like global_step_50"),
        (f"{FOLDER}/global_step_7", "global_step_7"),
        ("/private/users/bob/jobs/x/checkpoints/global_step_1", "resume_from"),
        ("/etc/global_step_1", "resume_from"),
    ],
)
def test_what_is_no_checkpoint_of_theirs_is_refused(
    database: Database, homes: Homes, folder: Path, before: Task, resume_from: str, reason: str
) -> None:
    with pytest.raises(PathRefused, match=reason):
        resume_path(database, homes, "alice", spec(resume_from))


def test_another_users_task_is_as_one_that_is_not_there(
    database: Database, homes: Homes, folder: Path, before: Task
) -> None:
    with pytest.raises(PathRefused, match="there is no task before"):
        resume_path(database, homes, "bob", spec("before"))


def test_a_task_without_a_checkpoint_is_refused(database: Database, homes: Homes, before: Task) -> None:
    with pytest.raises(PathRefused, match="has left no checkpoint"):
        resume_path(database, homes, "alice", spec("before"))
