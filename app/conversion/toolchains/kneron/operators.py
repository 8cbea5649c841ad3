"""Which operators of a graph the NPU of a chip probably lacks. A forecast: the vendor's evaluator has the last word.

Facts: operators.json, from the vendor's operator table (vendor manual v0.33.1, CC BY-SA 4.0). "Not on the NPU" is no
failure by itself: the optimizer folds or decomposes operators, and the chip's CPU runs some.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from app.conversion.options import Chip
from app.conversion.toolchains.facts import MissingOperator

if TYPE_CHECKING:  # pages show the table and read no model
    import onnx

FOLDED = frozenset({"Constant", "ConstantOfShape", "Dropout", "Identity", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators that the vendor's optimizer removes or turns into a Reshape."""

SOFT_NOTES = {
    "Softmax": "the toolchain may split it into Exp, ReduceSum and Div",
    "LogSoftmax": "the toolchain may split it into Exp, ReduceSum, Div and Log",
    "HardSwish": "the toolchain may split it into HardSigmoid and Mul",
    "Split": "the toolchain may split it into Slice operators, or run it on the chip's CPU",
    "TopK": "the toolchain may run it on the chip's CPU",
    "Einsum": "the toolchain may split it into MatMul and Transpose",
    "Cast": "casts that change nothing are removed by the optimizer",
    "Reshape": "a Reshape whose target is constant is often removed by the optimizer",
    "Flatten": "a Flatten in front of Gemm is often removed by the optimizer",
}
HARD_NOTE = "not in the vendor's list for this chip: expect it on the chip's CPU, or cut it off and compute it outside"

CONV_STRIDE_LIMIT = (4, 16)  # height, width; KL520 and KL720
CONV_KERNEL_LIMIT = 12  # KL520


@cache
def _load_table() -> dict[str, dict[str, str]]:
    text = files("app.conversion.toolchains.kneron").joinpath("operators.json").read_text("utf-8")
    ops: dict[str, dict[str, str]] = json.loads(text)["ops"]
    return ops


def runs_on_npu(chip: Chip, operator: str) -> bool:
    """Returns whether the vendor lists the operator for this chip, perhaps under a condition."""
    return _load_table().get(operator, {}).get(chip.value, "N").startswith("Y")


def probably_missing(chip: Chip, model: onnx.ModelProto) -> list[MissingOperator]:
    """Returns the operators that the chip's NPU probably cannot run, most frequent first; folded ones are omitted."""
    from app.conversion.toolchains import graph

    nodes_by_note: dict[tuple[str, str], list[str]] = {}
    for node in graph.nodes(model):
        note = _note(chip, node)
        if note:
            nodes_by_note.setdefault((node.op_type, note), []).append(
                node.name or (node.output[0] if node.output else "")
            )
    entries: list[MissingOperator] = [
        {"operator": operator, "count": len(names), "nodes": names[:5], "note": note}
        for (operator, note), names in nodes_by_note.items()
    ]
    return sorted(entries, key=lambda entry: (-len(nodes_by_note[entry["operator"], entry["note"]]), entry["operator"]))


def _note(chip: Chip, node: onnx.NodeProto) -> str:
    if node.domain not in ("", "ai.onnx"):
        return f"operator of domain {node.domain}, which the toolchain does not know"
    if node.op_type in FOLDED:
        return ""
    if not runs_on_npu(chip, node.op_type):
        return SOFT_NOTES.get(node.op_type, HARD_NOTE)
    return _check_conv(chip, node) if node.op_type == "Conv" else ""


def _check_conv(chip: Chip, node: onnx.NodeProto) -> str:
    """Checks the limits of Conv: kernel at most 12 on KL520; stride at most 4 high and 16 wide on KL520 and KL720."""
    numbers = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    kernel, strides = numbers.get("kernel_shape", []), numbers.get("strides", [])
    if chip is Chip.KL520 and max(kernel, default=0) > CONV_KERNEL_LIMIT:
        return f"a kernel of {'x'.join(map(str, kernel))} is larger than {CONV_KERNEL_LIMIT}"
    if chip not in (Chip.KL520, Chip.KL720) or len(strides) != 2:
        return ""
    if strides[0] > CONV_STRIDE_LIMIT[0] or strides[1] > CONV_STRIDE_LIMIT[1]:
        return f"a stride of {strides[0]}x{strides[1]} is larger than {CONV_STRIDE_LIMIT[0]}x{CONV_STRIDE_LIMIT[1]}"
    return ""


def source() -> str:
    """Returns the source of the operator facts, which is shown beside them."""
    text = files("app.conversion.toolchains.kneron").joinpath("operators.json").read_text("utf-8")
    return str(json.loads(text)["source"])
