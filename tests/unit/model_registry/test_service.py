"""Models by name: of jobs, brought, looked for; what is refused, and what stays in the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import onnx
import pytest

from app.bootstrap.container import Container, assemble
from app.conversion.errors import ArtifactNotReady, JobNotFound, ModelTooLarge
from app.conversion.model import JobRecord, Status
from app.conversion.options import Chip, Options, Preprocess, ToolchainName
from app.inference.model_card import Format
from app.inference.prediction import Decoder
from app.kit.errors import BadInput
from app.kit.objects import StoreUnavailable
from app.kit.objects.blobs import blob_key
from app.kit.objects.timed import TimedStore
from app.model_registry.errors import BadLabels, BadModelName, ModelExists, ModelInUse, ModelNotFound
from app.model_registry.model import MAX_LABELS, Usage
from app.model_registry.service import Model, Models
from app.settings import Settings
from tests.harness.api import small_model
from tests.harness.conversion_jobs import FACTS, finished_job
from tests.harness.models import host as host_models

NOW = datetime(2026, 11, 21, tzinfo=UTC)
KNERON = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720, preprocess=Preprocess(color="BGR", scale=1.0))


@pytest.fixture
def narrow(settings: Settings) -> Iterator[Container]:
    """Takes models of at most 64 bytes."""
    made = assemble(settings.model_copy(update={"max_model_bytes": 64}))
    yield made
    made.close()


@pytest.fixture
def models(container: Container) -> Models:
    return container.models


def add(models: Models, record: JobRecord, name: str = "m", made: Format = Format.NEF, **other: object) -> Model:
    return models.add_from_job(record.owner, name, record.job_id, made, now=NOW, **other)  # type: ignore[arg-type]


def blobs(models: Models) -> set[str]:
    return {info.key.removeprefix("blobs/") for info in models.objects.list("blobs/")}


def uploads(models: Models) -> list[str]:
    return [info.key for info in models.objects.list("uploads/")]


class Away(TimedStore):
    """A store that no longer answers what is named."""

    def __init__(self, container: Container, *verbs: str) -> None:
        super().__init__(container.objects)
        for verb in verbs:
            setattr(self, verb, self._away)

    def _away(self, *_: object, **__: object) -> None:
        raise StoreUnavailable("The store does not answer.")


def without_store(container: Container, *verbs: str) -> Models:
    return Models(container.database, Away(container, *verbs), container.conversion)


# --- of a job ---------------------------------------------------------------------------------------------
def test_a_nef_brings_its_onnx_along_and_says_how_it_was_made(container: Container, models: Models) -> None:
    record = finished_job(container, "alice", options=KNERON)
    model = add(models, record, decoder=Decoder.YUNET, labels=[" face ", "mask"])
    card, own, twin = model.card, record.artifacts["out.nef"], record.artifacts["out.onnx"]
    assert (card.format, card.toolchain, card.sha256, card.size_bytes) == ("nef", "kneron", own.sha256, own.size_bytes)
    assert (card.twin_sha256, card.twin_size_bytes) == (twin.sha256, twin.size_bytes)
    assert card.preprocess == KNERON.preprocess.to_json()
    assert (card.decoder, card.labels) == (Decoder.YUNET, ("face", "mask"))
    assert model.facts == {key: FACTS[key] for key in ("inputs", "outputs", "parameters", "macs")}
    assert (model.job_id, model.owner) == (record.job_id, "alice")
    assert models.get("alice", "m") == model
    assert blobs(models) == {own.sha256, twin.sha256}
    assert b"".join(models.objects.read(blob_key(own.sha256))) == f"nef {record.job_id}".encode()


def test_an_onnx_of_a_job_is_its_own_twin(container: Container, models: Models) -> None:
    card = add(models, finished_job(container, "alice"), made=Format.ONNX).card
    assert (card.twin_sha256, card.twin_size_bytes, card.toolchain) == ("", 0, "host")
    assert blobs(models) == {card.sha256}


def test_the_model_outlives_its_job(container: Container, models: Models) -> None:
    record = finished_job(container, "alice")
    model = add(models, record)
    container.conversion.jobs.delete(record.job_id, "alice")
    assert models.get("alice", "m").card == model.card
    assert b"".join(models.objects.read(blob_key(model.card.sha256))).startswith(b"nef")


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\nb", "a\0", "x" * 201, "\ud800"])
def test_such_a_name_cannot_be_chosen(container: Container, models: Models, name: str) -> None:
    with pytest.raises(BadModelName):
        add(models, finished_job(container, "alice"), name)
    assert not blobs(models)


@pytest.mark.parametrize("labels", [["a"] * (MAX_LABELS + 1), ["a", ""], ["x" * 101], ["a\nb"]])
def test_such_labels_are_refused(container: Container, models: Models, labels: list[str]) -> None:
    with pytest.raises(BadLabels):
        add(models, finished_job(container, "alice"), labels=labels)
    with pytest.raises(BadLabels):
        models.add_upload("alice", "m", [b"nothing is read of it"], now=NOW, labels=labels)


def test_a_thousand_labels_are_kept_in_order(container: Container, models: Models) -> None:
    add(models, finished_job(container, "alice"), labels=[f"class {n}" for n in range(MAX_LABELS)])
    assert models.get("alice", "m").card.labels[-1] == f"class {MAX_LABELS - 1}"


def test_a_job_that_is_unknown_or_anothers_is_no_job(container: Container, models: Models) -> None:
    hers = finished_job(container, "alice")
    for job_id in ("no-id", "00000000-0000-4000-8000-000000000000", hers.job_id):
        with pytest.raises(JobNotFound):
            models.add_from_job("mallory", "m", job_id, Format.NEF, now=NOW)


@pytest.mark.parametrize("status", [Status.FAILED, Status.NEF])
def test_a_job_that_has_not_completed_gives_no_model(container: Container, models: Models, status: Status) -> None:
    with pytest.raises(ArtifactNotReady, match=f"is {status}"):
        add(models, finished_job(container, "alice", status=status))
    assert not blobs(models)


def test_what_a_job_did_not_make_is_no_model(container: Container, models: Models) -> None:
    with pytest.raises(ArtifactNotReady, match=r"out\.bie"):
        add(models, finished_job(container, "alice", without="out.bie"), made=Format.BIE)


def test_files_that_are_gone_or_cut_off_are_said(container: Container, models: Models) -> None:
    gone, cut = finished_job(container, "alice"), finished_job(container, "alice")
    container.objects.delete(gone.artifacts["out.onnx"].key)
    container.objects.put(cut.artifacts["out.nef"].key, [b"half"])
    for record in (gone, cut):
        with pytest.raises(ArtifactNotReady, match="no longer there"):
            add(models, record)
    assert not blobs(models)
    with pytest.raises(ModelNotFound):
        models.get("alice", "m")


def test_a_name_is_taken_once_by_each_user(container: Container, models: Models) -> None:
    first = add(models, finished_job(container, "alice"))
    other = finished_job(container, "alice")
    with pytest.raises(ModelExists):
        add(models, other)
    assert blobs(models) == {first.card.sha256, first.card.twin_sha256}
    assert add(models, finished_job(container, "bob")).owner == "bob"


# --- brought ----------------------------------------------------------------------------------------------
def test_an_onnx_that_its_user_brings_is_looked_at_and_kept(models: Models) -> None:
    content = small_model()
    model = models.add_upload("alice", " big ", [content[:99], content[99:]], now=NOW, preprocess=Preprocess(scale=1))
    card = model.card
    assert (card.name, card.format, card.toolchain, card.twin_sha256, model.job_id) == ("big", "onnx", "", "", "")
    assert card.preprocess["scale"] == 1
    assert model.facts["inputs"][0]["shape"] == [1, 3, 16, 16]
    assert b"".join(models.objects.read(blob_key(card.sha256))) == content
    assert not uploads(models)


def test_an_open_shape_is_no_hindrance_to_running(models: Models) -> None:
    weights = {"w": host_models.random_weights(6, 5)}
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "m")]
    open_model = host_models.model_of(nodes, {"x": ["batch", "length", 6]}, {"y": ["batch", "length", 5]}, weights)
    model = models.add_upload("alice", "text", [open_model.SerializeToString()], now=NOW)
    assert model.facts["inputs"][0]["shape"] == ["batch", "length", 6]
    assert model.card.preprocess == {}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"GIF89a no model", "MODEL_NOT_ONNX"),
        (b"", "MODEL_NOT_ONNX"),
        (small_model()[:-200], "MODEL_TRUNCATED"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "MODEL_IS_LFS_POINTER"),
    ],
)
def test_what_is_no_onnx_is_refused_and_not_kept(models: Models, content: bytes, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        models.add_upload("alice", "m", [content], now=NOW)
    assert caught.value.code == code
    assert not uploads(models) and not blobs(models)
    assert models.page("alice") == ([], None)


def test_a_model_that_is_too_large_is_refused_and_not_kept(narrow: Container) -> None:
    models = narrow.models
    with pytest.raises(ModelTooLarge):
        models.add_upload("alice", "m", [b"x" * 40, b"x" * 40], now=NOW)
    assert not uploads(models) and not blobs(models)


def test_a_taken_name_is_said_before_anything_is_read(models: Models) -> None:
    models.add_upload("alice", "m", [small_model()], now=NOW)

    def chunks() -> Iterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    with pytest.raises(ModelExists):
        models.add_upload("alice", "m", chunks(), now=NOW)


def test_what_was_received_is_gone_when_its_name_is_refused(models: Models) -> None:
    brought = models.imports.receive("alice", [small_model()])
    with pytest.raises(BadModelName):
        models.add_received("alice", "a/b", brought, now=NOW)
    assert not uploads(models) and not blobs(models)


# --- the end of one ---------------------------------------------------------------------------------------
def test_files_stay_as_long_as_somebodys_model_names_them(container: Container, models: Models) -> None:
    hers, his = finished_job(container, "alice", mark="same"), finished_job(container, "bob", mark="same")
    nef = add(models, hers).card
    add(models, his, made=Format.ONNX)
    models.remove("alice", "m")
    assert blobs(models) == {nef.twin_sha256}
    models.remove("bob", "m")
    assert not blobs(models)


def test_one_that_is_used_stays_and_says_by_what(container: Container) -> None:
    users = [Usage("service", f"default/s{number}", "alice") for number in range(7)]
    models = Models(
        container.database, container.objects, container.conversion, lambda use: users if use.has("alice", "m") else ()
    )
    add(models, finished_job(container, "alice"))
    with pytest.raises(ModelInUse, match=r"'m' is used by service default/s0, .*s4 and 2 more") as caught:
        models.remove("alice", "m")
    assert caught.value.detail["used_by"] == [f"service default/s{number}" for number in range(7)]
    assert models.get("alice", "m")
    users.clear()
    models.remove("alice", "m")


def test_what_is_not_there_or_anothers_cannot_be_removed(container: Container, models: Models) -> None:
    add(models, finished_job(container, "alice"))
    for user, name in (("alice", "other"), ("mallory", "m"), ("alice", "a\0b"), ("alice", "")):
        for verb in (models.remove, models.get):
            with pytest.raises(ModelNotFound):
                verb(user, name)
    assert models.get("alice", "m")


def test_while_the_store_is_away_nothing_is_half_done(container: Container, models: Models) -> None:
    record = finished_job(container, "alice")
    for verbs in (("copy",), ("info",)):
        with pytest.raises(StoreUnavailable):
            add(without_store(container, *verbs), record)
        assert models.page("alice") == ([], None) and not blobs(models)
    add(models, record)
    with pytest.raises(StoreUnavailable):
        without_store(container, "delete").remove("alice", "m")
    assert models.get("alice", "m")
    models.remove("alice", "m")
    assert not blobs(models)


# --- looked for -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("suffix", "made"), [("", "nef"), ("/out.nef", "nef"), ("/out.bie", "bie"), ("/out.onnx", "onnx")]
)
def test_a_completed_job_is_found_by_name_and_by_id_and_stays(
    container: Container, models: Models, suffix: str, made: str
) -> None:
    record = finished_job(container, "alice", "my faces / v2")
    for job in (record.name, record.job_id):
        model = models.find("alice", job + suffix, now=NOW)
        assert model is not None
        assert (model.name, model.card.format, model.job_id) == (job + suffix, made, record.job_id)
        assert model.card.sha256 == record.artifacts[f"out.{made}"].sha256
    container.conversion.jobs.delete(record.job_id, "alice")
    assert models.find("alice", record.name + suffix, now=NOW + timedelta(days=9)) is not None
    assert len(models.page("alice")[0]) == 2


@pytest.mark.slow
def test_the_newest_completed_job_of_exactly_that_name_wins(container: Container, models: Models) -> None:
    finished_job(container, "alice", "faces", minute=1)
    newest = finished_job(container, "alice", "faces", minute=2)
    finished_job(container, "alice", "Faces", minute=3)
    finished_job(container, "alice", "faces and more", minute=4)
    finished_job(container, "alice", "faces", minute=5, status=Status.FAILED)
    finished_job(container, "bob", "faces", minute=6)
    for number in range(60):
        finished_job(container, "alice", f"other faces {number}", minute=10 + number)
    model = models.find("alice", "faces", now=NOW)
    assert model is not None and model.job_id == newest.job_id


def test_a_job_whose_name_ends_like_a_file_is_found_too(container: Container, models: Models) -> None:
    record = finished_job(container, "alice", "odd/out.onnx")
    model = models.find("alice", "odd/out.onnx", now=NOW)
    assert model is not None and (model.job_id, model.card.format) == (record.job_id, "nef")


def test_a_registered_name_comes_before_a_job_of_that_name(container: Container, models: Models) -> None:
    chosen = add(models, finished_job(container, "alice", "other"), "faces", Format.ONNX)
    finished_job(container, "alice", "faces", minute=9)
    assert models.find("alice", "faces", now=NOW) == chosen


def test_what_no_completed_job_made_is_not_found(container: Container, models: Models) -> None:
    hers = finished_job(container, "bob")
    failed = finished_job(container, "alice", "failed", status=Status.FAILED)
    finished_job(container, "alice", "half", without="out.bie")
    gone = finished_job(container, "alice", "gone")
    container.objects.delete(gone.artifacts["out.nef"].key)
    names = [
        "faces",
        hers.job_id,
        "failed",
        failed.job_id,
        "half/out.bie",
        "gone",
        "gone/",
        "/out.nef",
        "",
        "a\0",
        "x" * 300,
        " gone",
    ]
    assert [models.find("alice", name, now=NOW) for name in names] == [None] * len(names)
    assert models.page("alice") == ([], None)
