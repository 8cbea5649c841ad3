"""Reference samples as model inputs: pictures, arrays, and what is refused."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.conversion.errors import DamagedSamples, NoSamples, WrongSampleType
from app.conversion.options import Preprocess
from app.conversion.toolchains.graph import TensorSpec
from app.conversion.toolchains.samples import SampleSet, arrays
from app.inference.errors import WrongSampleShape
from tests.harness.pictures import RGB8, pixels, png, spec

ROW = TensorSpec("x", (1, 39), "float32")


def samples(folder: Path, *inputs: TensorSpec, skip_damaged: bool = False) -> SampleSet:
    return SampleSet(folder, inputs, Preprocess(), skip_damaged=skip_damaged)


# --- the set --------------------------------------------------------------------------------------
def test_samples_come_in_the_order_of_their_names_also_from_subfolders(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.png", "a.PNG", "sub/c.png", ".hidden.png"):
        png(tmp_path / name, pixels(8, 8), format="png")
    (tmp_path / "notes.txt").write_text("no sample")
    read = samples(tmp_path, RGB8)
    assert read.names == ["a.PNG", "b.png", "sub/c.png"]
    assert len(read) == 3
    assert [sample.name for sample in read] == [sample.name for sample in read] == read.names


def test_a_symbolic_link_is_no_sample(tmp_path: Path) -> None:
    png(tmp_path / "secret.png", pixels(8, 8))
    folder = tmp_path / "ref"
    folder.mkdir()
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(NoSamples):
        samples(folder, RGB8)


def test_no_files_and_no_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSamples, match="no files"):
        samples(tmp_path, RGB8)
    (tmp_path / "notes.txt").write_text("no sample")
    with pytest.raises(NoSamples, match=r"notes\.txt"):
        samples(tmp_path, RGB8)


def three_with_two_damaged(folder: Path) -> None:
    good = png(folder / "good.png", pixels(64, 64)).read_bytes()
    (folder / "cut.png").write_bytes(good[: len(good) // 2])
    (folder / "text.jpg").write_text("not a picture")


def test_all_damaged_pictures_are_named_at_once(tmp_path: Path) -> None:
    three_with_two_damaged(tmp_path)
    with pytest.raises(DamagedSamples, match=r"2 reference samples cannot be read: cut\.png, text\.jpg") as caught:
        samples(tmp_path, RGB8).check()
    assert caught.value.detail["damaged"] == ["cut.png", "text.jpg"]
    assert "allow_damaged_images" in caught.value.hint


def test_a_single_damaged_picture_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    with pytest.raises(DamagedSamples, match=r"text\.jpg.*known format"):
        samples(tmp_path, RGB8).check()


def test_iteration_stops_at_a_damaged_picture(tmp_path: Path) -> None:
    three_with_two_damaged(tmp_path)
    with pytest.raises(DamagedSamples, match=r"cut\.png"):
        list(samples(tmp_path, RGB8))


def test_damaged_pictures_are_left_out_when_the_user_allows_it(tmp_path: Path) -> None:
    three_with_two_damaged(tmp_path)
    for read in (lambda undamaged: undamaged.check(), list):
        undamaged = samples(tmp_path, RGB8, skip_damaged=True)
        read(undamaged)
        assert [sample.name for sample in undamaged] == ["good.png"]
        assert (len(undamaged), undamaged.names) == (1, ["good.png"])
        assert [entry["name"] for entry in undamaged.skipped] == ["cut.png", "text.jpg"]
        assert all(entry["reason"] for entry in undamaged.skipped)


def test_nothing_but_damaged_pictures_is_refused_even_when_allowed(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    with pytest.raises(NoSamples, match=r"none of the 1 reference samples can be read \(text\.jpg"):
        samples(tmp_path, RGB8, skip_damaged=True).check()


def test_a_check_counts_kinds_and_reports_progress(tmp_path: Path) -> None:
    png(tmp_path / "a.png", pixels(8, 8))
    np.save(tmp_path / "b.npy", np.zeros((4, 3, 8, 8), np.float32))
    steps: list[float] = []
    assert samples(tmp_path, RGB8).check(steps.append) == {
        "samples": 5,
        "skipped": [],
        "kinds": {"image": 1, "npy": 4},
    }
    assert steps == [0.0, 0.5]


# --- arrays ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(39,), (1, 39)])
def test_one_sample_comes_with_or_without_the_batch_axis(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(39, dtype=np.float32).reshape(shape)
    np.save(tmp_path / "a.npy", values)
    (sample,) = samples(tmp_path, ROW)
    assert sample.name == "a.npy"
    np.testing.assert_array_equal(sample.arrays["x"], values.reshape(1, 39))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(5, 39), (5, 1, 39)])
def test_stacked_samples_are_told_apart_by_index(tmp_path: Path, shape: tuple[int, ...], order: Any) -> None:
    values = np.arange(195, dtype=np.float32).reshape(shape)
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))
    read = list(samples(tmp_path, ROW))
    assert [sample.name for sample in read] == [f"a.npy[{i}]" for i in range(5)]
    np.testing.assert_array_equal(np.stack([s.arrays["x"] for s in read]), values.reshape(5, 1, 39))


def test_arrays_of_the_other_byte_order_are_turned(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(39, dtype=">f4"))
    (sample,) = samples(tmp_path, ROW)
    assert sample.arrays["x"].dtype == np.float32
    np.testing.assert_array_equal(sample.arrays["x"][0], np.arange(39))


def test_a_fixed_batch_takes_whole_batches_only(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((8, 3), np.float32))
    assert len(samples(tmp_path, spec(4, 3))) == 2
    with pytest.raises(WrongSampleShape):
        samples(tmp_path, spec(3, 3))


def test_scalars_and_vectors_without_a_batch_axis_work(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((6,), np.float32))
    assert len(samples(tmp_path, spec())) == 6
    assert len(samples(tmp_path, spec(6))) == 1
    with pytest.raises(WrongSampleShape):
        samples(tmp_path, spec(3))


@pytest.mark.parametrize("shape", [(38,), (0, 39), (5, 2, 39), (39, 1), ()])
def test_a_wrong_shape_is_refused_naming_file_and_both_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with pytest.raises(WrongSampleShape) as caught:
        samples(tmp_path, ROW)
    assert caught.value.detail == {"file": "a.npy", "shape": list(shape), "expected": [1, 39]}


def test_a_wrong_channel_count_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 1, 8, 8), np.float32))
    with pytest.raises(WrongSampleShape, match=r"\[1, 1, 8, 8\].*takes \[1, 3, 8, 8\]"):
        samples(tmp_path, RGB8)


def test_float64_is_refused_with_the_cast_that_cures_it(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 39)))
    with pytest.raises(WrongSampleType, match=r"a\.npy is float64.*takes float32") as caught:
        samples(tmp_path, ROW)
    assert "array.astype(np.float32)" in caught.value.hint


def test_uint8_for_a_float_input_is_refused_with_a_hint_at_preprocessing(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 39), np.uint8))
    with pytest.raises(WrongSampleType, match="is uint8") as caught:
        samples(tmp_path, ROW)
    assert "not preprocessed" in caught.value.hint


def test_integer_inputs_take_arrays_of_their_own_type(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 39), np.int64))
    (sample,) = samples(tmp_path, spec(1, 39, dtype="int64"))
    assert sample.arrays["x"].dtype == np.int64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_naming_the_sample(tmp_path: Path, bad: float) -> None:
    values = np.zeros((3, 39), np.float32)
    values[1, 5] = bad
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(WrongSampleType, match=r"a\.npy\[1\] holds NaN or infinity"):
        samples(tmp_path, ROW).check()


def test_pickled_objects_are_refused_unread(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(WrongSampleType, match="is object"):
        samples(tmp_path, ROW)


def test_an_array_that_ends_early_is_damaged(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 39), np.float32))
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(data[:-1])
    with pytest.raises(DamagedSamples, match=r"a\.npy cannot be read.*ends early"):
        samples(tmp_path, ROW)


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"text",
        b"\x93NUMPY\x09\x00xxxxxxx",
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -39)}\n"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 39)}\n"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 39)}\n"),
        header("{'descr': '<f4', 'fortran_order': 1}\n"),
        header("(" * 5000 + "\n"),
    ],
)
def test_damaged_headers_are_damaged_arrays(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(DamagedSamples, match=r"a\.npy"):
        samples(tmp_path, ROW)


def test_damaged_arrays_are_left_out_when_the_user_allows_it(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"text")
    np.save(tmp_path / "b.npy", np.zeros(39, np.float32))
    read = samples(tmp_path, ROW, skip_damaged=True)
    assert (read.names, read.skipped[0]["name"]) == (["b.npy"], "a.npy")


def test_fortran_order_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "WHOLE_BYTES_MAX", 100)
    np.save(tmp_path / "a.npy", np.asfortranarray(np.zeros((5, 39), np.float32)))
    with pytest.raises(WrongSampleShape, match="Fortran order"):
        samples(tmp_path, ROW)


def test_a_npy_file_for_two_inputs_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 39), np.float32))
    with pytest.raises(WrongSampleShape, match="2 inputs"):
        samples(tmp_path, ROW, spec(1, 39, name="z"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_feeds_several_inputs_by_name(tmp_path: Path, save: Any) -> None:
    a, b = np.arange(78, dtype=np.float32).reshape(2, 39), np.arange(2, dtype=np.int64).reshape(2, 1)
    save(tmp_path / "s.npz", **{"x": a, "input_1:0": b, "label": np.zeros(2)})
    read = list(samples(tmp_path, ROW, spec(1, 1, dtype="int64", name="input_1:0")))
    assert [sample.name for sample in read] == ["s.npz[0]", "s.npz[1]"]
    np.testing.assert_array_equal(read[1].arrays["x"], a[1:])
    np.testing.assert_array_equal(read[1].arrays["input_1:0"], b[1:])


def test_a_lone_key_of_any_name_feeds_a_single_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", np.zeros((3, 39), np.float32))
    assert len(samples(tmp_path, ROW)) == 3


def test_keys_that_are_not_the_inputs_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", a=np.zeros((3, 39), np.float32), b=np.zeros(3))
    with pytest.raises(WrongSampleShape, match=r"keys \['a', 'b'\].*inputs are \['x'\]"):
        samples(tmp_path, ROW)


def test_unequal_numbers_of_samples_per_input_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((3, 39), np.float32), z=np.zeros((2, 39), np.float32))
    with pytest.raises(WrongSampleShape, match=r"\{'x': 3, 'z': 2\}"):
        samples(tmp_path, ROW, spec(1, 39, name="z"))


def test_a_npz_that_is_no_zip_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "s.npz").write_bytes(b"text")
    with pytest.raises(DamagedSamples, match=r"s\.npz"):
        samples(tmp_path, ROW)


def test_a_npz_with_a_wrong_checksum_is_damaged(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.full((30, 39), 7, np.float32))
    data = (tmp_path / "s.npz").read_bytes()
    (tmp_path / "s.npz").write_bytes(data.replace(struct.pack("<f", 7), struct.pack("<f", 8), 1))
    with pytest.raises(DamagedSamples, match="CRC"):
        samples(tmp_path, ROW).check()


def test_a_stack_is_read_one_sample_at_a_time(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "s.npz", x=np.zeros((200, 3, 64, 64), np.float32))  # 9.8 MB
    read = samples(tmp_path, spec(1, 3, 64, 64))
    tracemalloc.start()
    read.check()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


# --- hostile bytes --------------------------------------------------------------------------------
def test_a_zip_named_npy_is_damaged(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npy", "w") as archive:
        archive.writestr("x.npy", b"")
    with pytest.raises(DamagedSamples):
        samples(tmp_path, ROW)
