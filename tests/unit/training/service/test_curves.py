"""The curves of a task read from its folders: as files grow, are written anew, are links, or are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.homes.service import Homes
from app.training.model import Demand, State, Task, Workload
from app.training.responses import metrics_csv
from app.training.service import CurveReader, TaskView
from app.training.service.views import AttemptFolder

AT = "2026-11-01T12:00:00.000Z"


@pytest.fixture
def folder(homes: Homes) -> Path:
    made = homes.options.root / "users" / "alice" / "jobs" / "t--a01"
    made.mkdir(parents=True)
    return made


def view(*folders: str) -> TaskView:
    task = Task(
        "t",
        "alice",
        Workload.PPO,
        "",
        Demand(1, 1, 1),
        seq=1,
        state=State.RUNNING,
        version=1,
        created_at=AT,
        updated_at=AT,
        waited_since=AT,
    )
    paths = {
        number: AttemptFolder(f"/private/users/alice/jobs/{name}" if name else "", False, None, None)
        for number, name in enumerate(folders, 1)
    }
    return TaskView(task, folders=paths)


def test_no_name_of_a_curve_is_a_formula_to_a_spreadsheet(homes: Homes, folder: Path) -> None:
    (folder / "metrics.jsonl").write_text('{"step": 1, "=1+1": 3}\n')
    assert "\n'=1+1,1,,3.0\n" in metrics_csv(CurveReader(homes).read(view("t--a01")))


def test_a_growing_file_is_read_on(homes: Homes, folder: Path) -> None:
    reader, file = CurveReader(homes), folder / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": 3}\n')
    before = reader.read(view("t--a01"))
    with file.open("a") as more:
        more.write('{"step": 2, "loss": 2}\n')
    after = reader.read(view("t--a01"))
    assert list(after.curves["loss"].values) == [3, 2]
    assert before.version != after.version


def test_a_file_that_was_written_anew_is_read_anew(homes: Homes, folder: Path) -> None:
    reader, file = CurveReader(homes), folder / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": 3}\n{"step": 2, "loss": 3}\n')
    reader.read(view("t--a01"))
    file.write_text('{"step": 1, "loss": 7}\n')
    assert list(reader.read(view("t--a01")).curves["loss"].values) == [7]


def losses_read_twice(homes: Homes, reader: CurveReader, count: int) -> list[float]:
    """The loss of each of so many tasks, all read in turn, as it is said once every loss of 3 in a file became 5: 5 if
    a file was read from its start again."""
    jobs = homes.options.root / "users" / "alice" / "jobs"
    for loss in (3, 5):
        for number in range(count):
            (jobs / f"t{number}").mkdir(parents=True, exist_ok=True)
            file = jobs / f"t{number}" / "metrics.jsonl"
            with file.open("r+" if file.exists() else "x") as written:  # the same file, of the same size
                written.write(f'{{"step": 1, "loss": {loss}}}\n')
        losses = [reader.read(view(f"t{number}")).curves["loss"].values[0] for number in range(count)]
    return losses


def test_of_many_tasks_that_are_read_in_turn_none_is_read_from_its_start_again(homes: Homes) -> None:
    assert losses_read_twice(homes, CurveReader(homes), 100) == [3] * 100


def test_what_is_kept_of_files_is_limited(homes: Homes) -> None:
    assert losses_read_twice(homes, CurveReader(homes, kept_bytes=5000), 10) == [5] * 10


def test_no_link_is_followed_and_what_is_gone_tells_nothing(homes: Homes, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.jsonl").write_text('{"step": 1, "loss": 3}\n')
    (folder / "metrics.jsonl").symlink_to(tmp_path / "outside.jsonl")
    assert CurveReader(homes).read(view("t--a01", "t--a02", "")).curves == {}


def test_a_file_beyond_what_is_read_is_cut_and_said_so(homes: Homes, folder: Path) -> None:
    row = '{"step": 1, "loss": 3}\n'
    (folder / "metrics.jsonl").write_text(row * 10)
    read = CurveReader(homes, most_bytes=len(row) * 4).read(view("t--a01"))
    assert (read.row_count, read.is_cut) == (4, True)


def test_what_a_program_leaves_at_its_end_is_told(homes: Homes, folder: Path) -> None:
    (folder / "metrics.json").write_text('{"accuracy": 0.97, "epochs": 12, "note": "x", "ok": true}')
    shown = view("t--a01")
    ended = TaskView(replace(shown.task, state=State.SUCCEEDED, latest_attempt_no=1), folders=shown.folders)
    assert CurveReader(homes).read(ended).summary == {"accuracy": 0.97, "epochs": 12}
