"""Checks an uploaded model against what a toolchain accepts, before any stage runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from app.conversion.errors import ModelTooLarge, UnsupportedInput
from app.conversion.intake.expected_range import expectation_of
from app.conversion.intake.preprocess_recognition import Recognition, recognize
from app.conversion.intake.range_checks import ExpectedRange
from app.conversion.options import Options, ToolchainName
from app.conversion.toolchains import graph
from app.conversion.toolchains.facts import GraphFacts, WarningRow
from app.conversion.toolchains.graph import TensorSpec
from app.conversion.toolchains.graph.specs import DEFAULT_DOMAINS
from app.inference.errors import InvalidModel, UnsupportedOperator
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import reason_of


@dataclass(frozen=True)
class ModelLimits:
    """What a toolchain accepts."""

    versions: graph.ReadableVersions
    dtypes: frozenset[str]
    domains: frozenset[str] = frozenset()
    """Domains whose operators are accepted without a check, in addition to those of ONNX itself."""


_NUMBERS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
READS = {
    ToolchainName.HOST: ModelLimits(
        graph.HOST, dtypes=frozenset((*_NUMBERS, "bool")), domains=frozenset({"com.microsoft"})
    ),
    ToolchainName.KNERON: ModelLimits(graph.KNERON, dtypes=frozenset({"float32"})),
}


@dataclass(frozen=True)
class CheckedModel:
    """The result of the checks of a model."""

    facts: GraphFacts
    """Of the model with fixed shapes."""
    inputs: list[TensorSpec]
    expectation: ExpectedRange = field(default_factory=ExpectedRange)
    """The values that the model expects, judging by its first layers."""
    recognition: Recognition | None = None
    """The preprocessing with which it was trained; None for a model that does not take pictures."""
    changes: list[str] = field(default_factory=list)
    warnings: list[WarningRow] = field(default_factory=list)


def check_model(path: Path, options: Options, *, max_bytes: int, as_it_is: bool = False) -> CheckedModel:
    """Checks everything that can be checked without running the model. The file is not changed.

    Args:
        max_bytes: largest size of the file.
        as_it_is: whether the file is run without a conversion, so that its versions have to be read.

    Raises:
        ModelTooLarge: The file is larger.
        TooNewModel, InvalidModel, UnsupportedInput, UnsupportedOperator: The toolchain cannot use the model.
        DynamicShape: The shape of an input is open.
        BadInput: A given shape does not fit, or what graph.load raises.
    """
    size = path.stat().st_size
    if size > max_bytes:
        raise ModelTooLarge(
            f"the model has {size:,} bytes; {max_bytes:,} are allowed",
            hint="Send a smaller model.",
            detail={"size_bytes": size, "max_bytes": max_bytes},
        )
    model = graph.load(path)
    reads = READS[options.toolchain]
    if as_it_is:
        graph.refuse_versions(model, reads.versions)
    changes = graph.fit_versions(model, reads.versions)
    refuse_unknown_operators(model, allowed=reads.domains)
    _refuse_types(graph.graph_inputs(model), reads)
    changes += graph.sort_nodes(model)
    _refuse_broken_rules(model, None if changes else path)
    changes += graph.fix_shapes(model, options.input_shapes)
    inputs = graph.graph_inputs(model)
    if options.toolchain is ToolchainName.KNERON:
        _refuse_batch(inputs)
    facts: GraphFacts = {**graph.facts(model), "size_bytes": size}
    warnings = _collect_chip_warnings(options, model)
    return CheckedModel(facts, inputs, expectation_of(model), recognize(model), changes, warnings)


def _refuse_types(inputs: Sequence[TensorSpec], reads: ModelLimits) -> None:
    if not inputs:
        raise UnsupportedInput(
            "the model takes no inputs, so there is nothing to calibrate", hint="Export it with inputs."
        )
    wrong = next((spec for spec in inputs if spec.dtype not in reads.dtypes), None)
    if wrong is not None:
        raise UnsupportedInput(
            f"input {wrong.name!r} is {wrong.dtype}; {reads.versions.label} takes {', '.join(sorted(reads.dtypes))}",
            hint="Export the model with float32 inputs.",
            detail={"input": wrong.name, "dtype": wrong.dtype},
        )


def _refuse_broken_rules(model: onnx.ModelProto, path: Path | None) -> None:
    """Runs onnx's own checker. If there is a file, the checker reads it by itself, which avoids a copy of a large
    model.

    It insists on the rank of every input and output, which runtimes do not need and exporters leave out; such models
    are checked in memory with a temporary rank.
    """
    rankless = [v for v in (*model.graph.input, *model.graph.output) if not _has_rank(v)]
    for value in rankless:
        value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(model if rankless or path is None else str(path))
    except (onnx.checker.ValidationError, RuntimeError, ValueError, MemoryError) as error:
        reason = reason_of(error, 300)
        raise InvalidModel(
            f"the model breaks the rules of ONNX: {reason}",
            hint="Check it with onnx.checker.check_model and export it again.",
            detail={"checker_message": str(error)[:1000]},
        ) from error
    for value in rankless:
        value.type.tensor_type.ClearField("shape")


def _has_rank(value: onnx.ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") != "tensor_type" or bool(value.type.tensor_type.HasField("shape"))


def _refuse_batch(inputs: Sequence[TensorSpec]) -> None:
    batched = next((spec for spec in inputs if len(spec.shape) > 1 and spec.shape[0] != 1), None)
    if batched is not None:
        raise UnsupportedInput(
            f"input {batched.name!r} has the shape {batched.shape_text()}; Kneron chips run batches of 1",
            hint="Export the model with batch size 1.",
            detail={"input": batched.name, "shape": list(batched.shape)},
        )


def _collect_chip_warnings(options: Options, model: onnx.ModelProto) -> list[WarningRow]:
    if options.platform is None:
        return []
    from app.conversion.toolchains.kneron.operators import probably_missing

    return [
        {
            "code": "OPERATOR_PROBABLY_NOT_ON_NPU",
            "message": f"{entry['operator']} ({entry['count']} nodes) is probably not run by the NPU of chip "
            f"{options.platform.value}: {entry['note']}",
            "detail": entry,
        }
        for entry in probably_missing(options.platform, model)
    ]


ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")
NAMED_AT_MOST = 5


def refuse_unknown_operators(model: onnx.ModelProto, *, allowed: Collection[str]) -> None:
    """Check that every operator exists in the version that the model declares.

    Args:
        allowed: Domains whose operators are accepted unseen.

    Raises:
        UnsupportedOperator, InvalidModel: An operator, or its operator set, is not known.
    """
    versions = {_name_domain(entry.domain): int(entry.version) for entry in model.opset_import}
    local = {(_name_domain(function.domain), function.name) for function in model.functions}
    unknown: dict[tuple[str, str], list[str]] = {}
    for node in graph.nodes(model):
        domain = _name_domain(node.domain)
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
        raise _make_unsupported(unknown, versions)


def _exists(operator: str, domain: str, versions: dict[str, int]) -> bool:
    if domain not in ONNX_DOMAINS:
        return False
    try:
        return not onnx.defs.get_schema(operator, versions[domain], domain).deprecated
    except onnx.defs.SchemaError:
        return False


def _make_unsupported(unknown: dict[tuple[str, str], list[str]], versions: dict[str, int]) -> UnsupportedOperator:
    (domain, operator), names = next(iter(unknown.items()))
    where = f"of domain {domain}" if domain not in ONNX_DOMAINS else f"in opset {versions[domain]}"
    others = f"; {len(unknown) - 1} more unknown operators" if len(unknown) > 1 else ""
    listed: list[JsonObject] = [
        {"operator": op, "domain": dom, "count": len(nodes), "nodes": nodes[:NAMED_AT_MOST]}
        for (dom, op), nodes in unknown.items()
    ]
    return UnsupportedOperator(
        f"operator {operator} {where} (node {names[0]!r}) is not known{others}",
        hint="Export the model without it, or cut the graph before it (onnx.utils.extract_model).",
        detail={"operators": listed},
    )


def _name_domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name


def _name(node: onnx.NodeProto) -> str:
    return node.name or (node.output[0] if node.output else node.op_type)
