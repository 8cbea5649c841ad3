"""Uploads that go on where they broke off: whose they are, what they may be, what becomes of a whole one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from app.conversion.errors import ModelTooLarge, NotOnnx, SamplesTooLarge
from app.conversion.service.resumable_uploads import ResumableUpload, ResumableUploads
from app.conversion.service.uploads import Uploads
from app.kit.errors import BadRequest, NotFound
from app.kit.objects.filesystem import FilesystemStore
from app.kit.sandbox.runner import Sandbox
from app.kit.web.body_limits import TooManyUploads
from app.kit.web.tus import Checksum, WrongChecksum, WrongOffset
from app.kit.web.zip_stream import zip_stream
from app.settings import Settings
from tests.harness.models import small


@pytest.fixture
def uploads(tmp_path: Path, sandbox: Sandbox) -> ResumableUploads:
    settings = Settings(data_dir=tmp_path, max_model_bytes=10_000, max_images_bytes=200, uploads_unfinished_per_user=2)
    return ResumableUploads(Uploads(settings, FilesystemStore(tmp_path / "objects"), sandbox))


def keys(uploads: ResumableUploads) -> list[str]:
    return [info.key for info in uploads.objects.list("")]


def broken(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise ConnectionError


def state(uploads: ResumableUploads, upload: ResumableUpload) -> ResumableUpload:
    return uploads.get(upload.upload_id, "alice")


def test_a_broken_upload_goes_on_and_becomes_the_input(uploads: ResumableUploads) -> None:
    upload = uploads.begin("alice", "images", "a.zip", 6)
    with pytest.raises(ConnectionError):
        uploads.append(upload, 0, broken(b"PK", b"3"))
    upload = state(uploads, upload)
    assert (upload.offset, upload.key) == (3, "")
    assert uploads.append(upload, 3, iter([b"456"])) == 6
    whole = state(uploads, upload)
    assert (whole.offset, whole.key) == (6, f"uploads/{upload.upload_id}/quant.zip")
    assert b"".join(uploads.objects.read(whole.key)) == b"PK3456"
    assert not any("parts" in key or key.startswith("uploading/") for key in keys(uploads))
    assert state(uploads, upload) == whole or state(uploads, upload).key == whole.key


def test_a_part_that_begins_elsewhere_is_refused_and_nothing_of_it_kept(uploads: ResumableUploads) -> None:
    upload = uploads.begin("alice", "images", "a.zip", 6)
    for offset in (1, 6):
        with pytest.raises(WrongOffset) as refused:
            uploads.append(upload, offset, iter([b"x"]))
        assert refused.value.detail == {"offset": 0}
    uploads.append(upload, 0, iter([b"123456"]))
    with pytest.raises(WrongOffset):
        uploads.append(state(uploads, upload), 6, iter([b"x"]))


def test_more_than_was_announced_is_refused(uploads: ResumableUploads) -> None:
    upload = uploads.begin("alice", "images", "a.zip", 6)
    with pytest.raises(BadRequest, match="More bytes"):
        uploads.append(upload, 0, iter([b"1234", b"567"]))
    assert state(uploads, upload).offset == 4


def test_another_users_upload_is_not_there(uploads: ResumableUploads) -> None:
    upload = uploads.begin("alice", "images", "a.zip", 6)
    for verb in (uploads.get, uploads.check, uploads.discard):
        for upload_id in (upload.upload_id, str(uuid4()), "../etc"):
            with pytest.raises(NotFound):
                verb(upload_id, "mallory")
    assert state(uploads, upload).length == 6


@pytest.mark.parametrize(
    ("field", "length", "error"),
    [
        ("weights", 5, BadRequest),
        ("", 5, BadRequest),
        ("images", 0, BadRequest),
        ("images", 201, SamplesTooLarge),
        ("model", 10_001, ModelTooLarge),
    ],
)
def test_what_cannot_become_an_input_is_refused_at_once(
    uploads: ResumableUploads, field: str, length: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        uploads.begin("alice", field, "x", length)
    assert keys(uploads) == []


def test_one_user_has_so_many_unfinished_ones(uploads: ResumableUploads) -> None:
    first, _ = (uploads.begin("alice", "images", "a.zip", 6) for _ in range(2))
    with pytest.raises(TooManyUploads, match="2 uploads of yours are unfinished"):
        uploads.begin("alice", "images", "a.zip", 6)
    uploads.begin("bob", "images", "a.zip", 6)
    uploads.discard(first.upload_id, "alice")
    second = uploads.begin("alice", "images", "a.zip", 6)
    uploads.append(second, 0, iter([b"123456"]))
    state(uploads, second)
    uploads.begin("alice", "images", "a.zip", 6)


def test_a_part_of_another_checksum_or_that_breaks_off_is_not_kept(uploads: ResumableUploads) -> None:
    upload = uploads.begin("alice", "images", "a.zip", 6)
    checksum = Checksum("sha256", hashlib.sha256(b"abc").digest())
    with pytest.raises(WrongChecksum):
        uploads.append(upload, 0, iter([b"abd"]), checksum)
    with pytest.raises(ConnectionError):
        uploads.append(upload, 0, broken(b"a"), checksum)
    assert state(uploads, upload).offset == 0
    assert uploads.append(upload, 0, iter([b"a", b"bc"]), checksum) == 3


def test_a_zip_of_a_model_and_its_weights_becomes_the_model(uploads: ResumableUploads, tmp_path: Path) -> None:
    graph, weights = small.split(tmp_path)
    data = b"".join(zip_stream([("net.onnx", [graph]), ("model.onnx.data", [weights])]))
    upload = uploads.begin("alice", "model", "net.zip", len(data))
    uploads.append(upload, 0, iter([data]))
    assert b"".join(uploads.objects.read(state(uploads, upload).key, end=2)) != b"PK"


def test_a_model_that_cannot_be_put_together_is_deleted_and_told(uploads: ResumableUploads) -> None:
    data = b"".join(zip_stream([("a.onnx", [b"no model"]), ("w.data", [b"x"])]))
    upload = uploads.begin("alice", "model", "net.zip", len(data))
    uploads.append(upload, 0, iter([data]))
    with pytest.raises(NotOnnx):
        state(uploads, upload)
    assert keys(uploads) == []
