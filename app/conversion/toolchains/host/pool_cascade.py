"""Makes several maxima over the same tensor (SPP) start from each other, which computes the same with less work: the
maximum of 13 × 13 values is that of 5 × 5 maxima of 9 × 9, with 25 comparisons instead of 169.

onnxruntime pools integers without vector instructions where no convolution in integers is a neighbor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from app.conversion.toolchains.graph import sort_nodes
from app.conversion.toolchains.host.search.constants import attribute


def cascade_pools(model: Any) -> list[str]:
    """Makes each such MaxPool read the next smaller one.

    Args:
        model: onnx.ModelProto, which is changed.

    Returns:
        A sentence if anything changed.
    """
    by_tensor: dict[str, list[Any]] = {}
    for node in model.graph.node:
        if node.op_type == "MaxPool" and _is_centered(node):
            by_tensor.setdefault(node.input[0], []).append(node)
    changed = 0
    for pools in by_tensor.values():
        by_side = {_get_side(node): node for node in pools}
        sides = sorted(by_side)
        for before, side in pairwise(sides):
            for node in [node for node in pools if _get_side(node) == side]:
                node.input[0] = by_side[before].output[0]
                _write(node, "kernel_shape", [side - before + 1] * 2)
                _write(node, "pads", [(side - before) // 2] * 4)
                changed += 1
    if not changed:
        return []
    sort_nodes(model)
    return [f"{changed} maxima start from smaller ones"]


def _is_centered(node: Any) -> bool:
    """Returns whether a MaxPool keeps the size, with a square of an odd side around each place."""
    shape = list(attribute(node, "kernel_shape", []))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] % 2 == 0 or len(node.output) != 1:
        return False
    ones = [*attribute(node, "strides", (1, 1)), *attribute(node, "dilations", (1, 1))]
    is_plain = attribute(node, "auto_pad", b"NOTSET") == b"NOTSET" and all(one == 1 for one in ones)
    return is_plain and list(attribute(node, "pads", (0,) * 4)) == [shape[0] // 2] * 4


def _get_side(node: Any) -> int:
    return int(attribute(node, "kernel_shape")[0])


def _write(node: Any, name: str, values: list[int]) -> None:
    """Sets an attribute of integers."""
    from onnx import helper

    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, values)])
