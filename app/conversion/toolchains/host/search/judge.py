"""Judges a model against the float one: the SNR of every judged tensor on every picture.

Judged are the outputs; one that comes straight out of a Sigmoid or Softmax is judged before it, where errors are not
hidden, and behind it only by the floor. Runs of several pictures go on at once, one thread each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.calibration import with_outputs
from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.runtime import numeric_outputs, open_session, run
from app.conversion.toolchains.tensor_comparison import SNR_CAP_DB

NOT_FINITE_DB = -100.0
"""Of a tensor with a NaN or an infinity that the float model does not have."""
DEQUANTIZED = "_DequantizeLinear_Output"
REFERENCE_BYTES = 96 << 20
"""Of float outputs kept; beyond it they are computed again."""


@dataclass(frozen=True)
class Targets:
    """What is judged.

    Args:
        goal: Tensors whose SNR counts for the goal.
        floor: Outputs behind a saturating operator: they only have to hold the floor.
    """

    goal: tuple[str, ...]
    floor: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.goal, *self.floor)))


@dataclass(frozen=True)
class Scores:
    """SNR in dB: a row per picture, a column per target; NaN where a tensor is silent."""

    targets: Targets
    snr_db: npt.NDArray[np.float64]
    agreement: npt.NDArray[np.float64]
    """Cosine of each picture at the worst output, or 1 and 0 for the same and another best class."""

    @property
    def goal_columns(self) -> npt.NDArray[np.float64]:
        return self.snr_db[:, [self.targets.names.index(name) for name in self.targets.goal]]

    @property
    def worst(self) -> npt.NDArray[np.float64]:
        """Of each picture at the target of the lowest mean, in dB; empty where no target has an SNR."""
        columns = self.goal_columns
        heard = [column[~np.isnan(column)] for column in columns.T]
        heard = [column for column in heard if column.size]
        return min(heard, key=lambda column: float(column.mean()), default=np.empty(0))

    @property
    def lowest_db(self) -> float | None:
        """The lowest of any picture at any target, those behind a saturating operator too."""
        return None if np.isnan(self.snr_db).all() else float(np.nanmin(self.snr_db))


def joined(parts: Sequence[Scores]) -> Scores:
    """The scores of several sets of pictures as one."""
    return Scores(
        parts[0].targets,
        np.concatenate([part.snr_db for part in parts]),
        np.concatenate([part.agreement for part in parts]),
    )


class Judge:
    """Knows what the float model says of pictures.

    Args:
        model: The float model (onnx.ModelProto).
        threads: How many pictures run at once.
    """

    def __init__(self, model: Any, targets: Targets, threads: int) -> None:
        self.targets, self.threads = targets, threads
        self._outputs = [output.name for output in model.graph.output]
        self._float = open_session(with_outputs(model, list(targets.names)).SerializeToString(), 1)
        self._kind = classifier_output(model)
        self._kept: dict[str, dict[str, Array]] = {}
        self._room = REFERENCE_BYTES

    @property
    def task(self) -> str:
        """How agreement is told: "top1" or "cosine"."""
        return "top1" if self._kind else "cosine"

    def scores(self, model: Any, samples: Sequence[SampleArrays]) -> Scores:
        """Run a model on pictures. Raises StageFailed if the runtime refuses it."""
        names = _twins(model, self.targets.names)
        session = open_session(with_outputs(model, [n for n in names if n]).SerializeToString(), 1)
        heard = self._map(lambda sample: self._score(session, names, sample), samples)
        return Scores(self.targets, np.array([snr for snr, _ in heard]), np.array([same for _, same in heard]))

    def _score(self, session: Any, names: list[str], sample: SampleArrays) -> tuple[list[float], float]:
        expected = self.reference(sample)
        own = [n for n in numeric_outputs(session) if n in self._outputs]
        actual = run(session, sample.arrays, list(dict.fromkeys([*filter(None, names), *own])))
        rows = [
            snr_db(expected[target], actual[name]) if name else np.nan
            for target, name in zip(self.targets.names, names, strict=True)
        ]
        return rows, self._agreement(expected, actual, own)

    def reference(self, sample: SampleArrays) -> dict[str, Array]:
        kept = self._kept.get(sample.name)
        if kept is None:
            kept = run(self._float, sample.arrays)
            size = sum(array.nbytes for array in kept.values())
            if size <= self._room:
                self._kept[sample.name] = kept
                self._room -= size
        return kept

    def _agreement(self, expected: dict[str, Array], actual: dict[str, Array], own: list[str]) -> float:
        if self._kind:
            return float(int(expected[self._kind].argmax()) == int(actual[self._kind].argmax()))
        return min((_cosine(expected[name], actual[name]) for name in own), default=1.0)

    def _map(self, work: Any, samples: Sequence[SampleArrays]) -> list[Any]:
        if self.threads == 1:
            return [work(sample) for sample in samples]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, samples))


def snr_db(reference: Array, actual: Array) -> float:
    """In dB; NaN for a silent reference, NOT_FINITE_DB for what is no number or has another shape."""
    if reference.shape != actual.shape:
        return NOT_FINITE_DB
    if reference.size == 0:
        return float("nan")
    x, y = reference.astype(np.float64).reshape(-1), actual.astype(np.float64).reshape(-1)
    energy, noise = float(np.dot(x, x)), float(np.dot(x - y, x - y))
    if not np.isfinite(noise):
        return NOT_FINITE_DB
    if noise == 0.0:
        return SNR_CAP_DB
    if energy == 0.0:
        return float("nan")
    return float(np.clip(10.0 * np.log10(energy / noise), NOT_FINITE_DB, SNR_CAP_DB))


def classifier_output(model: Any) -> str:
    """The only output, where it is one score per class ([1, classes]); else empty."""
    if len(model.graph.output) != 1:
        return ""
    output = model.graph.output[0]
    sizes = [axis.dim_value for axis in output.type.tensor_type.shape.dim]
    return str(output.name) if len(sizes) == 2 and sizes[0] == 1 and sizes[1] > 1 else ""


def _twins(model: Any, targets: Sequence[str]) -> list[str]:
    """What the targets are called in a quantized model; empty for what it does not have."""
    made = {name for node in model.graph.node for name in node.output}
    made |= {value.name for value in model.graph.input}
    return [next((n for n in (t + DEQUANTIZED, t) if n in made), "") for t in targets]


def _cosine(x: Array, y: Array) -> float:
    if x.shape != y.shape or x.size == 0:
        return float(x.shape == y.shape)
    a, b = x.astype(np.float64).reshape(-1), y.astype(np.float64).reshape(-1)
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    if scale == 0.0:
        return float(not a.any() and not b.any())
    value = float(np.dot(a, b)) / scale
    return value if np.isfinite(value) else 0.0


def targets_of(model: Any) -> Targets:
    """The outputs; before a Sigmoid or Softmax that one comes from."""
    makers = {output: node for node in model.graph.node for output in node.output}
    saturating = quality.saturating_outputs(model)
    goal, floor = [], []
    floats = {value.name for value in model.graph.output if value.type.tensor_type.elem_type in (1, 10)}
    for output in model.graph.output:
        if output.name not in floats:
            continue
        node = makers.get(output.name) if output.name in saturating else None
        while node is not None and node.op_type not in quality.SATURATING:
            node = makers.get(node.input[0])
        goal.append(node.input[0] if node is not None else output.name)
        if node is not None:
            floor.append(output.name)
    return Targets(tuple(dict.fromkeys(goal)), tuple(floor))
