"""Facts of ONNX graphs, and what is said of files that are none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.errors import DynamicShape, ExternalWeights, GitLfsPointer, ModelTooLarge, NotOnnx, TruncatedModel
from app.conversion.toolchains import graph
from app.conversion.toolchains.graph import TensorSpec, model_loader
from app.conversion.toolchains.graph.local_functions import expanded_nodes
from app.inference.errors import InvalidModel
from app.kit.errors import BadInput
from tests.harness.models import small


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    return path


# --- loading --------------------------------------------------------------------------------------
def test_a_model_that_was_written_is_read_back(tmp_path: Path) -> None:
    assert graph.load(small.write(tmp_path / "m.onnx", small.conv())) == small.conv()


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        (b"", "empty"),
        (b"hello, this is text", "no ONNX protobuf"),
        (b"PK\x03\x04 and so on", "zip"),
        (b"<html></html>", "HTML"),
        (b"\x1c\x00\x00\x00TFL3aaaa", "TensorFlow Lite"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"\x00" * 500, "no ONNX protobuf"),
    ],
)
def test_a_file_that_is_no_onnx_is_named_for_what_it_is(tmp_path: Path, data: bytes, guess: str) -> None:
    with pytest.raises(NotOnnx, match=guess):
        graph.load(written(tmp_path, data))


def test_a_git_lfs_pointer_is_recognized(tmp_path: Path) -> None:
    data = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    with pytest.raises(GitLfsPointer) as caught:
        graph.load(written(tmp_path, data))
    assert "git lfs pull" in caught.value.hint


@pytest.mark.slow
def test_a_model_cut_anywhere_is_called_truncated(tmp_path: Path) -> None:
    data = small.conv().SerializeToString()
    for size in range(4, len(data)):
        with pytest.raises(TruncatedModel, match="ends early"):
            graph.load(written(tmp_path, data[:size]))


def test_damage_inside_a_whole_model_is_not_called_truncated(tmp_path: Path) -> None:
    data = bytearray(small.conv().SerializeToString())
    at = data.index(b"first")
    data[at - 1] = 0x7F  # the length of the node's name now runs out of its node
    with pytest.raises(InvalidModel, match="damaged"):
        graph.load(written(tmp_path, bytes(data)))


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    data = small.conv().SerializeToString().replace(b"first", b"\xff\xfe\xff\xfe\xff")
    with pytest.raises(InvalidModel, match="not UTF-8"):
        graph.load(written(tmp_path, data))


def external(location: str) -> bytes:
    built = small.conv()
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return built.SerializeToString()


def test_weights_in_another_file_are_refused_naming_it(tmp_path: Path) -> None:
    with pytest.raises(ExternalWeights, match=r"model\.onnx\.data") as caught:
        graph.load(written(tmp_path, external("model.onnx.data")))
    assert "save_as_external_data=False" in caught.value.hint
    assert caught.value.detail["files"] == ["model.onnx.data"]


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret.bin", "a/../../b", "C:\\weights", "..\\weights.bin"])
def test_weights_outside_the_folder_are_said_to_be_outside(tmp_path: Path, location: str) -> None:
    with pytest.raises(ExternalWeights, match="outside the model's own folder"):
        graph.load(written(tmp_path, external(location)))


def test_weights_outside_are_found_in_attributes_too(tmp_path: Path) -> None:
    tensor = TensorProto(name="t", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="there.bin")
    built = small.relu()
    built.graph.node.append(helper.make_node("Constant", [], ["z"], value=tensor))
    with pytest.raises(ExternalWeights, match=r"there\.bin"):
        graph.load(written(tmp_path, built.SerializeToString()))


def test_a_graph_without_nodes_or_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="no nodes"):
        graph.load(written(tmp_path, small.model([], [small.value("x", [1])], []).SerializeToString()))
    bare = small.relu()
    del bare.graph.output[:]
    with pytest.raises(InvalidModel, match="no outputs"):
        graph.load(written(tmp_path, bare.SerializeToString()))


def calling(levels: int, *, calls: int = 2, last: str = "Relu", inside: bool = False) -> onnx.ModelProto:
    """A model with functions F0, F1, …, each of which calls the next one several times.

    Args:
        last: what the last one consists of.
        inside: the graph calls in a branch of an If.
    """
    model = small.conv()
    model.opset_import.append(helper.make_opsetid("own", 1))
    opsets = list(model.opset_import)
    for level in range(levels):
        callee = (f"F{level + 1}", "own") if level + 1 < levels else (last, "own" if last.startswith("F") else "")
        names = [f"t{index}" for index in range(calls + 1)]
        body = [helper.make_node(callee[0], [a], [b], domain=callee[1]) for a, b in pairwise(names)]
        model.functions.append(helper.make_function("own", f"F{level}", names[:1], names[-1:], body, opsets))
    call = helper.make_node("F0", ["x"], ["z"], domain="own")
    if inside:
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        branch = helper.make_graph([call], "branch", [], [output])
        call = helper.make_node("If", ["condition"], ["if"], then_branch=branch, else_branch=branch)
    model.graph.node.append(call)
    return model


@pytest.mark.parametrize("inside", [False, True], ids=["in the graph", "in a branch"])
def test_functions_that_expand_without_measure_are_refused_before_anything_expands_them(
    tmp_path: Path, inside: bool
) -> None:
    with pytest.raises(InvalidModel, match=r"expand to more than 1,000,000,000,000,000 nodes; 200,000 are allowed"):
        graph.load(small.write(tmp_path / "m.onnx", calling(100, inside=inside)))


@pytest.mark.parametrize("last", ["F0", "F2"], ids=["in a circle", "itself"])
def test_functions_that_call_themselves_are_refused(tmp_path: Path, last: str) -> None:
    with pytest.raises(InvalidModel, match="calls itself"):
        graph.load(small.write(tmp_path / "m.onnx", calling(3, last=last)))


def test_functions_of_usual_size_are_read(tmp_path: Path) -> None:
    model = calling(10)
    assert graph.load(small.write(tmp_path / "m.onnx", model)) == model
    assert expanded_nodes(model) == len(small.conv().graph.node) + 2**10


def test_a_long_chain_of_functions_is_counted_without_recursion(tmp_path: Path) -> None:
    assert expanded_nodes(calling(5000, calls=1)) == len(small.conv().graph.node) + 1


def test_a_model_without_an_ir_version_is_refused(tmp_path: Path) -> None:
    bare = small.relu()
    bare.ClearField("ir_version")
    with pytest.raises(InvalidModel, match="IR version"):
        graph.load(written(tmp_path, bare.SerializeToString()))


def test_a_file_beyond_what_protobuf_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_loader, "PROTOBUF_BYTES_MAX", 10)
    with pytest.raises(ModelTooLarge, match="2 GiB"):
        graph.load(small.write(tmp_path / "m.onnx", small.relu()))


# --- inputs and facts -----------------------------------------------------------------------------
def test_symbolic_unnamed_and_missing_axes_are_told_apart() -> None:
    model = small.add(["N", 3, None, -1], None)
    one, other = graph.graph_inputs(model)
    assert one.shape == ("N", 3, None, None)
    assert one.shape_text() == "[N, 3, ?, ?]"
    assert not one.is_static
    assert other.shape == ("...",)
    assert not other.is_static
    assert not other.is_rank_known
    assert TensorSpec("x", (1, 2), "float32").is_static


@pytest.mark.parametrize(
    ("elem_type", "name"),
    [
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.INT64, "int64"),
        (TensorProto.STRING, "string"),
        (0, "unknown"),
        (99, "unknown"),
    ],
)
def test_types_have_numpy_names(elem_type: int, name: str) -> None:
    (spec,) = graph.graph_inputs(small.relu(dtype=elem_type))
    assert spec.dtype == name


def test_an_input_that_is_no_tensor_says_so() -> None:
    sequence = helper.make_tensor_sequence_value_info("x", 1, [1])
    model = small.model([helper.make_node("SequenceLength", ["x"], ["y"])], [sequence], [small.value("y", [], 7)])
    assert graph.graph_inputs(model)[0].dtype == "sequence"


def test_the_facts_of_a_small_model() -> None:
    facts = graph.facts(small.conv())
    assert facts["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}]
    assert facts["operators"] == {"Conv": 1, "Relu": 1}
    assert (facts["nodes"], facts["parameters"], facts["macs"]) == (2, 108, 8 * 8 * 4 * 27)
    assert (facts["opset"], facts["ir_version"], facts["producer"]) == (13, 8, "tests 1")
    assert facts["opsets"] == {"ai.onnx": 13}


def test_macs_are_unknown_where_shapes_are_and_zero_without_products() -> None:
    assert graph.facts(small.conv((1, 3, "H", "W")))["macs"] is None
    assert graph.facts(small.relu((1, "H")))["macs"] == 0


def test_macs_are_unknown_where_shape_inference_gives_up() -> None:
    model = small.conv()
    del model.graph.node[0].input[:]
    assert graph.facts(model)["macs"] is None


def product(node: onnx.NodeProto, shape: list[int], weight: tuple[int, ...], out: int = 2) -> int | None:
    tensor = numpy_helper.from_array(np.zeros(weight, np.float32), "w")
    model = small.model([node], [small.value("x", shape)], [small.value("y", [None] * out)], [tensor])
    macs: int | None = graph.facts(model)["macs"]
    return macs


def test_macs_of_every_kind_of_product() -> None:
    assert product(helper.make_node("MatMul", ["x", "w"], ["y"]), [5, 7, 11], (11, 13), 3) == 5 * 7 * 11 * 13
    assert product(helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), [11, 7], (11, 13)) == 7 * 11 * 13
    assert product(helper.make_node("Gemm", ["x", "w"], ["y"], transB=1), [7, 11], (13, 11)) == 7 * 11 * 13
    assert product(helper.make_node("Conv", ["x", "w"], ["y"], group=4), [1, 8, 5, 5], (8, 2, 3, 3), 4) == 9 * 8 * 18
    deconv = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    assert product(deconv, [1, 8, 5, 5], (8, 6, 2, 2), 4) == 8 * 25 * 6 * 4


def test_a_matrix_product_with_a_vector_of_rank_nought_gives_no_macs() -> None:
    assert product(helper.make_node("MatMul", ["x", "w"], ["y"]), [], (11, 13)) is None


def test_large_weights_do_not_reach_shape_inference() -> None:
    tensor = numpy_helper.from_array(np.zeros((400, 500), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = small.model([node], [small.value("x", [1, 400])], [small.value("y", [1, 500])], [tensor])
    constant = small.model(
        [helper.make_node("Constant", [], ["w"], value=tensor), node],
        [small.value("x", [1, 400])],
        [small.value("y", None)],
    )
    for built in (model, constant):
        assert len(graph.skeleton(built).SerializeToString()) < 1000
        assert graph.facts(built)["macs"] == 200_000
        assert graph.facts(built)["parameters"] == 200_000


def branch(name: str) -> onnx.GraphProto:
    weight = numpy_helper.from_array(np.zeros((4, 4), np.float32), f"w_{name}")
    node = helper.make_node("MatMul", ["x", f"w_{name}"], [f"y_{name}"])
    return helper.make_graph([node], name, [], [small.value(f"y_{name}", [1, 4])], [weight])


def test_nested_graphs_are_counted_and_leave_macs_unknown() -> None:
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else"))
    inputs = [small.value("x", [1, 4]), small.value("c", [], TensorProto.BOOL)]
    facts = graph.facts(small.model([node], inputs, [small.value("y", [1, 4])]))
    assert facts["operators"] == {"MatMul": 2, "If": 1}
    assert facts["nodes"] == 3
    assert facts["parameters"] == 32
    assert facts["macs"] is None


def test_operators_of_other_domains_carry_their_domain() -> None:
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    model = small.model([node], [small.value("x", [1])], [small.value("y", [1])], domains=[("com.microsoft", 1)])
    assert graph.facts(model)["operators"] == {"com.microsoft.Gelu": 1}
    assert graph.facts(model)["opsets"] == {"ai.onnx": 13, "com.microsoft": 1}


# --- fixing shapes --------------------------------------------------------------------------------
def test_a_lone_symbolic_batch_becomes_one() -> None:
    model = small.conv(("N", 3, 8, 8))
    model.graph.value_info.append(small.value("c", ["N", 4, 8, 8]))
    (sentence,) = graph.fix_shapes(model, {})
    assert sentence == "input 'x': shape [N, 3, 8, 8] fixed to [1, 3, 8, 8]"
    assert graph.graph_inputs(model)[0].shape == (1, 3, 8, 8)
    assert graph.graph_outputs(model)[0].shape[:2] == (1, 4)
    assert not model.graph.value_info


def test_a_fixed_model_is_left_as_it_is() -> None:
    model = small.conv()
    model.graph.value_info.append(small.value("c", [1, 4, 8, 8]))
    before = model.SerializeToString()
    assert graph.fix_shapes(model, {"x": (1, 3, 8, 8)}) == []
    assert model.SerializeToString() == before


def test_given_shapes_are_applied_also_to_inputs_without_a_rank() -> None:
    model = small.add(["N", 3, "H", "W"], None)
    graph.fix_shapes(model, {"a": (2, 3, 4, 5), "b": (4, 5)})
    assert [spec.shape for spec in graph.graph_inputs(model)] == [(2, 3, 4, 5), (4, 5)]


def test_an_axis_name_that_one_shape_settles_is_settled_everywhere() -> None:
    model = small.add(["N", "L"], ["N", "L"])
    graph.fix_shapes(model, {"a": (2, 16)})
    assert [spec.shape for spec in graph.graph_inputs(model)] == [(2, 16), (2, 16)]


def test_unknown_axes_other_than_batch_are_refused_with_an_example() -> None:
    model = small.conv(("N", 3, "H", "W"))
    before = model.SerializeToString()
    with pytest.raises(DynamicShape, match=r"'x' \[N, 3, H, W\]") as caught:
        graph.fix_shapes(model, {})
    assert 'input_shapes, for example {"x": [1, 3, 224, 224]}' in caught.value.hint
    assert caught.value.detail == {"inputs": [{"name": "x", "shape": ["N", 3, "H", "W"], "example": [1, 3, 224, 224]}]}
    assert model.SerializeToString() == before


def test_the_example_of_what_is_no_picture_makes_none_of_it() -> None:
    with pytest.raises(DynamicShape) as caught:
        graph.fix_shapes(small.add([2, "batch", 128], ["n", "points", 2]), {})
    assert '{"a": [2, 1, 128], "b": [1, 1, 2]}' in caught.value.hint


def test_an_input_without_a_rank_is_refused() -> None:
    with pytest.raises(DynamicShape, match=r"\[\.\.\.\]"):
        graph.fix_shapes(small.relu(None), {})


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((1, 3, 8), "4 axes, not 3"), ((1, 4, 8, 8), "axis 1 is 3, not 4")],
)
def test_a_given_shape_that_contradicts_the_model_is_refused(shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(DynamicShape, match=reason):
        graph.fix_shapes(small.conv(("N", 3, "H", "W")), {"x": shape})


def test_one_axis_name_cannot_have_two_sizes() -> None:
    with pytest.raises(DynamicShape, match="axis 0 is 2, not 3"):
        graph.fix_shapes(small.add(["N"], ["N"]), {"a": (2,), "b": (3,)})


def test_axes_that_are_all_named_with_a_question_mark_may_have_different_sizes() -> None:
    model = small.conv()
    for axis in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        axis.dim_param = "?"
    name = model.graph.input[0].name
    assert graph.graph_inputs(model)[0].shape[2:] == (None, None)
    graph.fix_shapes(model, {name: (1, 3, 16, 24)})
    assert graph.graph_inputs(model)[0].shape == (1, 3, 16, 24)


def test_a_shape_for_an_unknown_input_is_refused_naming_the_real_ones() -> None:
    with pytest.raises(BadInput, match=r"'image'.*\['x'\]"):
        graph.fix_shapes(small.conv(), {"image": (1, 3, 8, 8)})


# --- the order of nodes ---------------------------------------------------------------------------
def unsorted() -> onnx.ModelProto:
    """y = If(flag, Relu(-x), ...), each node before those that it reads."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["t1"], ["t2"]), helper.make_node("Neg", ["late"], ["t1"])],
        "then",
        [],
        [small.value("t2", [2])],
    )
    otherwise = helper.make_graph([helper.make_node("Neg", ["late"], ["e"])], "else", [], [small.value("e", [2])])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=otherwise),
        helper.make_node("Abs", ["x"], ["late"]),
        helper.make_node("Constant", [], ["flag"], value=numpy_helper.from_array(np.array(True))),
    ]
    return small.model(nodes, [small.value("x", [2])], [small.value("y", [2])])


def test_nodes_are_sorted_in_nested_graphs_and_before_those_that_read_them_there() -> None:
    model = unsorted()
    with pytest.raises(onnx.checker.ValidationError, match="topologically"):
        onnx.checker.check_model(model)
    assert len(graph.sort_nodes(model)) == 1
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node][-1] == "If"
    assert graph.sort_nodes(model) == []


def test_what_is_in_order_or_in_a_circle_stays_as_it_is() -> None:
    model, circle = small.conv(), small.relu()
    circle.graph.node[0].input[0] = circle.graph.node[0].output[0]
    for each in (model, circle):
        before = each.SerializeToString()
        assert graph.sort_nodes(each) == []
        assert each.SerializeToString() == before
