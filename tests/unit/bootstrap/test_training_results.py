"""What tasks left becomes jobs of the real conversion, inputs checked and all; nobody works on them here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.bootstrap.container import Container, assemble
from app.bootstrap.training_results import ResultConversions, ResultModels
from app.conversion import object_keys
from app.conversion.errors import NoSamples, NotOnnx, TooManyJobs
from app.homes.errors import FileMissing, PathRefused
from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.errors import BadInput
from app.kit.sql import Database
from app.model_registry.errors import ModelExists
from app.model_registry.service import Models
from app.settings import Settings
from app.training import store
from app.training.service import ConversionRequest, Results, Tasks, TrainingOptions
from app.training.service.results import job_id_of
from tests.harness.paths import REPOSITORY
from tests.harness.training.finished_tasks import BEGAN, TASK, NoRegistry, finished_task, folder_of

SAMPLE = REPOSITORY / "ops/samples/digits"
HOME, COMMON = "/private/users/alice", "/private/common"
SPEC = "workload: script\ncode_path: /private/common/code/digits\nconvert:\n  images: reference.zip\n"
NOW = BEGAN + timedelta(minutes=2)


@pytest.fixture
def narrow(settings: Settings) -> Iterator[Container]:
    """A user may have one unfinished job."""
    made = assemble(settings.model_copy(update={"max_active_jobs_per_user": 1}))
    yield made
    made.close()


@pytest.fixture
def homes(database: Database, tmp_path: Path) -> Homes:
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    for user in ("alice", "bob"):
        made.files.create(user)
    (tmp_path / "homes/users/alice/models/net.onnx").write_bytes((SAMPLE / "digits.onnx").read_bytes())
    (tmp_path / "homes/common/datasets/digits.zip").write_bytes((SAMPLE / "reference.zip").read_bytes())
    return made


@pytest.fixture
def jobs(container: Container, homes: Homes) -> ResultConversions:
    return ResultConversions(container.conversion, homes)


def wanted(**other: object) -> ConversionRequest:
    usual: dict[str, object] = {
        "user": "alice",
        "task_id": TASK,
        "name": "digits",
        "model": f"{HOME}/models/net.onnx",
        "images": f"{COMMON}/datasets/digits.zip",
        "options": {},
    }
    return ConversionRequest(**{**usual, **other})  # type: ignore[arg-type]


def test_the_job_is_the_users_own_and_knows_the_task(container: Container, jobs: ResultConversions) -> None:
    job_id = jobs.convert(wanted(options={"quantization": {"method": "entropy"}}))
    record = container.conversion.jobs.get(job_id, "alice")
    assert (record.origin, record.owner, record.name) == (f"task:{TASK}", "alice", "digits")
    assert record.options.quantization.method == "entropy"
    assert record.intake["samples"]["samples"] == 100
    assert container.broker.position("onnx", job_id) == 0
    assert container.conversion.submissions.remembered(job_id, "alice").origin == f"task:{TASK}"


def test_nothing_but_the_job_stays_in_the_store(container: Container, jobs: ResultConversions) -> None:
    job_id = jobs.convert(wanted())
    assert {info.key for info in container.objects.list("")} == {
        object_keys.input_(job_id, object_keys.MODEL),
        object_keys.input_(job_id, object_keys.IMAGES),
        object_keys.request(job_id),
        object_keys.owned("alice", job_id),
    }


def test_a_job_of_that_id_is_the_one_that_is_wanted(
    container: Container, jobs: ResultConversions, homes: Homes
) -> None:
    job_id = "0e1f5a3c-6c1e-4f7e-9d55-3f4e6a7b8c9d"
    assert jobs.convert(wanted(job_id=job_id)) == job_id
    (homes.options.root / "users/alice/models/net.onnx").unlink()
    assert jobs.convert(wanted(job_id=job_id)) == job_id
    assert [record.job_id for record in container.store.newest(10)] == [job_id]


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        ({"options": {"bogus": 1}}, BadInput, "options.bogus"),
        ({"options": {"quantization": {"percentile": 7}}}, BadInput, "options.quantization.percentile"),
        ({"options": {"toolchain": "kneron", "platform": "720"}}, BadInput, "not installed here"),
        ({"name": "n" * 201}, BadInput, "name"),
        ({"model": f"{HOME}/models/none.onnx"}, FileMissing, "models/none.onnx"),
        ({"model": f"{COMMON}/datasets/digits.zip"}, NotOnnx, "ONNX"),
        ({"images": f"{HOME}/models"}, NoSamples, "no reference sample"),
        ({"images": "/private/users/bob/datasets/x.zip"}, PathRefused, "images: it must lie under"),
        ({"model": "/etc/passwd"}, PathRefused, "artifact: it must lie under"),
        ({"model": f"{HOME}/models/../../bob/net.onnx"}, PathRefused, "a part \\.\\."),
    ],
)
def test_what_conversion_refuses_is_said_and_leaves_nothing(
    container: Container, jobs: ResultConversions, other: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        jobs.convert(wanted(**other))
    assert list(container.objects.list("")) == []
    assert container.store.newest(10) == []


def test_a_link_out_of_the_home_is_not_followed(container: Container, jobs: ResultConversions, homes: Homes) -> None:
    (homes.options.root / "users/alice/models/out.onnx").symlink_to(SAMPLE / "digits.onnx")
    with pytest.raises(PathRefused, match="leads out"):
        jobs.convert(wanted(model=f"{HOME}/models/out.onnx"))


@pytest.mark.slow
def test_what_there_is_no_room_for_becomes_a_job_once_there_is(
    narrow: Container, homes: Homes, database: Database
) -> None:
    tasks = Tasks(TrainingOptions(is_on=True, homes_root="/private"), database, homes, lambda: None)
    results = Results(tasks, ResultConversions(narrow.conversion, homes), NoRegistry())
    task = finished_task(database, homes, SPEC)
    for name, there in (("model.onnx", "digits.onnx"), ("reference.zip", "reference.zip")):
        (folder_of(homes, "alice") / name).write_bytes((SAMPLE / there).read_bytes())
    first = results.converter.convert(wanted())
    with pytest.raises(TooManyJobs):
        results.convert("alice", TASK, artifact="model.onnx", images="reference.zip", now=NOW)
    results.convert_results(TASK, now=NOW)
    with database.read() as conn:
        (row,) = store.conversions_of(conn, TASK)
    assert row.problem.startswith("You have 1 unfinished jobs") and "Try again" in row.problem
    assert row.next_try_at is not None and row.next_try_at > to_text(NOW)
    narrow.conversion.jobs.cancel(first, "alice")
    assert results.due(now=NOW + timedelta(minutes=20)) == [TASK]
    results.convert_results(TASK, now=NOW + timedelta(minutes=20))
    with database.read() as conn:
        assert [made.job_id for made in store.conversions_of(conn, TASK)] == [job_id_of(task)]
    assert narrow.conversion.jobs.get(job_id_of(task), "alice").name == "model"


def keeping(container: Container, homes: Homes, database: Database) -> Results:
    tasks = Tasks(TrainingOptions(is_on=True, homes_root="/private"), database, homes, lambda: None)
    models = Models(database, container.objects, container.conversion)
    conversions = ResultConversions(container.conversion, homes)
    finished_task(database, homes, "workload: script\ncode_path: /private/common/code/digits\n")
    (folder_of(homes, "alice") / "net.onnx").write_bytes((SAMPLE / "digits.onnx").read_bytes())
    return Results(tasks, conversions, ResultModels(container.conversion, homes, lambda: models))


def test_a_model_is_registered_as_its_task_describes_it_and_the_next_one_is_its_next_version(
    container: Container, homes: Homes, database: Database
) -> None:
    results, models = keeping(container, homes, database), Models(database, container.objects, container.conversion)
    described = {"options": {"preprocess": {"color": "GRAY"}}, "decoder": "classifier", "labels": list("0123456789")}
    (folder_of(homes, "alice") / "conversion.json").write_text(json.dumps(described))
    assert results.register("alice", TASK, artifact="net.onnx", name="digits").version == 1
    card = models.get("alice", "digits").card
    assert (card.decoder, card.labels, card.preprocess["color"]) == ("classifier", tuple("0123456789"), "GRAY")
    with pytest.raises(ModelExists):
        results.register("alice", TASK, artifact="net.onnx", name="digits")
    assert results.register("alice", TASK, artifact="net.onnx", name="digits", is_next=True, note="x").version == 2
    assert [model.note for model in models.versions("alice", "digits")[0]] == ["x", f"Task {TASK}"]
    assert not list(container.objects.list("uploads/"))


@pytest.mark.parametrize(
    ("described", "words"), [({"decoder": "none"}, "decoder"), ({"options": {"preprocess": {"scale": "x"}}}, "scale")]
)
def test_what_the_registry_refuses_of_a_description_is_said(
    container: Container, homes: Homes, database: Database, described: dict[str, object], words: str
) -> None:
    results = keeping(container, homes, database)
    (folder_of(homes, "alice") / "conversion.json").write_text(json.dumps(described))
    with pytest.raises(BadInput, match=words):
        results.register("alice", TASK, artifact="net.onnx", name="digits")
    (folder_of(homes, "alice") / "conversion.json").unlink()
    with pytest.raises(FileMissing):
        results.register("alice", TASK, artifact="none.onnx", name="digits")
    assert not list(container.objects.list("uploads/"))
