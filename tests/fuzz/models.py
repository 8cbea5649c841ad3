"""Models that parse, mostly, and lie: about sizes, types, order, what exists."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from tests.fuzz import corpus

BIG = (0, -1, -(2**31), 2**31 - 1, 2**31, 2**33, 2**40, 2**62, 2**63 - 1, 65536, 3)
PATHS = (
    "/etc/passwd",
    "../../secret",
    "weights.bin",
    "",
    "/dev/zero",
    "/proc/self/environ",
    "a\x00b",
    "x" * 5000,
    "C:\\x",
)
Mutation = Callable[[Random, onnx.ModelProto], None]
OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})


def input_dims(rng: Random, model: onnx.ModelProto) -> None:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    if rng.random() < 0.2:
        dims.extend(dims[0] for _ in range(rng.choice((1, 10, 200))))
    else:
        rng.choice(dims).dim_value = rng.choice(BIG)


def output_dims(rng: Random, model: onnx.ModelProto) -> None:
    dims = model.graph.output[0].type.tensor_type.shape.dim
    rng.choice(dims).dim_value = rng.choice(BIG)


def weight_dims(rng: Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(BIG)


def weight_bytes(rng: Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    tensor.raw_data = rng.choice((b"", tensor.raw_data[:-1], tensor.raw_data * 2, rng.randbytes(len(tensor.raw_data))))


def weight_type(rng: Random, model: onnx.ModelProto) -> None:
    rng.choice(model.graph.initializer).data_type = rng.choice(
        (0, 2, 3, 6, 7, 8, 9, 10, 11, 14, 16, 17, 21, 23, 99, -1)
    )


def weight_fields(rng: Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    tensor.float_data.extend([1.0] * rng.choice((1, 1000)))
    if rng.random() < 0.5:
        tensor.int64_data.append(2**62)
    if rng.random() < 0.5:
        tensor.ClearField("raw_data")


def weight_values(rng: Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    value = rng.choice((b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x01\x00\x00\x00"))
    tensor.raw_data = value * (len(tensor.raw_data) // 4)


def external(rng: Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    if rng.random() < 0.7:
        tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value=rng.choice(PATHS))
    tensor.external_data.add(key="offset", value=rng.choice(("0", "-1", "x", str(2**63))))
    tensor.external_data.add(key="length", value=rng.choice(("0", "-1", "9" * 30)))


def cycle(rng: Random, model: onnx.ModelProto) -> None:
    node, other = rng.choice(model.graph.node), rng.choice(model.graph.node)
    node.input[0] = other.output[0]


def missing(rng: Random, model: onnx.ModelProto) -> None:
    node = rng.choice(model.graph.node)
    what = rng.randrange(5)
    if what == 0:
        node.input[rng.randrange(len(node.input))] = rng.choice(("", "nowhere"))
    elif what == 1:
        del node.input[:]
    elif what == 2:
        del node.output[:]
    elif what == 3:
        node.output[0] = rng.choice(("", "x", "y", model.graph.node[0].output[0]))
    else:
        del model.graph.initializer[rng.randrange(len(model.graph.initializer))]


def operator(rng: Random, model: onnx.ModelProto) -> None:
    node = rng.choice(model.graph.node)
    node.op_type = rng.choice(OPERATORS)
    if rng.random() < 0.5:
        del node.attribute[:]
    if rng.random() < 0.2:
        node.domain = rng.choice(("com.microsoft", "ai.onnx.ml", "evil", "x" * 3000))


def attribute(rng: Random, model: onnx.ModelProto) -> None:
    node = rng.choice(model.graph.node)
    names = (
        "pads",
        "strides",
        "kernel_shape",
        "group",
        "dilations",
        "axis",
        "epsilon",
        "auto_pad",
        "momentum",
        "value",
    )
    values = (
        -1,
        0,
        2**31,
        2**62,
        1.5,
        float("nan"),
        "SAME_UPPER",
        [0, 0],
        [-5] * 4,
        [2**40] * 2,
        [],
        "x" * 9999,
        [1.0],
    )
    name = rng.choice(names)
    kept = [entry for entry in node.attribute if entry.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    value = rng.choice(values)
    if value == []:
        node.attribute.add(name=name, type=onnx.AttributeProto.INTS)
    else:
        node.attribute.append(helper.make_attribute(name, value))


def attribute_kind(rng: Random, model: onnx.ModelProto) -> None:
    node = rng.choice(model.graph.node)
    if node.attribute:
        rng.choice(node.attribute).type = rng.randrange(0, 18)
    else:
        node.attribute.add(name=rng.choice(("", "g", "body")), type=rng.randrange(0, 15))


def giant(rng: Random, model: onnx.ModelProto) -> None:
    """A few bytes that ask for a lot: constant folding would make terabytes of them."""
    size = rng.choice((2**28, 2**33, 2**40, 2**62))
    shape = helper.make_tensor("huge", TensorProto.INT64, [1], [size])
    model.graph.initializer.append(shape)
    kind = rng.choice(("ConstantOfShape", "Expand", "Tile", "Range"))
    inputs = {"ConstantOfShape": ["huge"], "Expand": ["b1", "huge"], "Tile": ["b1", "huge"]}.get(kind)
    if inputs is None:
        model.graph.initializer.append(helper.make_tensor("zero", TensorProto.INT64, [], [0]))
        model.graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [], [1]))
        model.graph.initializer.append(helper.make_tensor("end", TensorProto.INT64, [], [size]))
        inputs = ["zero", "end", "one"]
    model.graph.node.append(helper.make_node(kind, inputs, ["giant"], "giant"))
    model.graph.node.append(helper.make_node("Cast", ["giant"], ["giant_float"], "cast", to=TensorProto.FLOAT))
    model.graph.node.append(helper.make_node("ReduceSum", ["giant_float"], ["sum"], "sum", keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, []))


def nested(rng: Random, model: onnx.ModelProto) -> None:
    """If in If in If."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["b1"], ["deep"])],
        "leaf",
        [],
        [helper.make_tensor_value_info("deep", TensorProto.FLOAT, None)],
    )
    for level in range(rng.choice((2, 10, 20, 24))):  # protobuf would not build more than a hundred messages deep
        name = f"level{level}"
        node = helper.make_node(
            "If", ["yes"], [name], then_branch=graph, else_branch=helper.make_graph([], "e", [], [])
        )
        graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    model.graph.node.extend(graph.node)


def _deeper(rng: Random, data: bytes) -> bytes:
    """The model with graphs in graphs as no library would write them."""
    graph = b""
    for _ in range(rng.choice((30, 300, 5000))):
        graph = _field(1, _field(5, _field(6, graph)))
    return data + _field(7, graph)


def _field(number: int, data: bytes) -> bytes:
    size, varint = len(data), bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *varint, size]) + data


def versions(rng: Random, model: onnx.ModelProto) -> None:
    what = rng.randrange(4)
    if what == 0:
        model.opset_import[0].version = rng.choice((0, -1, 1, 6, 7, 9, 99, 2**62))
    elif what == 1:
        model.opset_import.add(
            domain=rng.choice(("", "ai.onnx", "evil", "ai.onnx.ml")), version=rng.choice((1, 99, -1))
        )
    elif what == 2:
        del model.opset_import[:]
    else:
        model.ir_version = rng.choice((0, 1, 2, 3, 13, 99, -1, 2**62))


def interface(rng: Random, model: onnx.ModelProto) -> None:
    graph = model.graph
    what = rng.randrange(7)
    if what == 0:
        del graph.input[:]
    elif what == 1:
        del graph.output[:]
    elif what == 2:
        graph.input.append(graph.input[0])
    elif what == 3:
        graph.output[0].name = rng.choice(("", "nowhere", "x"))
    elif what == 4:
        graph.input[0].type.tensor_type.elem_type = rng.choice((0, 7, 8, 9, 10, 16, 99, -1))
    elif what == 5:
        graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    else:
        graph.output.append(helper.make_tensor_value_info("w1", TensorProto.FLOAT, None))


def functions(rng: Random, model: onnx.ModelProto) -> None:
    """A function of the model's own, which may call itself."""
    body = [helper.make_node(rng.choice(("Own", "Relu")), ["a"], ["b"], domain=rng.choice(("own", "")))]
    made = helper.make_function(
        "own", "Own", ["a"], ["b"], body, [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    )
    model.functions.extend([made] * rng.choice((1, 2)))
    model.opset_import.add(domain="own", version=1)
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type, relu.domain = "Own", "own"


def sparse(rng: Random, model: onnx.ModelProto) -> None:
    values = helper.make_tensor(rng.choice(("s", "", "w1")), TensorProto.FLOAT, [2], [1, 2])
    indices = helper.make_tensor("i", TensorProto.INT64, [2], [0, rng.choice(BIG)])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [rng.choice(BIG), 4]))


def names(rng: Random, model: onnx.ModelProto) -> None:
    node = rng.choice(model.graph.node)
    node.name = rng.choice(("", "../../x", "<script>alert(1)</script>", "a\x00b", "\u202e", "n" * 20000, "%s%n{0}"))
    model.graph.input[0].name = rng.choice(("x", "in/put:0", "a\x00", "x" * 5000))
    model.graph.node[0].input[0] = model.graph.input[0].name
    model.producer_name = rng.choice(("", "<b>", "p" * 100_000))


def many(rng: Random, model: onnx.ModelProto) -> None:
    """Thousands of nodes, one after another or side by side."""
    count = rng.choice((300, 2000))
    last = model.graph.output[0].name
    for number in range(count):
        source = last if rng.random() < 0.5 or not number else f"m{number - 1}"
        model.graph.node.append(helper.make_node("Identity", [source], [f"m{number}"]))


MUTATIONS: tuple[Mutation, ...] = (
    input_dims,
    output_dims,
    weight_dims,
    weight_bytes,
    weight_type,
    weight_fields,
    weight_values,
    external,
    cycle,
    missing,
    operator,
    operator,
    attribute,
    attribute,
    attribute_kind,
    giant,
    nested,
    versions,
    interface,
    functions,
    sparse,
    names,
    many,
)


def mutated(rng: Random, mutation: Mutation | None = None) -> tuple[str, bytes]:
    """Up to two lies in one model, and now and then bytes that are no text where text is expected.

    mutation: this lie alone.
    """
    model = onnx.load_from_string(corpus.pictures_model())
    chosen = [mutation] if mutation else [rng.choice(MUTATIONS) for _ in range(rng.choice((1, 1, 2)))]
    for mutation in chosen:
        try:
            mutation(rng, model)
        except (
            IndexError,
            StopIteration,
            ValueError,
            DecodeError,
        ):  # the first lie took away what the second was to change
            continue
    data = model.SerializeToString()
    name = "+".join(mutation.__name__ for mutation in chosen)
    if rng.random() < 0.03:
        return f"{name}+deeper", _deeper(rng, data)
    if rng.random() < 0.05:
        return f"{name}+no_text", data.replace(b"conv1", b"\xff\xfe\xc3v1").replace(b"norm", b"\xed\xa0\x80m")
    return name, data
