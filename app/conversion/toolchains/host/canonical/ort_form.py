"""The NEF of the host toolchain as a network: the ORT-format model in it, read by onnxruntime's own schema."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.conversion.toolchains.host.canonical.network import Graph, Network, Node, NotComparable
from app.inference.runtimes.sessions import read_nef

OF_FILES = frozenset({"files", "ancestors"})
"""Entries of the manifest with digests of files that are compared separately. Of the ancestors, the model is
compared."""


def read_host_nef(path: Path) -> Network:
    """Reads a host NEF as a network.

    Raises:
        InvalidModel, NotComparable: It is damaged, or not comparable.
    """
    session = _session_schema()
    manifest, content = read_nef(path)
    try:
        graph = _graph(session.GetRootAs(content, 0).Model().Graph())
    except (struct.error, AttributeError, IndexError, TypeError) as error:
        raise NotComparable(f"{path.name} holds no model in ORT format") from error
    facts = {name: json.dumps(value, sort_keys=True) for name, value in manifest.items() if name not in OF_FILES}
    return Network(graph, {**facts, "model": str(manifest.get("ancestors", {}).get("model"))})


def _session_schema() -> Any:
    """Loads the root of the schema without its package `onnxruntime.tools`, which would load PyTorch if installed."""
    specification = importlib.util.find_spec("onnxruntime")
    for package in (specification and specification.submodule_search_locations) or ():
        folder = str(Path(package, "tools", "ort_format_model"))
        if folder not in sys.path:
            sys.path.append(folder)  # its modules import each other from this package
    return importlib.import_module("ort_flatbuffers_py.fbs.InferenceSession").InferenceSession


def _graph(graph: Any) -> Graph:
    constants = {_text(tensor.Name()): _tensor(tensor) for tensor in _each(graph, "Initializers")}
    constants |= {_text(sparse.Values().Name()): _sparse(sparse) for sparse in _each(graph, "SparseInitializers")}
    inputs = tuple(name for name in map(_text, _each(graph, "Inputs")) if name not in constants)
    nodes = tuple(_node(node) for node in _each(graph, "Nodes"))
    return Graph(inputs, tuple(map(_text, _each(graph, "Outputs"))), constants, nodes)


def _node(node: Any) -> Node:
    operator = f"{_text(node.Domain()) or 'ai.onnx'}.{_text(node.OpType())}:{node.SinceVersion()}"
    attributes = {_text(one.Name()): _attribute(one) for one in _each(node, "Attributes")}
    return Node(
        operator, attributes, tuple(map(_text, _each(node, "Inputs"))), tuple(map(_text, _each(node, "Outputs")))
    )


def _attribute(one: Any) -> str | Graph:
    if one.G() is not None:
        return _graph(one.G())
    lists: dict[str, Callable[[Any], object]] = {
        "Floats": float,
        "Ints": int,
        "Strings": _text,
        "Tensors": _tensor,
    }
    parts = {name: [read(value) for value in _each(one, name)] for name, read in lists.items()}
    tensor = one.T()
    scalars = [one.Type(), one.F(), one.I(), _text(one.S()), _tensor(tensor) if tensor is not None else ""]
    return hashlib.sha256(json.dumps([scalars, parts], sort_keys=True).encode()).hexdigest()


def _tensor(tensor: Any) -> str:
    digest = hashlib.sha256(f"{tensor.DataType()}:{list(_each(tensor, 'Dims'))}:".encode())
    if not tensor.RawDataIsNone():
        digest.update(tensor.RawDataAsNumpy().tobytes())
    for text in _each(tensor, "StringData"):
        digest.update(f"{_text(text)}\n".encode())
    return digest.hexdigest()


def _sparse(sparse: Any) -> str:
    return f"{_tensor(sparse.Values())}{_tensor(sparse.Indices())}{list(_each(sparse, 'Dims'))}"


def _each(table: Any, name: str) -> Iterator[Any]:
    """Yields the entries of a vector of the schema."""
    entry = getattr(table, name)
    return (entry(place) for place in range(getattr(table, f"{name}Length")()))


def _text(value: bytes | None) -> str:
    return value.decode("utf-8", "replace") if value else ""
