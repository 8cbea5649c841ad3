"""Objects that come in parts, over the folder and a real S3 server: joined, overlapping, broken off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects import parts as parts_module
from app.kit.objects.filesystem import FilesystemStore
from app.kit.objects.parts import Parts

MIB = 1 << 20


class Broken(Exception):
    pass


@pytest.fixture(params=["filesystem", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "filesystem":
        return FilesystemStore(tmp_path / "store")
    made: ObjectStore = request.getfixturevalue("s3_store")()
    return made


@pytest.fixture
def parts(store: ObjectStore, at: str) -> Parts:
    return Parts(store, f"{at}parts/")


def content(store: ObjectStore, key: str) -> bytes:
    return b"".join(store.read(key))


def broken(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise Broken


@pytest.mark.parametrize("sizes", [[5 * MIB, 5 * MIB, 3], [3, 5 * MIB, 7], [4]], ids=["big", "small first", "one"])
def test_objects_are_joined_in_their_order(store: ObjectStore, at: str, sizes: list[int]) -> None:
    pieces = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
    for index, piece in enumerate(pieces):
        store.put(f"{at}{index}", [piece])
    joined = store.join([f"{at}{index}" for index in range(len(pieces))], f"{at}all")
    assert (joined.key, joined.size_bytes) == (f"{at}all", sum(sizes))
    assert content(store, f"{at}all") == b"".join(pieces)
    assert content(store, f"{at}0") == pieces[0]


def test_what_is_not_there_cannot_be_joined(store: ObjectStore, at: str) -> None:
    store.put(f"{at}a", [b"a"])
    with pytest.raises(ObjectMissing):
        store.join([f"{at}a", f"{at}b"], f"{at}all")
    with pytest.raises(ValueError, match="nothing"):
        store.join([], f"{at}all")
    assert [info.key for info in store.list(at)] == [f"{at}a"]


def test_a_file_in_several_goes_is_the_same_file(store: ObjectStore, at: str, parts: Parts) -> None:
    assert parts.append(0, iter([b"hel", b"", b"lo "])) == 6
    with pytest.raises(Broken):
        parts.append(6, broken(b"wo", b"r"))
    assert parts.chain().size_bytes == 9
    assert parts.append(9, iter([b"ld"])) == 11
    assert parts.join(f"{at}all", 12) is None
    assert parts.join(f"{at}all", 11) is not None
    assert [info.key for info in store.list(at)] == [f"{at}all"]
    assert content(store, f"{at}all") == b"hello world"


def test_a_long_go_is_cut_so_that_little_is_lost_with_a_process(
    store: ObjectStore, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "PART_BYTES", 10)
    assert parts.append(0, repeat_bytes(b"0123456", 5)) == 35
    assert [info.size_bytes for info in store.list(parts.prefix)] == [10, 10, 10, 5]
    assert parts.append(35, iter([b"x" * 10])) == 45
    assert [info.size_bytes for info in store.list(parts.prefix)] == [10, 10, 10, 5, 10]


def repeat_bytes(chunk: bytes, times: int) -> Iterator[bytes]:
    return iter(repeat(chunk, times))


def test_nothing_is_kept_of_nothing(store: ObjectStore, parts: Parts) -> None:
    assert parts.append(0, iter(())) == 0
    with pytest.raises(Broken):
        parts.append(0, broken())
    assert not list(store.list(parts.prefix)) and parts.chain().size_bytes == 0


def test_a_sender_that_was_cut_off_and_wrote_on_does_no_harm(store: ObjectStore, at: str, parts: Parts) -> None:
    """The newer one stands at 8; then the older one's first part, cut at 5, comes in its place."""
    parts.append(0, iter([b"01234567"]))
    parts.append(8, iter([b"89"]))
    parts.append(0, iter([b"01234"]))
    assert parts.chain().size_bytes == 5
    parts.append(5, iter([b"56789"]))
    assert parts.join(f"{at}all", 10) is not None
    assert content(store, f"{at}all") == b"0123456789"


def test_what_is_dropped_is_what_begins_there_or_behind(store: ObjectStore, parts: Parts) -> None:
    for offset, chunk in ((0, b"abc"), (3, b"def"), (6, b"ghi")):
        parts.append(offset, iter([chunk]))
    parts.drop(3)
    assert parts.chain().size_bytes == 3
