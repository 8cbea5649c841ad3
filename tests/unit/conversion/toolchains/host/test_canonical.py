"""Two files are the same network, or what differs is said."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.toolchains.host import provenance
from app.conversion.toolchains.host.canonical import compare_files
from app.conversion.toolchains.host.canonical.network import Graph, Node, NotComparable, output_digests
from tests.harness.models import host as host_models

Change = Callable[[onnx.ModelProto], None]


def compared(folder: Path, before: onnx.ModelProto, change: Change, name: str = "out.bie") -> Any:
    after = copy.deepcopy(before)
    change(after)
    paths = folder / "before", folder / "after"
    for path, model in zip(paths, (before, after), strict=True):
        path.write_bytes(model.SerializeToString())
    return compare_files(name, *paths)


def reverse_constants(model: onnx.ModelProto) -> None:
    tensors = list(model.graph.initializer)[::-1]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)


def rename_inner(model: onnx.ModelProto) -> None:
    outer = {value.name for value in (*model.graph.input, *model.graph.output)}
    for tensor in model.graph.initializer:
        tensor.name = f"new_{tensor.name}"
    for node in model.graph.node:
        node.name = f"new_{node.name}"
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name and name not in outer:
                    names[place] = f"new_{name}"


def unpack_constants(model: onnx.ModelProto) -> None:
    """The same numbers, one by one in place of raw."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.ClearField("raw_data")
            tensor.float_data.extend(array.reshape(-1).tolist())


def name_file_before(model: onnx.ModelProto) -> None:
    provenance.write(model, {provenance.ONNX_SHA256: "0" * 64})


@pytest.mark.parametrize("change", [reverse_constants, rename_inner, unpack_constants, name_file_before])
def test_order_inner_names_and_storage_make_no_difference(tmp_path: Path, change: Change) -> None:
    likeness = compared(tmp_path, host_models.convolutional(), change)
    assert likeness.is_equal and likeness.differences == ()
    assert (tmp_path / "before").read_bytes() != (tmp_path / "after").read_bytes(), "there was something to overlook"


def change_a_weight(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    array = numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[0] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_an_attribute(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.op_type == "Conv")
    node.attribute.append(helper.make_attribute("auto_pad", "SAME_UPPER"))


def add_a_node(model: onnx.ModelProto) -> None:
    last = model.graph.node[-1]
    last.output[0], made = "inner", last.output[0]
    model.graph.node.append(helper.make_node("Relu", ["inner"], [made], "extra"))


def change_metadata(model: onnx.ModelProto) -> None:
    provenance.write(model, {provenance.SOURCE_SHA256: "of another model"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_a_weight, "1 constants have other values"),
        (change_an_attribute, "joined otherwise"),
        (add_a_node, "operators differ in number: ai.onnx.Relu"),
        (change_metadata, "metadata modelmill.source_sha256 differs"),
    ],
)
def test_what_changes_the_network_is_said(tmp_path: Path, change: Change, message: str) -> None:
    likeness = compared(tmp_path, host_models.convolutional(), change)
    assert not likeness.is_equal
    assert any(message in difference for difference in likeness.differences), likeness.differences


def branching(slope: float) -> onnx.ModelProto:
    """If b: x * c else x, where the branch reads a value and a constant of what is around it."""
    scale = numpy_helper.from_array(np.array([slope], np.float32), "c")
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])]
    then = helper.make_graph([helper.make_node("Mul", ["t", "c"], ["z"])], "then", [], outputs)
    otherwise = helper.make_graph([helper.make_node("Identity", ["t"], ["z"])], "else", [], outputs)
    nodes = [
        helper.make_node("If", ["b"], ["y"], then_branch=then, else_branch=otherwise),
        helper.make_node("Abs", ["x"], ["t"]),
    ]
    inputs = [
        helper.make_tensor_value_info("b", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
    ]
    graph = helper.make_graph(nodes[::-1], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    graph.initializer.append(scale)
    return helper.make_model(graph)


def test_a_branch_is_known_by_what_it_reads_of_its_surroundings(tmp_path: Path) -> None:
    assert compared(tmp_path, branching(2.0), lambda _: None).is_equal
    assert not compared(tmp_path, branching(2.0), lambda model: model.CopyFrom(branching(3.0))).is_equal


def test_the_order_of_nodes_is_none(tmp_path: Path) -> None:
    two = Node("Add", {}, ("a", "b"), ("y",)), Node("Relu", {}, ("x",), ("a",))
    graph = Graph(("x",), ("y",), {"b": "digest"}, two)
    assert output_digests(graph) == output_digests(Graph(("x",), ("y",), {"b": "digest"}, two[::-1]))


@pytest.mark.parametrize("nodes", [(), (Node("Relu", {}, ("y",), ("y",)),)])
def test_what_nobody_makes_cannot_be_compared(nodes: tuple[Node, ...]) -> None:
    with pytest.raises(NotComparable):
        output_digests(Graph((), ("y",), {}, nodes))


def test_what_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).write_bytes(b"neither")
    for name in ("out.onnx", "out.nef"):
        likeness = compare_files(name, tmp_path / "before", tmp_path / "after")
        assert not likeness.is_equal and "cannot be compared" in likeness.differences[0]


def nef(model: bytes, **manifest: Any) -> bytes:
    files = {"model.ort": {"sha256": hashlib.sha256(model).hexdigest(), "size_bytes": len(model)}}
    head = {"format": "modelmill-host-nef", "version": 1, "files": files, **manifest}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps(head))
        archive.writestr("model.ort", model)
    return file.getvalue()


def ort_of(model: onnx.ModelProto, path: Path) -> bytes:
    """In ORT format."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path.read_bytes()


@pytest.mark.parametrize(("change", "is_equal"), [(rename_inner, True), (change_a_weight, False), (add_a_node, False)])
def test_the_model_in_a_nef_likewise(tmp_path: Path, change: Change, is_equal: bool) -> None:
    before = host_models.convolutional()
    after = copy.deepcopy(before)
    change(after)
    for name, model in (("before", before), ("after", after)):
        (tmp_path / name).write_bytes(nef(ort_of(model, tmp_path / "model.ort"), ancestors={"out.bie": name}))
    assert (tmp_path / "before").read_bytes() != (tmp_path / "after").read_bytes()
    likeness = compare_files("out.nef", tmp_path / "before", tmp_path / "after")
    assert likeness.is_equal == is_equal, likeness.differences


def test_what_else_a_nef_says_counts(tmp_path: Path) -> None:
    model = ort_of(host_models.convolutional(), tmp_path / "model.ort")
    for name in ("before", "after"):
        (tmp_path / name).write_bytes(nef(model, preprocess=name))
    assert compare_files("out.nef", tmp_path / "before", tmp_path / "after").differences == ("preprocess differs",)


def test_a_nef_whose_model_is_none_is_told(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).write_bytes(nef(bytes(range(4)) * 9, at=name))
    likeness = compare_files("out.nef", tmp_path / "before", tmp_path / "after")
    assert not likeness.is_equal and "no model in ORT format" in likeness.differences[0]
