"""Uploaded files on their way into the store: one zip as it is, many files packed while they stream by."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
import pytest

from app.conversion.errors import ModelTooLarge, NoSamples, NotOnnx, SamplesTooLarge
from app.conversion.intake.entries import is_npz
from app.conversion.service.uploads import FileStart, Uploads
from app.kit.errors import BadRequest
from app.kit.objects import ObjectMissing
from app.kit.objects.filesystem import FilesystemStore
from app.kit.sandbox.runner import Sandbox
from app.kit.web.zip_stream import zip_stream
from app.settings import Settings
from tests.harness.models import small

MIB = 1 << 20
Part = FileStart | bytes


@pytest.fixture
def uploads(tmp_path: Path, sandbox: Sandbox) -> Uploads:
    limited = Settings(data_dir=tmp_path, max_model_bytes=1000, max_images_bytes=64 * MIB)
    return Uploads(limited, FilesystemStore(tmp_path / "objects", public_url="http://here", secret="secret"), sandbox)


def parts_of(files: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[Part]:
    for name, chunks in files:
        yield FileStart(name)
        yield from chunks


def packed(uploads: Uploads, parts: Iterable[Part]) -> zipfile.ZipFile:
    stored = uploads.store_pictures(uploads.begin("somebody"), parts)
    return zipfile.ZipFile(io.BytesIO(b"".join(uploads.objects.read(stored.key))))


def test_many_files_become_a_zip_of_their_names_and_bytes(uploads: Uploads) -> None:
    files = {"a.png": b"first", "b c.jpg": b"", "圖片.npy": b"third" * 1000}
    with packed(uploads, parts_of((name, [data[:3], data[3:]]) for name, data in files.items())) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == files
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def test_the_same_files_make_the_same_zip(uploads: Uploads) -> None:
    digests = {
        uploads.store_pictures(uploads.begin("somebody"), parts_of([("a.png", [b"x"]), ("b.png", [b"y"])])).sha256
        for _ in range(2)
    }
    assert len(digests) == 1


def test_a_name_that_comes_again_is_numbered(uploads: Uploads) -> None:
    names = ["1.png", "1.png", "1 (2).png", "1.png", "plain", "plain", ".png", ".png"]
    with packed(uploads, parts_of((name, [str(index).encode()]) for index, name in enumerate(names))) as archive:
        contents = [archive.read(info) for info in archive.infolist()]
        assert len(set(archive.namelist())) == len(names)
        assert archive.namelist()[:4] == ["1.png", "1 (2).png", "1 (2) (2).png", "1 (3).png"]
    assert contents == [str(index).encode() for index in range(len(names))]


def test_arrays_that_are_packed_here_are_not_taken_for_one_npz(uploads: Uploads) -> None:
    with packed(uploads, parts_of([("a.npy", [b"x"]), ("b.npy", [b"y"])])) as archive:
        assert not is_npz(archive.infolist())


def test_packing_holds_no_file_in_memory(uploads: Uploads) -> None:
    chunk = bytes(MIB)
    tracemalloc.start()
    try:
        uploads.store_pictures(uploads.begin("somebody"), parts_of([("a.png", [chunk] * 30), ("b.png", [chunk] * 30)]))
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


def test_one_zip_is_kept_as_it_is(uploads: Uploads) -> None:
    stored = uploads.store_pictures(uploads.begin("somebody"), [FileStart("Pictures.ZIP"), b"PK", b"anything"])
    assert b"".join(uploads.objects.read(stored.key)) == b"PKanything"


def test_a_zip_among_other_files_is_refused_if_it_comes_first(uploads: Uploads) -> None:
    with pytest.raises(BadRequest, match="one zip or many single files"):
        uploads.store_pictures(uploads.begin("somebody"), [FileStart("a.zip"), b"PK", FileStart("b.png"), b"x"])


def test_no_file_at_all_is_refused(uploads: Uploads) -> None:
    with pytest.raises(NoSamples):
        uploads.store_pictures(uploads.begin("somebody"), [])


def test_what_is_over_the_limit_is_refused_with_the_limit_and_not_kept(uploads: Uploads) -> None:
    upload_id = uploads.begin("somebody")
    with pytest.raises(ModelTooLarge, match="1000 bytes"):
        uploads.store_model(upload_id, [b"x" * 600] * 2)
    with pytest.raises(SamplesTooLarge, match=f"{64 * MIB} bytes"):
        uploads.store_pictures(upload_id, parts_of([("a.png", [bytes(MIB)] * 65)]))
    assert [info.key for info in uploads.objects.list("")] == [f"uploads/{upload_id}/upload.json"]


def test_an_upload_knows_its_owner_until_it_is_discarded(uploads: Uploads) -> None:
    upload_id = uploads.begin("somebody")
    uploads.store_model(upload_id, [b"x"])
    assert uploads.owner(upload_id) == "somebody"
    uploads.discard(upload_id)
    assert list(uploads.objects.list("")) == []
    with pytest.raises(ObjectMissing):
        uploads.owner(upload_id)


@pytest.fixture
def roomy(tmp_path: Path, sandbox: Sandbox) -> Uploads:
    objects = FilesystemStore(tmp_path / "objects", public_url="http://here", secret="secret")
    return Uploads(Settings(data_dir=tmp_path), objects, sandbox)


def weights_inside(uploads: Uploads, key: str) -> bool:
    model = onnx.load_from_string(b"".join(uploads.objects.read(key)))
    return model.graph.initializer[0].raw_data == small.conv().graph.initializer[0].raw_data


@pytest.mark.slow
def test_a_model_and_the_file_of_its_weights_become_one_model(roomy: Uploads, tmp_path: Path) -> None:
    graph, weights = small.split(tmp_path)
    upload_id = roomy.begin("somebody")
    key = roomy.store_model(upload_id, [graph]).key
    assert roomy.places(upload_id) == ["model.onnx.data"]
    roomy.store_weights(upload_id, [FileStart("model.onnx.data"), weights[:50], weights[50:]])
    merged = roomy.merge(upload_id)
    assert merged is not None and merged.key == key and weights_inside(roomy, key)
    assert [info.key.rpartition("/")[2] for info in roomy.objects.list(f"uploads/{upload_id}/")] == [
        "model.onnx",
        "upload.json",
    ]
    assert roomy.merge(upload_id) is None and roomy.places(upload_id) == []


@pytest.mark.slow
def test_a_zip_of_a_model_becomes_the_model_and_another_zip_stays(roomy: Uploads, tmp_path: Path) -> None:
    graph, weights = small.split(tmp_path)
    for files, is_merged in (
        ([("net.onnx", [graph]), ("model.onnx.data", [weights])], True),
        ([("archive/data.pkl", [b"torch"])], False),
    ):
        upload_id = roomy.begin("somebody")
        key = roomy.store_model(upload_id, zip_stream(files)).key
        assert (roomy.merge(upload_id) is not None) is is_merged
        assert (b"".join(roomy.objects.read(key, end=2)) == b"PK") is not is_merged


@pytest.mark.slow
def test_weights_are_limited_as_models_are_and_leave_no_folder(uploads: Uploads, tmp_path: Path) -> None:
    upload_id = uploads.begin("somebody")
    uploads.store_model(upload_id, [b"x"])
    with pytest.raises(ModelTooLarge):
        uploads.store_weights(upload_id, [FileStart("w.data"), bytes(2000)])
    uploads.store_weights(upload_id, [FileStart("w.data"), bytes(10)])
    with pytest.raises(NotOnnx):
        uploads.merge(upload_id)
    assert not list((tmp_path / "work").iterdir())
