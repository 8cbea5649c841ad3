"""What tasks left, on its way to conversion: by one click and by the spec, and what may go wrong in between."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.conversion import object_keys
from app.conversion.errors import TooManyJobs
from app.homes.errors import FileMissing
from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.errors import BadInput, ModelmillError, Unavailable
from app.kit.sql import Database
from app.training import store
from app.training.errors import TaskNotFinished, TaskNotFound
from app.training.model import Conversion, Event, State, Task
from app.training.service import ConversionRequest, Results, Tasks, TrainingOptions
from app.training.service.results import AGAIN_S, CLAIM, TRIED_FOR, job_id_of
from tests.harness.training.finished_tasks import BEGAN, TASK, NoRegistry, finished_task, folder_of

ENDED = BEGAN + timedelta(minutes=1)
LATER = ENDED + timedelta(seconds=2)
SPEC = """workload: script
code_path: /private/common/code/digits
convert:
  images: reference.zip
"""
PLAIN = "workload: script\ncode_path: /private/common/code/digits\n"
FOLDER = f"/private/users/alice/jobs/{TASK}--a01"


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Conversions:
    """Stands for conversion: keeps what it was asked for, and a job of a given id once, as that does."""

    trouble: BaseException | None = None
    dies_after: bool = False
    asked: list[ConversionRequest] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    def convert(self, request: ConversionRequest) -> str:
        self.asked.append(request)
        if self.trouble is not None:
            raise self.trouble
        job_id = request.job_id or f"job-{len(self.jobs)}"
        if job_id not in self.jobs:
            self.jobs.append(job_id)
        if self.dies_after:
            raise Killed
        return job_id


@pytest.fixture
def homes(database: Database, tmp_path: Path) -> Homes:
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    made.files.create("alice")
    return made


@pytest.fixture
def conversions() -> Conversions:
    return Conversions()


@pytest.fixture
def results(database: Database, homes: Homes, conversions: Conversions) -> Results:
    tasks = Tasks(TrainingOptions(is_on=True, homes_root="/private"), database, homes, lambda: None)
    return Results(tasks, conversions, NoRegistry())


def add(
    results: Results, spec: str = SPEC, *, name: str = "", task_id: str = TASK, end: Event | None = Event.SUCCEED
) -> Task:
    return finished_task(results.database, results.tasks.homes, spec, name=name, task_id=task_id, end=end)


def pulse(results: Results, now: datetime) -> None:
    for task_id in results.due(now=now):
        results.convert_results(task_id, now=now)


def rows(results: Results) -> list[Conversion]:
    with results.database.read() as conn:
        return store.conversions_of(conn, TASK)


def said(results: Results) -> list[dict[str, object]]:
    with results.database.read() as conn:
        return [event.detail for event in store.events_of(conn, TASK) if event.kind == "CONVERSION"]


# --- by the spec ------------------------------------------------------------------------------------
def test_what_the_spec_asks_for_is_submitted_with_paths_of_the_jobs_folder(
    results: Results, conversions: Conversions
) -> None:
    task = add(results, SPEC + "  model: export/net.onnx\n  options: {allow_damaged_images: true}\n")
    results.convert_results(TASK, now=LATER)
    assert conversions.asked == [
        ConversionRequest(
            user="alice",
            task_id=TASK,
            name="net",
            model=f"{FOLDER}/export/net.onnx",
            images=f"{FOLDER}/reference.zip",
            options={"allow_damaged_images": True},
            job_id=job_id_of(task),
        )
    ]
    assert rows(results) == [Conversion(TASK, 1, "export/net.onnx", to_text(ENDED), job_id_of(task))]
    assert said(results) == [{"by": "spec", "artifact": "export/net.onnx", "job_id": job_id_of(task)}]


def test_pictures_may_lie_elsewhere_and_the_name_is_the_users(results: Results, conversions: Conversions) -> None:
    whole = "/private/common/datasets/pictures.zip"
    add(results, PLAIN + f"name: run seven\nconvert:\n  images: {whole}\n", name="run seven")
    results.convert_results(TASK, now=LATER)
    assert (conversions.asked[0].images, conversions.asked[0].name) == (whole, "run seven")


def test_told_again_it_makes_no_second_job(results: Results, conversions: Conversions) -> None:
    add(results)
    for minutes in (0, 1, 60, 100_000):
        results.convert_results(TASK, now=LATER + timedelta(minutes=minutes))
        pulse(results, LATER + timedelta(minutes=minutes))
    assert len(conversions.asked) == len(rows(results)) == len(said(results)) == 1


def test_two_who_are_told_at_once_make_one_job(results: Results, conversions: Conversions) -> None:
    class Nested(Conversions):
        def convert(self, request: ConversionRequest) -> str:
            results.convert_results(TASK, now=LATER)  # the other one, while this one is at it
            return super().convert(request)

    add(results)
    nested = Nested()
    Results(results.tasks, nested, NoRegistry()).convert_results(TASK, now=LATER)
    assert len(nested.asked) == 1
    assert conversions.asked == []


@pytest.mark.parametrize("end", [None, Event.FAIL])
def test_a_task_that_has_not_succeeded_is_not_converted(
    results: Results, conversions: Conversions, end: Event | None
) -> None:
    add(results, end=end)
    results.convert_results(TASK, now=LATER)
    pulse(results, LATER)
    assert (conversions.asked, rows(results)) == ([], [])


@pytest.mark.parametrize("spec", [PLAIN, PLAIN + "# convert: later, by hand\n", "workload: script\n"])
def test_a_spec_that_asks_for_nothing_or_cannot_be_read_any_more_gets_nothing(
    results: Results, conversions: Conversions, spec: str
) -> None:
    add(results, spec)
    results.convert_results(TASK, now=LATER)
    pulse(results, LATER)
    assert (conversions.asked, rows(results)) == ([], [])


# --- what goes wrong --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "trouble", [FileMissing("There is no model.onnx here.", hint="Look again."), BadInput("options.bogus: unknown")]
)
def test_what_is_wrong_for_good_is_kept_as_a_problem_and_not_tried_again(
    results: Results, conversions: Conversions, trouble: ModelmillError
) -> None:
    add(results)
    conversions.trouble = trouble
    results.convert_results(TASK, now=LATER)
    conversions.trouble = None
    pulse(results, LATER + timedelta(hours=1))
    (row,) = rows(results)
    assert row.problem == f"{trouble.message} {trouble.hint}".strip()
    assert (row.job_id, row.next_try_at, len(conversions.asked)) == ("", None, 1)
    with results.database.read() as conn:
        task = store.get_task(conn, TASK)
    assert task is not None and task.state is State.SUCCEEDED


def test_a_folder_that_was_deleted_is_said_to_be(results: Results, conversions: Conversions) -> None:
    add(results)
    results.tasks.homes.clear(ENDED + timedelta(days=11))
    results.convert_results(TASK, now=LATER)
    assert "was deleted" in rows(results)[0].problem
    assert conversions.asked == []


def test_a_folder_in_the_trash_is_read_there(results: Results, conversions: Conversions) -> None:
    add(results)
    results.tasks.homes.clear(ENDED + timedelta(days=4))
    results.convert_results(TASK, now=LATER)
    assert conversions.asked[0].model == f"/private/users/alice/trash/jobs/{TASK}--a01/model.onnx"


def test_what_is_full_for_now_is_tried_again_when_it_says_so_and_said_once(
    results: Results, conversions: Conversions
) -> None:
    add(results)
    conversions.trouble = TooManyJobs("You have 2 unfinished jobs.", hint="Wait.", detail={"retry_after_s": 90})
    results.convert_results(TASK, now=LATER)
    again_at = LATER + timedelta(seconds=90)
    (row,) = rows(results)
    assert (row.problem, row.next_try_at) == ("You have 2 unfinished jobs. Wait.", to_text(again_at))
    pulse(results, again_at - timedelta(seconds=1))
    assert len(conversions.asked) == 1
    pulse(results, again_at)
    assert (len(conversions.asked), len(said(results))) == (2, 1)
    conversions.trouble = None
    pulse(results, again_at + timedelta(seconds=90))
    (row,) = rows(results)
    assert (row.job_id, row.problem, row.next_try_at) == (conversions.jobs[0], "", None)
    assert len(said(results)) == 2


@pytest.mark.slow
def test_what_never_gets_better_is_given_up_after_a_day(results: Results, conversions: Conversions) -> None:
    add(results)
    conversions.trouble = Unavailable("The object store does not answer.")
    now = LATER
    while now < ENDED + TRIED_FOR + timedelta(hours=2):
        pulse(results, now)
        now += timedelta(hours=1)
    tries = len(conversions.asked)
    assert rows(results)[0].next_try_at is None
    pulse(results, now + timedelta(seconds=2 * AGAIN_S))
    assert len(conversions.asked) == tries == 25


# --- who dies in between ----------------------------------------------------------------------------
def test_who_dies_before_the_job_was_submitted_is_followed_by_another_who_makes_it(
    results: Results, conversions: Conversions
) -> None:
    add(results)
    conversions.trouble = Killed()
    with pytest.raises(Killed):
        results.convert_results(TASK, now=LATER)
    assert [(row.job_id, row.problem) for row in rows(results)] == [("", "")]
    conversions.trouble = None
    pulse(results, LATER + CLAIM - timedelta(seconds=1))
    assert conversions.jobs == []
    pulse(results, LATER + CLAIM)
    assert [row.job_id for row in rows(results)] == conversions.jobs


def test_who_dies_after_the_job_was_submitted_is_followed_by_another_who_finds_it(
    results: Results, conversions: Conversions
) -> None:
    add(results)
    conversions.dies_after = True
    with pytest.raises(Killed):
        results.convert_results(TASK, now=LATER)
    conversions.dies_after = False
    pulse(results, LATER + CLAIM)
    assert len(conversions.jobs) == 1
    assert [row.job_id for row in rows(results)] == conversions.jobs


def test_a_task_of_whose_end_nobody_was_told_is_found_by_the_pulse(results: Results, conversions: Conversions) -> None:
    add(results)
    pulse(results, ENDED + TRIED_FOR)
    assert len(conversions.jobs) == 1


def test_long_ended_tasks_are_left_alone(results: Results, conversions: Conversions) -> None:
    add(results)
    pulse(results, ENDED + TRIED_FOR + timedelta(seconds=1))
    assert conversions.jobs == []


def test_the_id_of_the_job_is_the_same_for_each_try_and_looks_like_any_other(results: Results) -> None:
    task = add(results)
    other = add(results, task_id=TASK.replace("ab12", "cd34"))
    assert job_id_of(task) == job_id_of(task) != job_id_of(other)
    assert object_keys.is_uuid4(job_id_of(task))


# --- what the task says of its model ---------------------------------------------------------------
UNIT = {"preprocess": {"color": "BGR", "scale": 1.0}}
NOTED = {"images": "samples", "options": UNIT, "decoder": "yolox", "labels": ["cat", "dog"]}


def note(results: Results, content: object, artifact_folder: str = "") -> None:
    folder = folder_of(results.tasks.homes, "alice") / artifact_folder
    folder.mkdir(exist_ok=True)
    (folder / "conversion.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_what_a_program_notes_beside_its_model_goes_into_the_conversion(
    results: Results, conversions: Conversions
) -> None:
    add(results, PLAIN)
    note(results, NOTED, "export")
    results.convert("alice", TASK, artifact="export/net.onnx", now=LATER)
    results.convert("alice", TASK, artifact="export/net.onnx", images="/private/x", options={"a": 1}, now=ENDED)
    first, second = conversions.asked
    assert (first.images, first.options) == (f"{FOLDER}/export/samples", UNIT)
    assert (second.images, second.options) == ("/private/x", {**UNIT, "a": 1})


def test_the_spec_says_more_of_the_model_that_it_names_and_nothing_of_others(
    results: Results, conversions: Conversions
) -> None:
    add(results, SPEC + "  options: {input_shapes: {x: [1, 2]}}\n")
    note(results, NOTED)
    results.convert_results(TASK, now=LATER)
    results.convert("alice", TASK, artifact="model.onnx", now=LATER)
    results.convert("alice", TASK, artifact="other.onnx", now=ENDED)
    by_spec, again, other = conversions.asked
    assert by_spec.images == again.images == f"{FOLDER}/reference.zip"
    assert by_spec.options == again.options == {**UNIT, "input_shapes": {"x": [1, 2]}}
    assert (other.images, other.options) == (f"{FOLDER}/samples", UNIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "conversion.json: "),
        ({"option": {}}, "conversion.json.option: "),
        ({"labels": [1]}, "conversion.json.labels.0: "),
        ("x" * (256 << 10 | 1), "longer than 256 KiB"),
    ],
)
def test_a_description_that_cannot_be_read_is_said_and_nothing_made(
    results: Results, conversions: Conversions, content: object, words: str
) -> None:
    add(results)
    note(results, content)
    with pytest.raises(BadInput, match=re.escape(words)):
        click(results)
    results.convert_results(TASK, now=LATER)
    assert words in rows(results)[0].problem
    assert conversions.asked == []


def test_samples_are_missing_only_if_nobody_names_any(results: Results, conversions: Conversions) -> None:
    add(results, PLAIN)
    with pytest.raises(BadInput, match="no reference samples beside the model"):
        click(results, images="")
    (folder_of(results.tasks.homes, "alice") / "images").mkdir()
    click(results, images="")
    assert conversions.asked[0].images == f"{FOLDER}/images"


# --- by one click -----------------------------------------------------------------------------------
def click(results: Results, user: str = "alice", *, artifact: str = "net.onnx", images: str = "pictures") -> Conversion:
    return results.convert(user, TASK, artifact=artifact, images=images, now=LATER)


def test_one_click_makes_a_job_and_another_click_another(results: Results, conversions: Conversions) -> None:
    add(results, PLAIN)
    made = [click(results), results.convert("alice", TASK, artifact="net.onnx", images="/private/x", now=ENDED)]
    assert [conversion.images for conversion in conversions.asked] == [f"{FOLDER}/pictures", "/private/x"]
    assert conversions.jobs == [row.job_id for row in made]
    assert sorted(rows(results), key=lambda row: row.job_id) == made
    assert [detail["by"] for detail in said(results)] == ["alice", "alice"]


def test_a_click_neither_spends_nor_is_spent_by_what_the_spec_asks_for(
    results: Results, conversions: Conversions
) -> None:
    task = add(results)
    click(results)
    results.convert_results(TASK, now=LATER)
    click_again = results.convert("alice", TASK, artifact="net.onnx", images="x", now=LATER + timedelta(seconds=5))
    assert len(set(conversions.jobs)) == 3
    assert {row.job_id for row in rows(results)} == {*conversions.jobs} > {job_id_of(task), click_again.job_id}


def test_one_click_says_at_once_what_is_wrong_and_leaves_nothing(results: Results, conversions: Conversions) -> None:
    add(results, PLAIN)
    conversions.trouble = FileMissing("There is no net.onnx here.")
    with pytest.raises(FileMissing):
        click(results)
    assert (rows(results), said(results)) == ([], [])


@pytest.mark.parametrize("end", [None, Event.FAIL])
def test_one_click_on_a_task_that_has_not_succeeded_is_refused(results: Results, end: Event | None) -> None:
    add(results, end=end)
    with pytest.raises(TaskNotFinished, match="has not succeeded"):
        click(results)


def test_the_task_of_another_is_an_unknown_one(results: Results) -> None:
    add(results)
    with pytest.raises(TaskNotFound) as of_another:
        click(results, "mallory")
    with pytest.raises(TaskNotFound) as unknown:
        results.convert("mallory", TASK.replace("ab12", "cd34"), artifact="m", images="i", now=LATER)
    assert of_another.value.to_dict() == {
        **unknown.value.to_dict(),
        "message": unknown.value.message.replace("cd34", "ab12"),
    }


def test_a_click_names_a_model_in_the_folder_of_the_task(results: Results, conversions: Conversions) -> None:
    add(results)
    with pytest.raises(BadInput, match="no path in the folder of the task"):
        click(results, artifact="/private/users/alice/models/other.onnx")
    assert conversions.asked == []
