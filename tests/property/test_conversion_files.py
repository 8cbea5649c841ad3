"""Whatever bytes are sent to be converted or looked at: they are understood, or refused in words of ours."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from app.conversion.errors import DamagedSamples
from app.conversion.inspection import inspect_file
from app.conversion.intake import archive as archives
from app.conversion.intake.model_checks import check_model
from app.conversion.options import Chip, Options, Preprocess, ToolchainName
from app.conversion.service.uploads import FileStart, Uploads
from app.conversion.toolchains import graph
from app.conversion.toolchains.graph import TensorSpec
from app.conversion.toolchains.kneron.nef import NotNef, describe
from app.conversion.toolchains.samples import PictureReader, SampleSet
from app.kit.errors import ModelmillError
from app.kit.objects.filesystem import FilesystemStore
from app.kit.sandbox.runner import Sandbox
from app.settings import Settings
from tests.harness.models import small
from tests.harness.models.packed import host_nef
from tests.harness.pictures import RAW, RGB8, pixels
from tests.harness.timed_search import searched
from tests.standins import nef_builder
from tests.standins.nef_builder import Model, Nef, build, build_kne

pytestmark = pytest.mark.slow
SECONDS = 0.25
PLACES = st.integers(0, 10**6)


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# --- reference samples ----------------------------------------------------------------------------
def real_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", b"12345" * 30)
        archive.writestr("sub/b.png", b"abc")
        archive.writestr("c.txt", b"text")
    return buffer.getvalue()


REAL = real_zip()


@searched(st.integers(0, len(REAL) - 1), st.binary(min_size=1, max_size=5), st.integers(0, 3), seconds=SECONDS)
def test_a_mutated_zip_is_unpacked_or_refused_with_our_errors(at: int, more: bytes, cut: int) -> None:
    with new_folder() as folder:
        (folder / "quant.zip").write_bytes(REAL[:at] + more + REAL[at + cut :])
        with contextlib.suppress(ModelmillError):
            unpacked = archives.extract(folder / "quant.zip", folder / "into", max_files=100, max_bytes=1 << 30)
            assert sorted(path.name for path in (folder / "into").iterdir()) == sorted(unpacked.files)
        assert {path.name for path in folder.iterdir()} <= {"quant.zip", "into"}


@searched(st.binary(max_size=200), seconds=SECONDS)
def test_random_bytes_in_place_of_a_zip_are_refused_with_our_errors(data: bytes) -> None:
    with new_folder() as folder:
        (folder / "quant.zip").write_bytes(data)
        with contextlib.suppress(ModelmillError):
            unpacked = archives.extract(folder / "quant.zip", folder / "into", max_files=100, max_bytes=1 << 30)
            assert unpacked.files[0].startswith(("picture.", "samples."))


@searched(
    st.dictionaries(st.text("abc.1", min_size=1, max_size=8), st.lists(st.binary(max_size=50)), min_size=1),
    seconds=SECONDS,
)
def test_whatever_the_chunks_are_the_zip_unpacks_to_them(files: dict[str, list[bytes]]) -> None:
    def parts() -> Iterator[FileStart | bytes]:
        for name, chunks in files.items():
            yield FileStart(f"x{name}.png")
            yield from chunks

    with new_folder() as folder:
        uploads = Uploads(Settings(), FilesystemStore(folder), Sandbox())
        stored = uploads.store_pictures(uploads.begin("somebody"), parts())
        with zipfile.ZipFile(io.BytesIO(b"".join(uploads.objects.read(stored.key)))) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
    assert contents == {f"x{name}.png": b"".join(chunks) for name, chunks in files.items()}


def picture_bytes(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels(16, 16)).save(buffer, kind)
    return buffer.getvalue()


PICTURES = {kind: picture_bytes(kind) for kind in ("JPEG", "PNG", "BMP", "WEBP", "PPM", "GIF", "TIFF")}


@searched(st.sampled_from(sorted(PICTURES)), PLACES, st.binary(min_size=1, max_size=6), seconds=SECONDS)
def test_a_mutated_picture_is_read_or_called_damaged(kind: str, at: int, more: bytes) -> None:
    data = bytearray(PICTURES[kind])
    at %= len(data)
    data[at : at + len(more)] = more
    with new_folder() as folder:
        (folder / "a.jpg").write_bytes(data)
        try:
            assert PictureReader(RGB8, RAW).read(folder / "a.jpg").shape == (1, 3, 8, 8)
        except DamagedSamples as error:
            assert "a.jpg" in error.message


def check_samples(folder: Path, tensor: TensorSpec) -> None:
    SampleSet(folder, (tensor,), Preprocess(), skip_damaged=False).check()


@searched(st.sampled_from(["png", "npy", "npz"]), st.binary(max_size=200), seconds=SECONDS)
def test_random_bytes_in_place_of_a_sample_are_called_damaged(ending: str, data: bytes) -> None:
    with new_folder() as folder:
        (folder / f"a.{ending}").write_bytes(data)
        with pytest.raises(DamagedSamples):
            check_samples(folder, RGB8)


@searched(st.sampled_from(["npy", "npz"]), PLACES, st.binary(min_size=1, max_size=6), seconds=SECONDS)
def test_a_mutated_array_is_read_or_refused(ending: str, at: int, more: bytes) -> None:
    with new_folder() as folder:
        path = folder / f"a.{ending}"
        values = np.arange(78, dtype=np.float32).reshape(2, 39)
        np.save(path, values) if ending == "npy" else np.savez_compressed(path, x=values)
        data = bytearray(path.read_bytes())
        at %= len(data)
        data[at : at + len(more)] = more
        path.write_bytes(data)
        with contextlib.suppress(ModelmillError):
            check_samples(folder, TensorSpec("x", (1, 39), "float32"))


# --- models ---------------------------------------------------------------------------------------
MODEL = small.conv().SerializeToString()
HOST, KNERON = Options(), Options(toolchain=ToolchainName.KNERON, platform=Chip.KL520)


@searched(
    st.integers(0, len(MODEL) - 1), st.binary(min_size=1, max_size=4), st.sampled_from([HOST, KNERON]), seconds=SECONDS
)
def test_a_mutated_model_is_taken_or_refused_with_our_errors(at: int, more: bytes, options: Options) -> None:
    with new_folder() as folder:
        (folder / "model.onnx").write_bytes(MODEL[:at] + more + MODEL[at + len(more) :])
        with contextlib.suppress(ModelmillError):
            json.dumps(check_model(folder / "model.onnx", options, max_bytes=1 << 20).facts)


@searched(st.binary(max_size=300), seconds=SECONDS)
def test_random_bytes_in_place_of_a_model_never_raise_anything_but_our_errors(data: bytes) -> None:
    with new_folder() as folder, pytest.raises(ModelmillError):
        (folder / "m.onnx").write_bytes(data)
        graph.load(folder / "m.onnx")


@searched(PLACES, st.integers(0, 255), st.binary(max_size=8), seconds=SECONDS)
def test_a_mutated_graph_is_described_or_refused_with_our_errors(at: int, byte: int, more: bytes) -> None:
    data = bytearray(small.conv(("N", 3, 8, 8)).SerializeToString())
    at %= len(data)
    data[at : at + 1 + len(more)] = bytes([byte]) + more
    with new_folder() as folder, contextlib.suppress(ModelmillError):
        (folder / "m.onnx").write_bytes(data)
        model = graph.load(folder / "m.onnx")
        graph.facts(model)
        graph.fix_shapes(model, {})
        graph.facts(model)


# --- converted models -----------------------------------------------------------------------------
@searched(st.sampled_from(["nef", "host", "onnx"]), PLACES, st.binary(max_size=5), seconds=SECONDS)
def test_mutated_files_are_described_or_refused_with_our_errors(kind: str, at: int, more: bytes) -> None:
    with new_folder() as folder:
        path = folder / "file"
        if kind == "host":
            host_nef(path)
        else:
            path.write_bytes(nef_builder.build() if kind == "nef" else MODEL)
        data = path.read_bytes()
        at %= len(data)
        path.write_bytes(data[:at] + more + data[at + 1 :])
        with contextlib.suppress(ModelmillError):
            json.dumps(inspect_file(path))


TWO = Nef(chip="720", models=(Model(version=0x8B28, name="a"), Model(id=32769, name="b", rows=48, columns=48)))
NEFS = [build(Nef()), build(TWO), build_kne([1, 2])]


@searched(
    st.sampled_from(NEFS),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=4)), max_size=6),
    st.integers(0, 400),
    st.booleans(),
    seconds=SECONDS,
)
def test_a_corrupted_nef_is_read_or_refused_and_never_crashes(
    data: bytes, hits: list[tuple[int, bytes]], cut: int, is_resealed: bool
) -> None:
    broken = bytearray(data[: len(data) - cut])
    for place, value in hits:
        at = place % max(len(broken), 1)
        broken[at : at + len(value)] = value
    if is_resealed:
        broken += struct.pack("<I", zlib.crc32(broken))
    try:
        description = describe(memoryview(bytes(broken)))
    except NotNef:
        return
    assert description["crc_ok"] in (True, False) and isinstance(description["models"], list)


@searched(st.binary(min_size=4, max_size=300), seconds=SECONDS)
def test_random_bytes_in_place_of_a_nef_are_refused_or_read_and_never_crash(data: bytes) -> None:
    with contextlib.suppress(NotNef):
        describe(memoryview(data))
