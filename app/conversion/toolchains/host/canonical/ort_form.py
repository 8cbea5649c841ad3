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
    session = _load_session_schema()
    manifest, content = read_nef(path)
    try:
        graph = _read_graph(session.GetRootAs(content, 0).Model().Graph())
    except (struct.error, AttributeError, IndexError, TypeError) as error:
        raise NotComparable(f"{path.name} holds no model in ORT format") from error
    facts = {name: json.dumps(value, sort_keys=True) for name, value in manifest.items() if name not in OF_FILES}
    return Network(graph, {**facts, "model": str(manifest.get("ancestors", {}).get("model"))})


def _load_session_schema() -> Any:
    """Loads the root of the schema without its package `onnxruntime.tools`, which would load PyTorch if installed."""
    specification = importlib.util.find_spec("onnxruntime")
    for package in (specification and specification.submodule_search_locations) or ():
        folder = str(Path(package, "tools", "ort_format_model"))
        if folder not in sys.path:
            sys.path.append(folder)  # its modules import each other from this package
    return importlib.import_module("ort_flatbuffers_py.fbs.InferenceSession").InferenceSession


def _read_graph(graph: Any) -> Graph:
    constants = {_read_text(tensor.Name()): _digest_tensor(tensor) for tensor in _iterate(graph, "Initializers")}
    constants |= {
        _read_text(sparse.Values().Name()): _digest_sparse(sparse) for sparse in _iterate(graph, "SparseInitializers")
    }
    inputs = tuple(name for name in map(_read_text, _iterate(graph, "Inputs")) if name not in constants)
    nodes = tuple(_read_node(node) for node in _iterate(graph, "Nodes"))
    return Graph(inputs, tuple(map(_read_text, _iterate(graph, "Outputs"))), constants, nodes)


def _read_node(node: Any) -> Node:
    operator = f"{_read_text(node.Domain()) or 'ai.onnx'}.{_read_text(node.OpType())}:{node.SinceVersion()}"
    attributes = {_read_text(one.Name()): _read_attribute(one) for one in _iterate(node, "Attributes")}
    return Node(
        operator,
        attributes,
        tuple(map(_read_text, _iterate(node, "Inputs"))),
        tuple(map(_read_text, _iterate(node, "Outputs"))),
    )


def _read_attribute(one: Any) -> str | Graph:
    if one.G() is not None:
        return _read_graph(one.G())
    lists: dict[str, Callable[[Any], object]] = {
        "Floats": float,
        "Ints": int,
        "Strings": _read_text,
        "Tensors": _digest_tensor,
    }
    parts = {name: [read(value) for value in _iterate(one, name)] for name, read in lists.items()}
    tensor = one.T()
    scalars = [one.Type(), one.F(), one.I(), _read_text(one.S()), _digest_tensor(tensor) if tensor is not None else ""]
    return hashlib.sha256(json.dumps([scalars, parts], sort_keys=True).encode()).hexdigest()


def _digest_tensor(tensor: Any) -> str:
    digest = hashlib.sha256(f"{tensor.DataType()}:{list(_iterate(tensor, 'Dims'))}:".encode())
    if not tensor.RawDataIsNone():
        digest.update(tensor.RawDataAsNumpy().tobytes())
    for text in _iterate(tensor, "StringData"):
        digest.update(f"{_read_text(text)}\n".encode())
    return digest.hexdigest()


def _digest_sparse(sparse: Any) -> str:
    return f"{_digest_tensor(sparse.Values())}{_digest_tensor(sparse.Indices())}{list(_iterate(sparse, 'Dims'))}"


def _iterate(table: Any, name: str) -> Iterator[Any]:
    """Yields the entries of a vector of the schema."""
    entry = getattr(table, name)
    return (entry(place) for place in range(getattr(table, f"{name}Length")()))


def _read_text(value: bytes | None) -> str:
    return value.decode("utf-8", "replace") if value else ""
