"""What every object store must do: one suite over the folder and a real S3 server."""

from __future__ import annotations

import hashlib
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.kit.errors import BadInput, TooLarge
from app.kit.objects import BadKey, ObjectMissing, ObjectStore
from app.kit.objects.filesystem import FilesystemStore
from app.kit.objects.s3 import S3Store
from tests.harness.variants import exhaustive

MIB = 1 << 20


class Broken(Exception):
    pass


class Killed(BaseException):
    """Like dramatiq's Interrupt: no Exception."""


@pytest.fixture(params=["filesystem", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "filesystem":
        return FilesystemStore(tmp_path / "store", public_url="http://mill.example:8000", secret="s3cret")
    made: ObjectStore = request.getfixturevalue("s3_store")()
    return made


def content(store: ObjectStore, key: str) -> bytes:
    return b"".join(store.read(key))


def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [info.key for info in store.list(prefix)]


def megabytes(count: int) -> Iterable[bytes]:
    return (bytes([i % 251]) * MIB for i in range(count))


def leftovers(store: ObjectStore, at: str) -> list[object]:
    """Objects, drafts and parts under this prefix."""
    left: list[object] = [*keys(store, at)]
    if isinstance(store, FilesystemStore):
        return [*left, *(store._folder.root / "drafts").iterdir()]
    assert isinstance(store, S3Store)
    uploads = store._client._list_multipart_uploads(store._bucket.name, prefix=at)
    return [*left, *uploads.uploads]


def test_what_was_put_is_read_back(store: ObjectStore, at: str) -> None:
    stored = store.put(at + "a", [b"hello ", b"", b"world"], content_type="text/plain")
    assert (stored.key, stored.size_bytes) == (at + "a", 11)
    assert stored.sha256 == hashlib.sha256(b"hello world").hexdigest()
    assert content(store, at + "a") == b"hello world"


def test_info_tells_size_type_time_and_tag(store: ObjectStore, at: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)  # its clock may count whole seconds
    store.put(at + "a", [b"hello"], content_type="text/plain; charset=utf-8")
    info = store.info(at + "a")
    assert (info.key, info.size_bytes, info.content_type) == (at + "a", 5, "text/plain; charset=utf-8")
    assert info.modified_at.utcoffset() == timedelta(0)
    assert before <= info.modified_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert info.etag and '"' not in info.etag


def test_the_tag_changes_with_the_content(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"one"])
    first = store.info(at + "a").etag
    store.put(at + "a", [b"two"])
    assert store.info(at + "a").etag != first
    assert content(store, at + "a") == b"two"


@pytest.mark.parametrize("data", [[], [b""]], ids=["no chunk", "empty chunk"])
def test_an_empty_object_is_an_object(store: ObjectStore, at: str, data: list[bytes], tmp_path: Path) -> None:
    assert store.put(at + "nil", data).size_bytes == 0
    assert store.info(at + "nil").size_bytes == 0
    assert content(store, at + "nil") == b""
    assert list(store.read(at + "nil", start=0, end=10)) == []
    store.get_file(at + "nil", tmp_path / "nil")
    assert (tmp_path / "nil").read_bytes() == b""
    assert store.put_file(at + "nil2", tmp_path / "nil").sha256 == hashlib.sha256().hexdigest()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        *[(3, 7), (9, None), (5, 100), (10, None), (50, 60), (4, 4), (7, 3)],
        *exhaustive((0, None), (0, 1), (9, 10), (10, 20), (0, 0)),
    ],
)
def test_a_range_is_half_open_and_ends_with_the_object(
    store: ObjectStore, at: str, start: int, end: int | None
) -> None:
    store.put(at + "digits", [b"0123456789"])
    assert b"".join(store.read(at + "digits", start=start, end=end)) == b"0123456789"[start:end]


@pytest.mark.parametrize(("start", "end"), [(-1, None), (0, -1)])
def test_a_negative_range_is_a_mistake(store: ObjectStore, at: str, start: int, end: int | None) -> None:
    store.put(at + "a", [b"x"])
    with pytest.raises(ValueError, match="negative"):
        store.read(at + "a", start=start, end=end)


def test_reading_comes_in_chunks_of_the_size_asked_for(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"x" * 2500])
    assert [len(c) for c in store.read(at + "a", chunk_bytes=1000)] == [1000, 1000, 500]


def test_a_reader_keeps_the_object_it_opened(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"old" * MIB])
    reading = store.read(at + "a", chunk_bytes=64 << 10)
    first = next(reading)
    store.put(at + "a", [b"new" * MIB])
    assert first + b"".join(reading) == b"old" * MIB


def test_a_missing_object_is_reported_at_once(store: ObjectStore, at: str, tmp_path: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.read(at + "no"),
        lambda: store.read(at + "no", start=3, end=3),
        lambda: store.read(at + "no", start=5, end=9),
        lambda: store.info(at + "no"),
        lambda: store.copy(at + "no", at + "b"),
        lambda: store.copy(at + "no", at + "no"),
        lambda: store.get_file(at + "no", tmp_path / "no"),
    ]
    for call in calls:
        with pytest.raises(ObjectMissing, match="/no'") as caught:
            call()
        assert (caught.value.status, caught.value.code) == (404, "OBJECT_NOT_FOUND")
    assert list(tmp_path.glob("*no*")) == []


@pytest.mark.parametrize("size", [5 * MIB, 5 * MIB + 1, 13 * MIB, *exhaustive(1, 5 * MIB - 1, 10 * MIB)])
def test_sizes_around_a_part_keep_every_byte(store: ObjectStore, at: str, size: int) -> None:
    data = hashlib.shake_128(b"seed").digest(size)
    chunks = [data[i : i + 700_001] for i in range(0, size, 700_001)]
    assert store.put(at + "a", chunks).sha256 == hashlib.sha256(data).hexdigest()
    assert content(store, at + "a") == data
    assert store.put(at + "b", [data]).size_bytes == size
    assert content(store, at + "b") == data


def test_files_go_in_and_come_out_whole(store: ObjectStore, at: str, tmp_path: Path) -> None:
    data = hashlib.shake_128(b"file").digest(12 * MIB)
    (tmp_path / "in").write_bytes(data)
    stored = store.put_file(at + "a", tmp_path / "in", content_type="model/onnx")
    assert (stored.size_bytes, stored.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    (tmp_path / "in").write_bytes(b"changed afterwards")
    (tmp_path / "out").write_bytes(b"an older file")
    info = store.get_file(at + "a", tmp_path / "out")
    assert (info.key, info.size_bytes, info.content_type) == (at + "a", len(data), "model/onnx")
    assert (tmp_path / "out").read_bytes() == data
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "store") == ["in", "out"]


def test_a_downloaded_file_does_not_alias_later_objects(store: ObjectStore, at: str, tmp_path: Path) -> None:
    store.put(at + "a", [b"first"])
    store.get_file(at + "a", tmp_path / "f")
    store.get_file(at + "a", tmp_path / "f")  # over itself
    store.put(at + "a", [b"second"])
    assert (tmp_path / "f").read_bytes() == b"first"
    store.put_file(at + "b", tmp_path / "f")
    (tmp_path / "f").unlink()
    assert content(store, at + "b") == b"first"


@pytest.mark.parametrize(
    ("error", "before"),
    [
        (OSError, 0),
        (Broken, 1),
        (Killed, 12),
        *exhaustive((Broken, 0), (Broken, 12), (Killed, 0), (Killed, 1), (OSError, 1), (OSError, 12)),
    ],
)
def test_a_broken_stream_leaves_nothing(store: ObjectStore, at: str, error: type[BaseException], before: int) -> None:
    """At once, after one chunk, after two parts."""

    def chunks() -> Iterator[bytes]:
        yield from megabytes(before)
        raise error("the client went away")

    threads = set(threading.enumerate())
    with pytest.raises(error, match="the client went away"):
        store.put(at + "a", chunks())
    assert leftovers(store, at) == []
    assert set(threading.enumerate()) <= threads


def test_a_broken_stream_leaves_the_old_object(store: ObjectStore, at: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield from megabytes(7)
        raise Broken

    store.put(at + "a", [b"old"], content_type="text/plain")
    with pytest.raises(Broken):
        store.put(at + "a", chunks())
    assert content(store, at + "a") == b"old"
    assert store.info(at + "a").content_type == "text/plain"
    assert leftovers(store, at) == [at + "a"]


@pytest.mark.parametrize("limit", [5, 6 * MIB, *exhaustive(0)])
def test_beyond_its_limit_nothing_is_stored(store: ObjectStore, at: str, limit: int) -> None:
    with pytest.raises(TooLarge, match=str(limit)):
        store.put(at + "a", [b"x" * limit, b"y"], max_bytes=limit)
    assert leftovers(store, at) == []


def test_a_limit_may_be_reached(store: ObjectStore, at: str) -> None:
    assert store.put(at + "a", [b"12345"], max_bytes=5).size_bytes == 5


def test_an_endless_stream_is_read_no_further_than_the_limit(store: ObjectStore, at: str) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(MIB)

    with pytest.raises(TooLarge):
        store.put(at + "a", endless(), max_bytes=8 * MIB)
    assert taken == 9


def test_a_big_stream_needs_little_memory(store: ObjectStore, at: str) -> None:
    store.put(at + "warm", megabytes(6))
    tracemalloc.start()
    try:
        stored = store.put(at + "a", megabytes(64))
        read = sum(len(chunk) for chunk in store.read(at + "a"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stored.size_bytes == read == 64 * MIB
    assert peak < 24 * MIB


def test_many_tiny_chunks_are_no_trouble(store: ObjectStore, at: str) -> None:
    assert store.put(at + "a", (b"ab" for _ in range(50_000))).size_bytes == 100_000


def test_a_copy_is_an_object_of_its_own(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"hello"], content_type="text/plain")
    info = store.copy(at + "a", at + "deep/b")
    assert (info.key, info.size_bytes, info.content_type) == (at + "deep/b", 5, "text/plain")
    store.put(at + "a", [b"changed"])
    assert content(store, at + "deep/b") == b"hello"
    store.delete(at + "a")
    assert content(store, at + "deep/b") == b"hello"


def test_a_copy_replaces_and_may_be_repeated(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"new"])
    store.put(at + "b", [b"old"])
    for _ in range(2):
        assert store.copy(at + "a", at + "b").size_bytes == 3
    assert store.copy(at + "a", at + "a").key == at + "a"
    assert content(store, at + "b") == b"new"
    assert leftovers(store, at) == [at + "a", at + "b"]


def test_a_copy_is_as_old_as_itself(store: ObjectStore, at: str) -> None:
    store.put(at + "a", [b"x"])
    before = store.info(at + "a").modified_at
    copied = store.copy(at + "a", at + "b").modified_at
    assert copied >= before
    assert store.info(at + "a").modified_at == before


def test_a_list_is_sorted_by_key(store: ObjectStore, at: str) -> None:
    names = ["b", "a/b", "a", "a-b", "a.b", "a0", "a/b/c", "a.d/b", "a.bin", "a.json", "é", "模型", "Z", "a b"]
    for name in names:
        store.put(at + name, [name.encode()])
    assert keys(store, at) == [at + name for name in sorted(names)]
    assert all(content(store, at + name) == name.encode() for name in names)
    assert [info.size_bytes for info in store.list(at + "a0")] == [2]


def test_a_prefix_is_plain_text(store: ObjectStore, at: str) -> None:
    for name in ["job/1/a", "job/10/a", "job/2", "jobs"]:
        store.put(at + name, [b""])
    assert keys(store, at + "job/1") == [at + "job/1/a", at + "job/10/a"]
    assert keys(store, at + "job/1/") == [at + "job/1/a"]
    assert keys(store, at + "none/at/all") == []


def test_more_than_a_page_is_listed_and_deleted(store: ObjectStore, at: str) -> None:
    store.put(at + "seed", [b"x"])
    for number in range(1050):
        store.put(f"{at}many/{number:04}", [b""])
    assert len(keys(store, at + "many/")) == 1050
    assert store.delete_prefix(at + "many/") == 1050
    assert keys(store, at) == [at + "seed"]


def test_deleting_twice_is_fine(store: ObjectStore, at: str) -> None:
    store.put(at + "a/b", [b"x"])
    store.delete(at + "a/b")
    store.delete(at + "a/b")
    store.delete(at + "never/was")
    assert leftovers(store, at) == []


def test_delete_prefix_counts_and_spares_the_rest(store: ObjectStore, at: str) -> None:
    for name in ["x/1", "x/2/3", "x", "y"]:
        store.put(at + name, [b""])
    assert store.delete_prefix(at + "x/") == 2
    assert store.delete_prefix(at + "x/") == 0
    assert keys(store, at) == [at + "x", at + "y"]


def test_an_empty_prefix_deletes_nothing(store: ObjectStore) -> None:
    with pytest.raises(BadKey):
        store.delete_prefix("")


BAD_KEYS = {
    "empty": "",
    "absolute": "/etc/passwd",
    "parent": "a/../b",
    "only parent": "..",
    "here": "./a",
    "double slash": "a//b",
    "folder": "a/",
    "blank segment": "a/ /b",
    "backslash": "a\\b",
    "nul": "a\0b",
    "line break": "a\nb",
    "delete": "a\x7fb",
    "c1 control": "a\x85b",
    "lone surrogate": "a\ud800",
    "too long": "/".join(["x" * 100] * 6),
    "too long in bytes": "/".join(["模" * 60] * 3),
    "long segment": "x" * 251,
}


CORNERS = ("empty", "absolute", "parent", "nul", "lone surrogate", "too long in bytes")
"""Of the bad keys: both stores hand them to one check, which tests/unit/kit/objects/test_base.py gives each."""


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, id=name, marks=[] if name in CORNERS else pytest.mark.exhaustive)
        for name, key in BAD_KEYS.items()
    ],
)
def test_a_bad_key_is_refused_by_every_verb(store: ObjectStore, at: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    store.put(at + "good", [b"x"])
    calls: list[Callable[[], object]] = [
        lambda: store.put(key, [b"x"]),
        lambda: store.put_file(key, tmp_path / "f"),
        lambda: store.get_file(key, tmp_path / "g"),
        lambda: store.read(key),
        lambda: store.info(key),
        lambda: store.copy(key, at + "b"),
        lambda: store.copy(at + "good", key),
        lambda: store.delete(key),
        lambda: store.presign_get(key, expires_s=60),
        lambda: store.presign_put(key, expires_s=60),
    ]
    for call in calls:
        with pytest.raises(BadKey) as caught:
            call()
        assert caught.value.code == "BAD_KEY"
        caught.value.message.encode()  # fit for a response
    assert keys(store, at) == [at + "good"]


@pytest.mark.parametrize("prefix", ["a/../", "a\\", *exhaustive("/", "..", "a//", "a\n")])
def test_a_bad_prefix_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(BadKey):
        store.list(prefix)
    with pytest.raises(BadKey):
        store.delete_prefix(prefix)


@pytest.mark.parametrize(
    "name", ["模型/輸入.onnx", "a+b%20c&d=e?f#g", "😀/😀", "x" * 250, *exhaustive("été", "…", "a:b*c|d", "~a", "-rf")]
)
def test_any_other_character_may_be_in_a_key(store: ObjectStore, at: str, name: str, tmp_path: Path) -> None:
    store.put(at + name, [name.encode()])
    assert keys(store, at) == [at + name]
    assert content(store, at + name) == name.encode()
    assert store.copy(at + name, at + "copy").size_bytes == len(name.encode())
    store.get_file(at + name, tmp_path / "f")
    assert store.delete_prefix(at) == 2


@pytest.mark.parametrize("content_type", ["a/b\r\nX-Evil: 1", "a/" + "b" * 300, *exhaustive("", "模型/onnx")])
def test_a_bad_content_type_is_refused(store: ObjectStore, at: str, content_type: str) -> None:
    with pytest.raises(BadInput):
        store.put(at + "a", [b"x"], content_type=content_type)
    assert leftovers(store, at) == []


@pytest.mark.parametrize("size", [6 * MIB, *exhaustive(1000)])
def test_of_two_writers_one_whole_object_wins(store: ObjectStore, at: str, size: int) -> None:
    start = threading.Barrier(4)

    def write(letter: bytes) -> None:
        for _ in range(3):
            start.wait()
            store.put(at + "a", (letter * (size // 10) for _ in range(10)), content_type=f"text/{letter.decode()}")

    def watch() -> None:
        for _ in range(3):
            start.wait()
            for data in (content(store, at + "a") for _ in range(3)):
                torn.extend([data] if data.count(data[:1]) != len(data) or len(data) != size // 10 * 10 else [])

    torn: list[bytes] = []
    store.put(at + "a", [b"z" * (size // 10 * 10)])
    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"x", b"y")]
    threads += [threading.Thread(target=watch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
    winner = content(store, at + "a")[:1].decode()
    assert store.info(at + "a").content_type == f"text/{winner}"
    assert leftovers(store, at) == [at + "a"]


def test_writers_and_deleters_of_one_folder_do_not_trip(store: ObjectStore, at: str) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(40):
                store.put(at + "d/e/" + name, [b"x"])
                assert content(store, at + "d/e/" + name) == b"x"
                store.delete(at + "d/e/" + name)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert leftovers(store, at) == []


@pytest.mark.parametrize("expires_s", [0, -5, 7 * 24 * 3600 + 1])
def test_a_link_lives_a_second_to_a_week(store: ObjectStore, at: str, expires_s: int) -> None:
    with pytest.raises(ValueError, match="seconds"):
        store.presign_get(at + "a", expires_s=expires_s)
    with pytest.raises(ValueError, match="seconds"):
        store.presign_put(at + "a", expires_s=expires_s)


def test_links_name_the_key_and_no_secret(store: ObjectStore, at: str) -> None:
    for url in (store.presign_get(at + "模 型", expires_s=60), store.presign_put(at + "模 型", expires_s=60)):
        assert urlsplit(url).path.endswith("/%E6%A8%A1%20%E5%9E%8B")
        assert "secret" not in url
        assert "s3cret" not in url


def test_the_probe_finds_a_healthy_store(store: ObjectStore) -> None:
    store.check()
