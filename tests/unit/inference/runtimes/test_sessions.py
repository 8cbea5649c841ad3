"""A converted model gives the same numbers on every CPU: also on those that add up int8 products in 16 bits."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from app.conversion.model import Stage
from app.inference.errors import InvalidModel
from app.inference.runtimes import sessions
from app.inference.runtimes.sessions import EXACT, MODEL, Level, open_session, read_nef, run, session_options
from app.kit.sandbox.errors import StageFailed
from tests.harness.models.host import convolutional, model_of, pictures, random_weights, run_all, run_stage, work_folder

SHAPE = [1, 3, 16, 16]
CPU_LACKS_VNNI = sessions.lacks_vnni()


def sharing() -> onnx.ModelProto:
    """Two convolutions with the same weights: onnxruntime cannot make these unsigned."""
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "shared"], ["b"], "conv1"),
        helper.make_node("Conv", ["b", "shared"], ["y"], "conv2"),
    ]
    weights = {"first": random_weights(8, 3, 3, 3), "shared": random_weights(8, 8, 1, 1)}
    return model_of(nodes, {"x": SHAPE}, {"y": [1, 8, 16, 16]}, weights)


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel says of a CPU, for a test to write."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(sessions, "CPU_INFO", file)
    return file


@pytest.mark.parametrize(
    ("cpu_flags", "lacks"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 fma avx512f\n", True),
        ("processor : 0\nflags\t\t: fpu avx2 avx512_vnni\n", False),
        ("processor : 0\nflags\t\t: fpu avx2 avx_vnni\n", False),
        ("processor : 0\nFeatures\t: fp asimd asimddp\n", False),
        (None, False),
    ],
    ids=["x86", "x86 with AVX-512 VNNI", "x86 with AVX-VNNI", "ARM", "nothing said"],
)
def test_only_an_x86_cpu_without_vnni_needs_unsigned_weights(cpu: Path, cpu_flags: str | None, lacks: bool) -> None:
    if cpu_flags:
        cpu.write_text(cpu_flags)
    assert session_options(1).get_session_config_entry(EXACT) == ("1" if lacks else "0")


def test_threads_that_have_no_work_soon_sleep() -> None:
    """Else they take the processor from the one they wait for, as soon as other programs run beside."""
    assert session_options(2).get_session_config_entry("session.intra_op.spin_duration_us") == sessions.SPIN_US == "20"


@pytest.mark.slow
def test_a_model_whose_nodes_share_weights_opens_as_it_is_where_they_cannot_be_unsigned(
    cpu: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = work_folder(tmp_path / "job", sharing(), pictures(4))
    run_all(folder)
    x = {"x": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)}
    expected = run(open_session(folder / "out.bie", 1), x)["y"]
    cpu.write_text("flags : avx2\n")
    with pytest.raises(Exception, match="replace the existing tensor"):
        ort.InferenceSession(str(folder / "out.bie"), session_options(1), ["CPUExecutionProvider"])
    capfd.readouterr()
    assert np.array_equal(run(open_session(folder / "out.bie", 1), x)["y"], expected)
    assert capfd.readouterr().err == ""


def test_an_output_that_a_fusion_would_lose_is_still_computed() -> None:
    """A sum of two convolutions, of which one is an output as well: inner tensors are measured so."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], "first"),
        helper.make_node("Conv", ["x", "v", "c"], ["other"], "second"),
        helper.make_node("Add", ["a", "other"], ["s"], "sum"),
        helper.make_node("Relu", ["s"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "u"], ["y"], "last"),
    ]
    weights = {
        "w": random_weights(4, 3, 3, 3),
        "v": random_weights(4, 3, 3, 3, seed=1),
        "u": random_weights(4, 4, 1, 1),
    }
    weights |= {"b": random_weights(4), "c": random_weights(4, seed=1)}
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 6, 6], "a": [1, 4, 6, 6]}, weights).SerializeToString()
    x = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    expected = run(open_session(model, 1, "none"), x)
    for name, values in run(open_session(model, 1), x).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


def test_what_cannot_be_opened_either_way_is_refused_in_words(cpu: Path) -> None:
    cpu.write_text("flags : avx2\n")
    with pytest.raises(StageFailed, match="cannot run the model"):
        open_session(b"no model", 1)


@pytest.mark.slow
def test_a_nef_keeps_unsigned_weights_for_it_may_run_on_another_cpu(cpu: Path, tmp_path: Path) -> None:
    """Converted where the kernel speaks of VNNI. The CPU itself may lack it: then int8 overflows in the comparison."""
    folder = work_folder(tmp_path / "job", convolutional(), pictures(4))
    cpu.write_text("flags : avx2\n")
    run_stage(Stage.ONNX, folder)
    run_stage(Stage.BIE, folder)
    cpu.write_text("flags : avx2 avx512_vnni\n")
    try:
        assert run_stage(Stage.NEF, folder).report["agreement"]["bit_true"]
    except StageFailed as error:
        assert CPU_LACKS_VNNI and "does not agree with out.bie" in error.message
    assert weight_types(read_nef(folder / "out.nef")[1], tmp_path) == {onnx.TensorProto.UINT8}
    assert weight_types(folder / "out.bie", tmp_path) == {onnx.TensorProto.INT8}


@pytest.mark.slow
@pytest.mark.parametrize("cpu_flags", ["flags : avx2\n", None], ids=["as without VNNI", "as this CPU is"])
def test_a_nef_agrees_bit_by_bit_with_its_bie_on_every_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu_flags: str | None
) -> None:
    if cpu_flags:
        (tmp_path / "cpuinfo").write_text(cpu_flags)
        monkeypatch.setattr(sessions, "CPU_INFO", tmp_path / "cpuinfo")
    reports = run_all(work_folder(tmp_path / "job", convolutional(), pictures(4)))
    assert reports[Stage.NEF].report["agreement"]["bit_true"]


def pooled() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], "pool", kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        helper.make_node("Conv", ["b", "second"], ["y"], "conv1"),
    ]
    weights = {"first": random_weights(16, 3, 3, 3), "second": random_weights(16, 16, 1, 1)}
    return model_of(nodes, {"x": SHAPE}, {"y": [1, 16, 16, 16]}, weights)


@pytest.mark.slow
def test_integers_are_pooled_in_the_order_that_has_a_fast_kernel_which_changes_no_bit(tmp_path: Path) -> None:
    folder = work_folder(tmp_path / "job", pooled(), pictures(4))
    run_all(folder)
    operators = {level: operators_of(folder / "out.bie", level, tmp_path) for level in LEVELS}
    assert "MaxPool" in operators["extended"] and "NhwcMaxPool" not in operators["extended"]
    for level in ("layout", "all"):
        assert "NhwcMaxPool" in operators[level] and "MaxPool" not in operators[level]
    x = {"x": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)}
    nef = read_nef(folder / "out.nef")[1]
    for model in (folder / "out.bie", nef):
        one, *others = (run(open_session(model, 1, level), x)["y"] for level in LEVELS)
        assert all(np.array_equal(one, other) for other in others)
    assert "NhwcMaxPool" in operators_of(nef, "all", tmp_path), "the file is of no layout, the session chooses one"


def test_floats_are_reordered_for_the_cpu_at_hand_only_where_a_model_is_used(tmp_path: Path) -> None:
    model = pooled().SerializeToString()
    operators = {level: operators_of(model, level, tmp_path) for level in LEVELS}
    assert operators["layout"] == operators["extended"]
    if operators["all"] == operators["layout"]:
        pytest.skip("onnxruntime has no float layout of its own for this CPU")
    assert "ReorderOutput" in operators["all"]


LEVELS: tuple[Level, ...] = ("extended", "layout", "all")


def operators_of(model: Path | bytes, level: Level, folder: Path) -> set[str]:
    """Operators that really run."""
    return {node.op_type for node in optimized(model, folder, level).node}


def optimized(model: Path | bytes, folder: Path, level: Level) -> onnx.GraphProto:
    options = session_options(1, level)
    options.optimized_model_filepath = str(folder / f"{MODEL}.onnx")
    options.add_session_config_entry("session.save_model_format", "ONNX")
    open_session(model, 1, level, options)
    return onnx.load(options.optimized_model_filepath).graph


def weight_types(model: Path | bytes, folder: Path) -> set[int]:
    """Types of the weights of the convolutions, once onnxruntime has fused them."""
    graph = optimized(model, folder, "extended")
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    return {types[node.input[3]] for node in graph.node if node.op_type == "QLinearConv"}


def test_a_session_keeps_no_second_copy_of_its_model() -> None:
    """onnxruntime's own keeps the bytes that it was opened from, as long as it lives."""
    data = convolutional().SerializeToString()
    assert all(value is not data for value in vars(open_session(data, 1)).values())


def manifest(**changed: Any) -> str:
    """That of an empty model."""
    stored = {"size_bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    whole = {"format": sessions.NEF_FORMAT, "version": sessions.NEF_VERSION, "files": {MODEL: stored}}
    return json.dumps(whole | changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a NEF of the host toolchain"),
        ("[" * 100_000, "no JSON"),
        (manifest(note="x" * sessions.MANIFEST_BYTES_MAX), "too large"),
        (manifest(format="other"), "does not name the host toolchain's format"),
        (manifest(version=sessions.NEF_VERSION + 1), "version 2 of the format"),
        (manifest(files={MODEL: {"size_bytes": 1, "sha256": hashlib.sha256(b"").hexdigest()}}), "has 0 bytes"),
        (manifest(files={MODEL: {"size_bytes": 0, "sha256": hashlib.sha256(b"x").hexdigest()}}), "does not match"),
    ],
    ids=[
        "missing",
        "nested without end",
        "too large",
        "another format",
        "another version",
        "another size",
        "another model",
    ],
)
def test_a_nef_whose_manifest_does_not_fit_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "out.nef", "w") as archive:
        if text is not None:
            archive.writestr(sessions.MANIFEST, text)
        archive.writestr(MODEL, b"")
    with pytest.raises(InvalidModel, match=message):
        read_nef(tmp_path / "out.nef")
