"""Facts about a model and warnings as JSON: in answers of the sandbox, in records and in reports."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class GraphTensor(TypedDict):
    name: str
    shape: list[Any]
    """Numbers, names of symbolic axes, None for unnamed unknown axes; ["..."] if even the rank is unknown."""
    dtype: str
    """See TensorSpec."""


class GraphFacts(TypedDict):
    inputs: list[GraphTensor]
    outputs: list[GraphTensor]
    opset: int
    opsets: dict[str, int]
    """Version by domain."""
    ir_version: int
    producer: str
    operators: dict[str, int]
    """Number of nodes by type, the most frequent first; nested graphs count."""
    nodes: int
    parameters: int
    """Elements of all stored tensors."""
    macs: int | None
    """Multiply-accumulates of a run; None if they cannot be counted."""
    size_bytes: NotRequired[int]


class MissingOperator(TypedDict):
    """An operator that the NPU of a chip probably cannot run."""

    operator: str
    count: int
    nodes: list[str]
    """The names of the first 5."""
    note: str


class WarningRow(TypedDict):
    code: str
    message: str
    detail: Any
