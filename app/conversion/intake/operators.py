"""Does every node use an operator that exists, in the version the model declares?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx

from app.conversion.errors import InvalidModel, UnsupportedOperator
from app.conversion.toolchains import graph
from app.conversion.toolchains.graph.specs import DEFAULT_DOMAINS

ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")
NAMED_AT_MOST = 5


def refuse_unknown_operators(model: onnx.ModelProto, *, allowed: Collection[str]) -> None:
    """allowed: domains whose operators are taken without a look. Raises UnsupportedOperator, InvalidModel."""
    versions = {_domain(entry.domain): int(entry.version) for entry in model.opset_import}
    local = {(_domain(function.domain), function.name) for function in model.functions}
    unknown: dict[tuple[str, str], list[str]] = {}
    for node in graph.nodes(model):
        domain = _domain(node.domain)
        if (domain, node.op_type) in local or domain in allowed:
            continue
        if domain in ONNX_DOMAINS and domain not in versions:
            raise InvalidModel(
                f"node {_name(node)!r} uses the operator set {domain or 'ai.onnx'}, which the model does not import",
                hint="Add it to the model's opset_import, or export it again.",
            )
        if not _exists(node.op_type, domain, versions):
            unknown.setdefault((domain, node.op_type), []).append(_name(node))
    if unknown:
        raise _unsupported(unknown, versions)


def _exists(operator: str, domain: str, versions: dict[str, int]) -> bool:
    if domain not in ONNX_DOMAINS:
        return False
    try:
        return not onnx.defs.get_schema(operator, versions[domain], domain).deprecated
    except onnx.defs.SchemaError:
        return False


def _unsupported(unknown: dict[tuple[str, str], list[str]], versions: dict[str, int]) -> UnsupportedOperator:
    (domain, operator), names = next(iter(unknown.items()))
    where = f"of domain {domain}" if domain not in ONNX_DOMAINS else f"in opset {versions[domain]}"
    others = f"; {len(unknown) - 1} more unknown operators" if len(unknown) > 1 else ""
    listed: list[dict[str, Any]] = [
        {"operator": op, "domain": dom, "count": len(found), "nodes": found[:NAMED_AT_MOST]}
        for (dom, op), found in unknown.items()
    ]
    return UnsupportedOperator(
        f"operator {operator} {where} (node {names[0]!r}) is not known{others}",
        hint="Export the model without it, or cut the graph before it (onnx.utils.extract_model).",
        detail={"operators": listed},
    )


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name


def _name(node: onnx.NodeProto) -> str:
    return node.name or (node.output[0] if node.output else node.op_type)
