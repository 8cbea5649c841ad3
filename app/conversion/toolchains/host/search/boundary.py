"""Where post-processing in float begins: how many of the last layers belong to it, besides what follows them."""

from __future__ import annotations

from collections.abc import Iterator

from app.conversion.toolchains.host.quantization_plan import WEIGHTED
from app.conversion.toolchains.host.search.template import Template

DEPTH_MOST = 4
SHARE_MOST = 0.2
"""Of all activations and weights, at most, that the last layers may have."""


def boundaries(template: Template, share: float = SHARE_MOST) -> Iterator[frozenset[str]]:
    """Yields which activations and weights stay in float: the outputs of the last layers, then those layers as well,
    then the layers before them, and so on.

    Args:
        share: of all activations and weights, at most.
    """
    depths = _measure_depths(template)
    layers = {node.name: node for node in template.float_model.graph.node}
    made = {name: node for node in layers.values() for name in node.output}
    most = share * (len(template.activations) + len(template.weights))
    before = frozenset[str]()
    for depth in range(1, DEPTH_MOST + 1):
        within = {name for name, own in depths.items() if own <= depth - (layers[name].op_type not in WEIGHTED)}
        activations = {
            one.name
            for one in template.activations
            if all(tensor in made and made[tensor].name in within for tensor in one.tensors)
        }
        weights = {one.name for one in template.weights if one.layer in within}
        for tensors in (frozenset(activations) | before, frozenset(activations | weights)):
            if tensors != before and len(tensors) <= most:
                yield tensors
            before = tensors


def _measure_depths(template: Template) -> dict[str, int]:
    """Returns the largest number of weighted layers on a path from each node to an output, by its name, itself
    included."""
    after: dict[str, int] = {}
    depths: dict[str, int] = {}
    for node in reversed(template.float_model.graph.node):
        below = max((after.get(name, 0) for name in node.output), default=0)
        depths[node.name] = below + (node.op_type in WEIGHTED)
        for name in node.input:
            after[name] = max(after.get(name, 0), depths[node.name])
    return depths
