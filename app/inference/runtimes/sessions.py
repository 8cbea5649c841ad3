"""Running models with onnxruntime: how sessions are opened, and HostModel, which runs an out.nef of the host toolchain.

onnxruntime is imported when the first session is opened, so importing this module costs numpy only.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from app.inference.errors import InvalidModel, UnsupportedOperator, WrongSampleShape
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json

Array = npt.NDArray[Any]
Session = Any
"""onnxruntime.InferenceSession; the package has no types."""
Level = Literal["none", "basic", "extended", "layout", "all"]
"""How far onnxruntime optimizes a graph. "extended" is the highest level whose graphs, saved, run on any CPU. "layout"
also orders integers as their kernels want them, which changes no number: a MaxPool takes a hundredth of the time. "all"
orders floats for the CPU at hand, too: up to twice as fast, and rounded differently from CPU to CPU."""

MANIFEST = "manifest.json"
MODEL = "model.ort"
NEF_FORMAT = "modelmill-host-nef"
NEF_VERSION = 1
NOTICE = "runs on onnxruntime; not for a Kneron chip"
MANIFEST_BYTES_MAX = 4 << 20
CPU_INFO = Path("/proc/cpuinfo")
EXACT = "session.x64quantprecision"
"""onnxruntime's name for weights in uint8 instead of int8, which takes up to 1.4 times as long. x86 CPUs without VNNI
add up products of int8 in 16 bits, which overflow: MobileNetV2 fell from 48 dB to 4 dB there."""
SPIN, SPIN_US = "session.intra_op.spin_duration_us", "20"
"""How long an idle thread waits actively before it sleeps. By default it keeps waiting, which is slightly faster on
free processors (YOLOX-Nano on two of them: 23.8 against 24.6 ms); beside other programs, such threads take the
processor from the one for which they wait (110 against 26 ms)."""
ERRORS_ONLY, FATAL_ONLY = 3, 4

_PLACES = re.compile(r"/\S*/(?=(?:model\.onnx|out\.onnx|out\.bie)\b)|/onnxruntime_src/(?:\S*/)?")
"""Paths of the worker and of onnxruntime's build in messages: useless to users, and the former are private."""
_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FAILED_NODE = re.compile(r"while running (?P<op>[\w.]+) node\. Name:'(?P<node>[^']*)'")
_OPERATOR = (
    re.compile(r'In Node, \("(?P<node>[^"]*)", (?P<op>[\w.]+), .*No Op registered', re.S),
    re.compile(r"No Op registered for (?P<op>[\w.]+)"),
    re.compile(r"Fatal error: (?P<op>[\w.:]+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"implementation for (?P<op>[\w.:]+)\(-?\d+\) node with name '(?P<node>[^']*)'"),
    re.compile(r"NOT_IMPLEMENTED.*\boperator (?P<op>\w+)", re.S),
)


def session_options(threads: int, level: Level = "layout", *, is_exact: bool = False) -> Any:
    """SessionOptions with `threads` compute threads.

    Args:
        is_exact: use exact products even if this CPU does not need them, for a graph that has to give the same numbers
            on any other.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry(SPIN, SPIN_US)
    options.add_session_config_entry(EXACT, "1" if is_exact or lacks_vnni() else "0")
    options.graph_optimization_level = {
        "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "layout": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }[level]
    return options


CPU_ALONE = ("CPUExecutionProvider",)
FLOAT_LAYOUT = "NchwcTransformer"
"""onnxruntime's name of the optimization that reorders floats for the CPU at hand."""
SUM_FUSION = "ConvAddActivationFusion"
"""onnxruntime's name of the optimization that adds a tensor within a convolution. It loses outputs of some graphs,
which then fail to open."""


def open_session(
    model: Path | bytes,
    threads: int,
    level: Level = "layout",
    options: Any = None,
    *,
    providers: Sequence[Any] = CPU_ALONE,
) -> Session:
    """Open a model, on the CPU unless other providers are given.

    Args:
        model: a file, or the bytes of one.
        threads: for one operator.
        level: how far onnxruntime optimizes the graph.
        options: onnxruntime.SessionOptions instead of those made of threads and level.
        providers: names of execution providers, the first first, or pairs of a name and its options.

    Raises:
        UnsupportedOperator: With operator and node.
        StageFailed: For any other error of onnxruntime.
    """
    import onnxruntime as ort

    ort.set_default_logger_severity(ERRORS_ONLY)
    options = options or session_options(threads, level)
    is_exact = options.get_session_config_entry(EXACT) == "1"
    options.log_severity_level = FATAL_ONLY if is_exact else ERRORS_ONLY
    source = str(model) if isinstance(model, Path) else model
    opened = partial(ort.InferenceSession, source, options, list(providers), enable_fallback=False)
    left_out = [] if level == "all" else [FLOAT_LAYOUT]
    try:
        try:
            session = opened(disabled_optimizers=left_out)
        except RuntimeError:
            session = opened(disabled_optimizers=[*left_out, SUM_FUSION])
    except ort_errors() as error:
        if not is_exact:
            raise explain(error) from error
    else:
        session._model_bytes = None  # a second copy of the file, kept to open it with other providers
        return session
    options.add_session_config_entry(EXACT, "0")  # onnxruntime 1.31 fails if nodes share their weights
    return open_session(model, threads, level, options, providers=providers)


def run(session: Session, arrays: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
    """Runs a model once.

    Args:
        session: the opened model.
        arrays: its inputs by name.
        outputs: names of the outputs to compute; default: all numeric ones. Texts, maps and sequences are omitted.

    Returns:
        The outputs by name.

    Raises:
        UnsupportedOperator: onnxruntime has no implementation of an operator.
        StageFailed: onnxruntime failed for another reason.
    """
    names = list(outputs) if outputs is not None else numeric_outputs(session)
    try:
        values = session.run(names, dict(arrays))
    except ort_errors() as error:
        raise explain(error) from error
    return dict(zip(names, values, strict=True))


def lacks_vnni() -> bool:
    """Returns whether this is an x86 CPU without VNNI. Other CPUs have no line of flags, and no such problem."""
    try:
        with CPU_INFO.open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), None)
    except OSError:
        return False
    return flags is not None and "vnni" not in flags


def numeric_outputs(session: Session) -> list[str]:
    """Returns the names of the outputs that are tensors of numbers, in the model's order."""
    return [o.name for o in session.get_outputs() if o.type.startswith("tensor(") and "string" not in o.type]


def ort_errors() -> tuple[type[Exception], ...]:
    """Returns the classes of onnxruntime's errors, which have no common base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return tuple(v for v in vars(state).values() if isinstance(v, type) and issubclass(v, Exception))


def explain(error: Exception) -> UnsupportedOperator | StageFailed:
    """Turns onnxruntime's text into an error that helps a user."""
    text = _PLACES.sub("", str(error))
    for pattern in _OPERATOR:
        match = pattern.search(text)
        if match:
            operator, node = match["op"], match.groupdict().get("node") or ""
            where = f" at node {node!r}" if node else ""
            return UnsupportedOperator(
                f"onnxruntime cannot run operator {operator}{where}",
                hint="Export the model without this operator, or cut the graph before it.",
                detail={"operator": operator, "node": node, "runtime_message": text[:1000]},
            )
    failed = _FAILED_NODE.search(text)
    if failed:
        return StageFailed(
            f"onnxruntime failed at node {failed['node']!r} ({failed['op']}): {_get_first_line(text[failed.end() :])}",
            hint="Check that the model runs with these input shapes; if only its int8 version fails, name the node "
            "in exclude_nodes to leave it in float.",
            detail={"operator": failed["op"], "node": failed["node"], "runtime_message": text[:1000]},
        )
    return StageFailed(
        f"onnxruntime cannot run the model: {_get_first_line(text)}",
        hint="Check that the model runs in onnxruntime as it is, with the given input shapes.",
        detail={"runtime_message": text[:1000]},
    )


class HostModel:
    """An out.nef of the host toolchain, opened and ready to run.

    inputs, outputs: [{"name", "shape", "dtype"}]; preprocess: the option set the model was converted with.

    Raises:
        InvalidModel: The file is no such NEF, or its content does not match its manifest.
    """

    def __init__(self, path: Path, threads: int = 1, level: Level = "all") -> None:
        self.manifest, model = read_nef(path)
        self.inputs: list[JsonObject] = self.manifest["inputs"]
        self.outputs: list[JsonObject] = self.manifest["outputs"]
        self.preprocess: JsonObject = self.manifest["preprocess"]
        self._session = open_session(model, threads, level)

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run one sample: input name → array of the manifest's shape. Any float type is cast.

        Raises:
            WrongSampleShape: An input is missing, or has another shape.
            StageFailed: The runtime refuses.
        """
        return run(self._session, {spec["name"]: self._fit_array(spec, arrays) for spec in self.inputs})

    @staticmethod
    def _fit_array(spec: Mapping[str, Any], arrays: Mapping[str, Array]) -> Array:
        array = arrays.get(spec["name"])
        if array is None:
            raise WrongSampleShape(f"input {spec['name']!r} is missing", hint=f"Given: {', '.join(arrays) or 'none'}.")
        if list(array.shape) != spec["shape"]:
            raise WrongSampleShape(
                f"input {spec['name']!r} has shape {list(array.shape)}, the model takes {spec['shape']}"
            )
        return np.ascontiguousarray(array, dtype=spec["dtype"])


def read_nef(path: Path) -> tuple[JsonObject, bytes]:
    """Read the manifest and the ORT-format model of a host NEF, and compare them.

    Raises:
        InvalidModel: The file is damaged or something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = read_manifest(archive)
            expected = manifest["files"][MODEL]
            info = archive.getinfo(MODEL)
            if info.file_size != expected["size_bytes"]:
                raise InvalidModel(f"{path.name}: {MODEL} has {info.file_size} bytes, the manifest says otherwise")
            model = archive.read(info)
    except (zipfile.BadZipFile, KeyError, OSError, NotImplementedError, RuntimeError) as error:
        raise InvalidModel(f"{path.name} is not a NEF of the host toolchain: {error}") from error
    if hashlib.sha256(model).hexdigest() != expected["sha256"]:
        raise InvalidModel(f"{path.name}: the sha256 of {MODEL} does not match the manifest", hint="Download it again.")
    return manifest, model


def read_manifest(archive: zipfile.ZipFile) -> JsonObject:
    """Read the manifest alone, without loading the model.

    Raises:
        KeyError: There is none.
        InvalidModel: It is damaged.
    """
    info = archive.getinfo(MANIFEST)
    if info.file_size > MANIFEST_BYTES_MAX:
        raise InvalidModel("the manifest is too large to be one")
    try:
        manifest = read_json(archive.read(info))
    except UnreadableJson as error:
        raise InvalidModel("the manifest is no JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != NEF_FORMAT:
        raise InvalidModel("the manifest does not name the host toolchain's format")
    if manifest.get("version") != NEF_VERSION:
        raise InvalidModel(f"this is version {manifest.get('version')} of the format; {NEF_VERSION} is known here")
    return manifest


def _get_first_line(text: str) -> str:
    return _CODE.sub("", text.strip().splitlines()[0])[:300] if text.strip() else "no message"
