"""What only the folder store can suffer: links planted in it, a full disk, dead writers, other hands."""

from __future__ import annotations

import errno
import gc
import os
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.kit.objects import FilesystemOptions, ObjectMissing, StoreFull, StoreRefused, StoreUnavailable, open_store
from app.kit.objects import folder as folder_module
from app.kit.objects.filesystem import FilesystemStore
from app.kit.objects.signed_urls import verify


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data" / "objects"


@pytest.fixture
def store(root: Path) -> FilesystemStore:
    return FilesystemStore(root, public_url="http://mill:8000/", secret="s3cret")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "b.bin").write_bytes(b"private")
    (folder / "b.json").write_bytes(b"{}")
    return folder


def drafts(root: Path) -> list[Path]:
    return list((root / "drafts").iterdir())


def test_a_linked_folder_leads_nowhere(store: FilesystemStore, root: Path, outside: Path, tmp_path: Path) -> None:
    (root / "objects" / "a.d").symlink_to(outside)
    for call in (
        lambda: store.read("a/b"),
        lambda: store.info("a/b"),
        lambda: store.get_file("a/b", tmp_path / "f"),
        lambda: store.put("a/b", [b"overwritten"]),
        lambda: store.put("a/new", [b"x"]),
        lambda: store.copy("a/b", "c"),
        lambda: store.delete("a/b"),
        lambda: list(store.list("a/")),
        lambda: list(store.list("")),
    ):
        with pytest.raises(StoreRefused, match="not ours"):
            call()
    assert (outside / "b.bin").read_bytes() == b"private"
    assert sorted(p.name for p in outside.iterdir()) == ["b.bin", "b.json"]
    assert drafts(root) == []


def test_a_linked_payload_is_not_read_and_not_written_through(
    store: FilesystemStore, root: Path, outside: Path, tmp_path: Path
) -> None:
    (root / "objects" / "b.bin").symlink_to(outside / "b.bin")
    for call in (lambda: store.read("b"), lambda: store.get_file("b", tmp_path / "f"), lambda: store.copy("b", "c")):
        with pytest.raises(StoreRefused, match="not ours"):
            call()
    store.put("b", [b"mine"])
    assert b"".join(store.read("b")) == b"mine"
    assert (outside / "b.bin").read_bytes() == b"private"


def test_linked_metadata_is_not_followed(store: FilesystemStore, root: Path, outside: Path) -> None:
    store.put("b", [b"x"])
    (root / "objects" / "b.json").unlink()
    (root / "objects" / "b.json").symlink_to(outside / "b.json")
    with pytest.raises(StoreRefused):
        store.info("b")


def test_a_pipe_in_place_of_an_object_does_not_hang(store: FilesystemStore, root: Path) -> None:
    os.mkfifo(root / "objects" / "p.bin")
    with pytest.raises(StoreRefused):
        store.read("p")


def test_linked_drafts_are_refused(store: FilesystemStore, root: Path, outside: Path) -> None:
    (root / "drafts").rmdir()
    (root / "drafts").symlink_to(outside)
    with pytest.raises(StoreRefused):
        store.put("a", [b"x"])


def test_other_files_in_the_folder_are_no_objects(store: FilesystemStore, root: Path) -> None:
    store.put("a", [b"x"])
    (root / "objects" / "README").write_text("hello")
    (root / "objects" / "orphan.json").write_text("{}")
    assert [info.key for info in store.list("")] == ["a"]


def test_a_full_device_is_a_full_store() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(StoreFull, match="No space left"):
            folder_module.write_all(fd, b"x")
    finally:
        os.close(fd)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((StoreRefused, StoreUnavailable)):
        FilesystemStore(tmp_path / "file" / "store")


def test_a_folder_that_was_taken_away_is_unavailable(store: FilesystemStore, root: Path) -> None:
    root.rename(root.with_name("elsewhere"))
    for call in (store.check, lambda: store.put("a", [b"x"]), lambda: store.info("a")):
        with pytest.raises(StoreUnavailable):
            call()


def test_objects_are_read_only(store: FilesystemStore, root: Path) -> None:
    store.put("a", [b"x"])
    assert (root / "objects" / "a.bin").stat().st_mode & 0o222 == 0


@pytest.mark.parametrize("user", [0, 1000])
def test_whoever_gets_a_file_cannot_change_the_object(
    store: FilesystemStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    store.put("a", [b"x"])
    monkeypatch.setattr(os, "geteuid", lambda: user)
    for _ in range(2):
        store.get_file("a", tmp_path / "own")
    (tmp_path / "own").chmod(0o600)  # its owner may, also if the object is read-only
    (tmp_path / "own").write_bytes(b"scribbled")
    assert b"".join(store.read("a")) == b"x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "own"]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_links_do_not_work_bytes_are_copied(
    store: FilesystemStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(code, "no links here")

    def no_range(*args: object) -> int:
        raise OSError(errno.EXDEV, "not across devices")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "copy_file_range", no_range)
    store.put("a", [b"hello"])
    store.copy("a", "b")
    store.get_file("b", tmp_path / "f")
    store.put_file("c", tmp_path / "f")
    assert b"".join(store.read("c")) == b"hello"
    assert drafts(root) == []


def test_an_object_whose_metadata_was_lost_is_still_there(store: FilesystemStore, root: Path) -> None:
    for name, damage in (("a", None), ("b", b"{"), ("c", b'{"size_bytes": 99}'), ("d", b"[]")):
        store.put(name, [b"hello"], content_type="text/plain")
        sidecar = root / "objects" / f"{name}.json"
        sidecar.unlink()
        if damage is not None:
            sidecar.write_bytes(damage)
        info = store.info(name)
        assert (info.size_bytes, info.content_type) == (5, "application/octet-stream")
        assert info.etag
        assert store.copy(name, name + "2").size_bytes == 5
        store.delete(name)


def test_drafts_of_dead_writers_are_swept_after_a_day(store: FilesystemStore, root: Path) -> None:
    old, young = root / "drafts" / "old", root / "drafts" / "young"
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 25 * 3600,) * 2)
    FilesystemStore(root)
    assert [path.name for path in drafts(root)] == ["young"]


def test_emptied_folders_disappear(store: FilesystemStore, root: Path) -> None:
    store.put("jobs/1/out.nef", [b"x"])
    store.put("jobs/2/out.nef", [b"x"])
    store.delete("jobs/1/out.nef")
    assert [p.name for p in (root / "objects" / "jobs.d").iterdir()] == ["2.d"]
    store.delete_prefix("jobs/")
    assert list((root / "objects").iterdir()) == []


def test_readers_dropped_half_way_keep_no_file_open(store: FilesystemStore) -> None:
    store.put("a", [b"x" * 100])
    gc.collect()  # files of tests before this one
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        store.read("a")
        next(iter(store.read("a", chunk_bytes=10)))
        list(store.read("a"))
        next(store.list(""))
    with pytest.raises(ObjectMissing):
        store.info("a/b/c")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_links_are_honoured_by_the_signature_of_this_installation(root: Path) -> None:
    store = open_store(FilesystemOptions(root, "http://mill:8000", "s3cret"))
    url = urlsplit(store.presign_get("a/模型", expires_s=60, download_name="模型.nef"))
    query = parse_qs(url.query)
    assert (url.netloc, url.path) == ("mill:8000", "/objects/a/%E6%A8%A1%E5%9E%8B")
    assert query["name"] == ["模型.nef"]
    verify("s3cret", "GET", "a/模型", query["expires"][0], query["signature"][0], time.time(), download_name="模型.nef")


def test_options_do_not_show_the_secret(root: Path) -> None:
    assert "s3cret" not in repr(FilesystemOptions(root, "http://mill", "s3cret"))
