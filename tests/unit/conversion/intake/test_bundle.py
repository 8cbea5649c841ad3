"""A model in several files becomes one."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from app.conversion.errors import BadModelArchive, ExternalWeights, ModelTooLarge, TruncatedModel
from app.conversion.intake import bundle
from tests.harness.models import small
from tests.harness.models.small import split


def packed(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def merged(folder: Path, model: Path, weights: Path | None = None, most: int = 1 << 20) -> onnx.ModelProto | None:
    request: dict[str, Any] = {"model": str(model), "weights": str(weights or ""), "max_bytes": most}
    request |= {"unpack_to": str(folder / "unpacked"), "into": str(folder / "merged.onnx")}
    answer = bundle.merge(request, lambda *_: None)
    return onnx.load(str(folder / "merged.onnx"), load_external_data=False) if answer["is_merged"] else None


def has_its_weights(model: onnx.ModelProto | None) -> bool:
    assert model is not None
    expected = numpy_helper.to_array(small.conv().graph.initializer[0])
    return np.array_equal(numpy_helper.to_array(model.graph.initializer[0]), expected)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("folder", ["", "export/"])
def test_a_zip_of_a_model_and_its_weights_becomes_one_file(tmp_path: Path, folder: str, compression: int) -> None:
    graph, weights = split(tmp_path)
    files = {f"{folder}readme.txt": b"about", f"{folder}net.onnx": graph, f"{folder}model.onnx.data": weights}
    files["__MACOSX/._net.onnx"] = b"junk"
    assert has_its_weights(merged(tmp_path, packed(tmp_path / "model.onnx", files, compression)))


def test_two_files_become_one_also_where_the_weights_were_in_a_folder(tmp_path: Path) -> None:
    graph, weights = split(tmp_path)
    model = onnx.load_from_string(graph)
    model.graph.initializer[0].external_data[0].value = "./weights/model.bin"
    path = written(tmp_path / "model.onnx", model.SerializeToString())
    assert has_its_weights(merged(tmp_path, path, packed(tmp_path / "weights.zip", {"model.bin": weights})))


def test_a_zip_without_a_model_is_left_for_the_check_of_models_to_name(tmp_path: Path) -> None:
    assert merged(tmp_path, packed(tmp_path / "model.onnx", {"archive/data.pkl": b"torch"})) is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    graph, _ = split(tmp_path)
    with pytest.raises(ExternalWeights, match=r"'model\.onnx\.data'"):
        merged(tmp_path, packed(tmp_path / "model.onnx", {"model.onnx": graph, "other.data": b"1"}))


def test_several_models_in_one_zip_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModelArchive, match=r"2 models: a\.onnx, b\.onnx"):
        merged(tmp_path, packed(tmp_path / "model.onnx", {"a.onnx": b"1", "b.onnx": b"2"}))


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret.bin", "a/../../etc/passwd", "C:\\secret.bin"])
def test_a_place_outside_is_refused_even_when_a_file_of_that_name_was_sent(tmp_path: Path, location: str) -> None:
    graph, weights = split(tmp_path)
    model = onnx.load_from_string(graph)
    model.graph.initializer[0].external_data[0].value = location
    path = written(tmp_path / "model.onnx", model.SerializeToString())
    sent = packed(tmp_path / "weights.zip", {location.replace("\\", "/").rpartition("/")[2]: weights})
    with pytest.raises(ExternalWeights, match="outside the model's own folder"):
        merged(tmp_path, path, sent)
    with pytest.raises(ExternalWeights, match="outside"):
        bundle.places({"model": str(path)}, lambda *_: None)


@pytest.mark.parametrize("name", ["../model.onnx.data", "/model.onnx.data", "a\\b.data"])
def test_a_hostile_name_in_the_zip_is_refused(tmp_path: Path, name: str) -> None:
    graph, weights = split(tmp_path)
    with pytest.raises(BadModelArchive):
        merged(tmp_path, packed(tmp_path / "model.onnx", {"model.onnx": graph, name: weights}))


def test_weights_that_end_early_are_told_with_the_file(tmp_path: Path) -> None:
    graph, weights = split(tmp_path)
    with pytest.raises(TruncatedModel, match=r"model\.onnx\.data ends early: it has 100 bytes"):
        merged(tmp_path, packed(tmp_path / "model.onnx", {"model.onnx": graph, "model.onnx.data": weights[:100]}))


@pytest.mark.parametrize("value", ["-1", "x", "9" * 30])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_a_place_within_the_file_that_is_no_number_is_refused(tmp_path: Path, key: str, value: str) -> None:
    graph, weights = split(tmp_path)
    model = onnx.load_from_string(graph)
    entries = {item.key: item for item in model.graph.initializer[0].external_data}
    entries[key].value = value
    files = {"model.onnx": model.SerializeToString(), "model.onnx.data": weights}
    with pytest.raises(ExternalWeights, match=f"as its {key}"):
        merged(tmp_path, packed(tmp_path / "model.onnx", files))


def test_the_same_bytes_taken_in_many_times_count_each_time(tmp_path: Path) -> None:
    graph, weights = split(tmp_path)
    model = onnx.load_from_string(graph)
    for number in range(100):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"again {number}"
    files = {"model.onnx": model.SerializeToString(), "model.onnx.data": weights}
    with pytest.raises(ModelTooLarge):
        merged(tmp_path, packed(tmp_path / "model.onnx", files), most=20_000)


def test_a_zip_that_unpacks_to_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    graph, _ = split(tmp_path)
    files = {"model.onnx": graph, "model.onnx.data": bytes(30_000_000)}
    bomb = packed(tmp_path / "model.onnx", files, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelTooLarge):
        merged(tmp_path, bomb)
    with pytest.raises(BadModelArchive, match="more than 200 times"):
        merged(tmp_path / "again", bomb, most=1 << 30)


def test_places_are_told_and_of_what_is_no_model_there_are_none(tmp_path: Path) -> None:
    graph, _ = split(tmp_path)
    answers = [
        bundle.places({"model": str(written(tmp_path / "m", data))}, lambda *_: None)["places"]
        for data in (graph, small.conv().SerializeToString(), b"no model")
    ]
    assert answers == [["model.onnx.data"], [], []]
