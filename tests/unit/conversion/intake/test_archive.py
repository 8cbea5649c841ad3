"""Unpacking uploaded reference samples, friendly and hostile."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.conversion.errors import BadArchive, NoSamples, SamplesTooLarge, ZipBomb
from app.conversion.intake import archive as archives
from app.conversion.intake.archive import Unpacked, flat_name
from app.kit.errors import ModelmillError


def extract(upload: Path, *, max_files: int = 100, max_bytes: int = 1 << 30) -> tuple[Unpacked, Path]:
    into = upload.parent / "into"
    return archives.extract(upload, into, max_files=max_files, max_bytes=max_bytes), into


def refused(upload: Path, cause: type[ModelmillError], match: str, **limits: int) -> ModelmillError:
    """The upload is refused, and nothing is left behind."""
    with pytest.raises(cause, match=match) as caught:
        extract(upload, **limits)
    assert not (upload.parent / "into").exists()
    assert caught.value.hint
    return caught.value


def zipped(folder: Path, entries: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "quant.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def with_entry(folder: Path, change: Callable[[zipfile.ZipInfo], None], data: bytes = b"data") -> Path:
    path = folder / "quant.zip"
    info = zipfile.ZipInfo("a.jpg", (2024, 1, 1, 0, 0, 0))
    change(info)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, data)
    return path


# --- friendly -------------------------------------------------------------------------------------
def test_samples_get_flat_names_and_other_files_are_reported(tmp_path: Path) -> None:
    entries = {"b.JPG": b"1", "sub/deep/a.png": b"2", "notes.csv": b"3", "sub/readme.txt": b"4", "c.npy": b"5"}
    unpacked, into = extract(zipped(tmp_path, entries))
    assert unpacked.files == ["b.JPG", "sub__deep__a.png", "c.npy"]
    assert unpacked.ignored == ["notes.csv", "sub/readme.txt"]
    assert {path.name: path.read_bytes() for path in into.iterdir()} == {
        "b.JPG": b"1",
        "sub__deep__a.png": b"2",
        "c.npy": b"5",
    }


def test_folders_and_junk_of_operating_systems_are_not_even_reported(tmp_path: Path) -> None:
    entries = {"pics/": b"", "pics/a.jpg": b"1", "__MACOSX/pics/._a.jpg": b"2", "pics/.DS_Store": b"", "Thumbs.db": b""}
    unpacked, _ = extract(zipped(tmp_path, entries))
    assert unpacked == Unpacked(["pics__a.jpg"], [])


@pytest.mark.parametrize("name", ["labels.csv", "deep/set/labels.json"])
def test_labels_are_unpacked_beside_the_samples_under_their_own_name(tmp_path: Path, name: str) -> None:
    unpacked, into = extract(zipped(tmp_path, {"b.jpg": b"1", name: b"2"}))
    own = name.rpartition("/")[2]
    assert unpacked == Unpacked(["b.jpg"], [], own)
    assert (into / own).read_bytes() == b"2"


def test_labels_alone_are_no_samples_and_two_of_them_too_many(tmp_path: Path) -> None:
    refused(zipped(tmp_path, {"labels.csv": b"1"}), NoSamples, "no reference samples")
    entries = {"a.jpg": b"1", "labels.csv": b"1", "x/labels.json": b"2"}
    refused(zipped(tmp_path, entries), BadArchive, "2 files of labels")


def test_names_that_become_the_same_are_kept_apart(tmp_path: Path) -> None:
    unpacked, into = extract(zipped(tmp_path, {"a/b.jpg": b"1", "a__b.jpg": b"2", "A__B.JPG": b"3"}))
    assert unpacked.files == ["a__b.jpg", "a__b_2.jpg", "A__B_3.JPG"]
    assert sorted(path.read_bytes() for path in into.iterdir()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("照片/一.jpg", "照片__一.jpg"),
        ("a b?.jpg", "a_b_.jpg"),
        ("-rf.jpg", "rf.jpg"),
        ("..hidden.jpg", "hidden.jpg"),
        ("???.jpg", "___.jpg"),
        ("-.jpg", "sample.jpg"),
    ],
)
def test_flat_names_are_tame(name: str, flat: str) -> None:
    assert flat_name(name) == flat


def test_flat_names_have_a_bounded_length_in_bytes_and_keep_the_ending() -> None:
    flat = flat_name("字" * 500 + ".jpeg")
    assert len(flat.encode()) <= 160
    assert flat.endswith("字.jpeg")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "WEBP", "PPM", "GIF", "TIFF", "AVIF", "HEIF"])
def test_a_bare_picture_is_known_by_its_bytes(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "quant.zip", kind)
    unpacked, into = extract(tmp_path / "quant.zip")
    (name,) = unpacked.files
    assert name.startswith("picture.")
    assert (into / name).read_bytes() == (tmp_path / "quant.zip").read_bytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_bare_npz_is_told_from_a_zip_of_npy_files(tmp_path: Path, save: Any) -> None:
    with (tmp_path / "quant.zip").open("wb") as file:
        save(file, a=np.zeros(3), b=np.zeros(3))
    assert extract(tmp_path / "quant.zip")[0].files == ["samples.npz"]
    other = tmp_path / "other"
    other.mkdir()
    assert extract(zipped(other, {"a.npy": b"1", "b.npy": b"2"}))[0].files == ["a.npy", "b.npy"]


def test_a_bare_npy_is_known_by_its_bytes_also_where_no_link_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*args: object) -> None:
        raise OSError("another file system")

    with (tmp_path / "quant.zip").open("wb") as file:
        np.save(file, np.zeros(3))
    monkeypatch.setattr(os, "link", no_link)
    unpacked, into = extract(tmp_path / "quant.zip")
    assert unpacked.files == ["samples.npy"]
    assert np.load(into / "samples.npy").shape == (3,)


# --- hostile --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no zip"),
        (b"hello", "no zip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        (b"Rar!\x1a\x07", "RAR"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\x03\x04 and then nothing", "damaged or ends early"),
    ],
)
def test_what_is_no_zip_is_refused_by_name(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "quant.zip").write_bytes(data)
    refused(tmp_path / "quant.zip", BadArchive, what)


def test_a_zip_without_samples_is_refused(tmp_path: Path) -> None:
    refused(zipped(tmp_path, {"readme.txt": b"1", "notes.csv": b"2"}), NoSamples, r"none of its 2 files.*readme\.txt")


def test_an_empty_zip_is_refused(tmp_path: Path) -> None:
    refused(zipped(tmp_path, {}), NoSamples, "empty")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../a.jpg", "points outside"),
        ("x/../../a.jpg", "points outside"),
        ("/etc/a.jpg", "absolute"),
        ("C:/a.jpg", "absolute"),
        ("..\\a.jpg", "backslash"),
        ("x\\a.jpg", "backslash"),
    ],
)
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str, why: str) -> None:
    refused(zipped(tmp_path, {"good.jpg": b"1", name: b"2"}), BadArchive, why)
    assert not (tmp_path / "a.jpg").exists()


def test_a_hostile_name_is_refused_even_where_it_would_be_ignored(tmp_path: Path) -> None:
    refused(zipped(tmp_path, {"good.jpg": b"1", "../notes.txt": b"2"}), BadArchive, "points outside")


def test_a_nul_in_a_name_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"aXb.jpg": b"1"})
    path.write_bytes(path.read_bytes().replace(b"aXb.jpg", b"a\0b.jpg"))
    refused(path, BadArchive, "NUL")


@pytest.mark.parametrize(
    ("kind", "why"), [(stat.S_IFLNK, "symbolic link"), (stat.S_IFIFO, "no plain file"), (stat.S_IFCHR, "no plain file")]
)
def test_links_and_special_files_are_refused(tmp_path: Path, kind: int, why: str) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        info.create_system = 3
        info.external_attr = (kind | 0o644) << 16

    refused(with_entry(tmp_path, change, b"/etc/passwd"), BadArchive, why)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"1"})
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    assert "password" in refused(path, BadArchive, "encrypted").hint


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"1", "b.jpg": b"2"})
    path.write_bytes(path.read_bytes().replace(b"b.jpg", b"a.jpg"))
    refused(path, BadArchive, r"'a\.jpg' 2 times")


def test_a_wrong_checksum_is_refused_and_what_was_written_is_removed(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"good", "b.jpg": b"unique"}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"unique", b"broken"))
    into = tmp_path / "into"
    into.mkdir()
    (into / "mine.txt").write_text("was here before")
    with pytest.raises(BadArchive, match=r"b\.jpg cannot be unpacked"):
        extract(path)
    assert [entry.name for entry in into.iterdir()] == ["mine.txt"]


def test_a_file_that_is_there_already_is_never_replaced_and_the_failure_leaves_it(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "a.jpg").write_text("mine")
    with pytest.raises(FileExistsError):
        extract(zipped(tmp_path, {"a.jpg": b"theirs"}))
    assert (into / "a.jpg").read_text() == "mine"


def test_a_zip_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": os.urandom(5000)})
    path.write_bytes(path.read_bytes()[:3000])
    refused(path, BadArchive, "ends early")


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"1"})
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.index(signature) + offset
        data[at : at + 2] = struct.pack("<H", 97)
    path.write_bytes(data)
    refused(path, BadArchive, "cannot be unpacked")


# --- too much -------------------------------------------------------------------------------------
def test_too_many_samples_are_refused(tmp_path: Path) -> None:
    refused(zipped(tmp_path, {f"{i}.jpg": b"1" for i in range(4)}), SamplesTooLarge, "4 samples", max_files=3)


def test_too_many_entries_of_any_kind_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"1", **{f"{i}.txt": b"" for i in range(30)}})
    refused(path, SamplesTooLarge, "31 entries", max_files=3)


def test_too_many_bytes_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": b"1" * 60, "b.jpg": b"1" * 60})
    refused(path, SamplesTooLarge, "120 bytes", max_bytes=100)
    refused(zipped(tmp_path, {"a.jpg": b"1" * 200}), SamplesTooLarge, "200 bytes", max_bytes=100)


def test_a_bare_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "quant.zip", "BMP")
    refused(tmp_path / "quant.zip", SamplesTooLarge, "are allowed", max_bytes=100)


def test_a_bomb_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.npy": bytes(20_000_000)})
    refused(path, ZipBomb, r"a\.npy in the zip unpacks")


def test_entries_that_share_their_packed_bytes_are_a_bomb_together(tmp_path: Path) -> None:
    """Each entry is modest; the table of contents names the same bytes again and again."""
    path = zipped(tmp_path, {"0000.jpg": b"ab" * 500_000 + os.urandom(10_000)})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    entry, tail = data[start : data.index(b"PK\x05\x06")], bytearray(data[data.index(b"PK\x05\x06") :])
    directory = b"".join(entry.replace(b"0000.jpg", b"%04d.jpg" % i) for i in range(50))
    tail[8:16] = struct.pack("<HHI", 50, 50, len(directory))
    path.write_bytes(data[:start] + directory + tail)
    refused(path, ZipBomb, "the zip unpacks")


def test_an_entry_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.jpg": bytes(50_000)})
    size = struct.pack("<I", 50_000)
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<I", 100)))
    refused(path, BadArchive, r"a\.jpg cannot be unpacked")


def npz_bomb() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.zeros(3_000_000, np.float32))
    return buffer.getvalue()


def test_a_bomb_inside_a_npz_is_refused_bare_or_packed(tmp_path: Path) -> None:
    (tmp_path / "quant.zip").write_bytes(npz_bomb())
    refused(tmp_path / "quant.zip", ZipBomb, r"x\.npy in the \.npz file")
    refused(zipped(tmp_path, {"s.npz": npz_bomb()}), ZipBomb, r"x\.npy in s\.npz")


def test_a_npz_in_a_zip_that_is_none_is_left_to_the_samples_check(tmp_path: Path) -> None:
    assert extract(zipped(tmp_path, {"s.npz": b"text"}))[0].files == ["s.npz"]
