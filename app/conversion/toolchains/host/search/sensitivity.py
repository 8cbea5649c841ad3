"""The individual cost of each tensor: the noise at the judged tensors with only that one rounded to int8.

Errors of different tensors add up as energy, closely enough to rank them, so this shows where bits help; errors
accumulated along the graph do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.host.calibration import Range, bytes_with_outputs
from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.search.ranges import are_near
from app.conversion.toolchains.host.search.simulation import Suffix, feeds, off
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.tensor_comparison import compute_energy
from app.inference.runtimes.sessions import open_session, run
from app.kit.text.json_values import JsonObject

STRETCH = 24
"""Number of tensors in one session: with more sessions less work is repeated, with fewer less time is spent on opening
them."""
STRETCHES_MAX = 16
HEARD_DB = 10.0
"""A tensor that alone exceeds the goal by this much is good enough with any range."""
BETTER = 0.9
"""Another range is chosen if its noise is below this share of the first's on each picture. By the mean of a few
pictures many ranges would be better at random, and worse on others."""
QUIET_DB, QUIET_PICTURES = 12.0, 2
"""A tensor that alone exceeds the goal by this much on the first QUIET_PICTURES is not measured on the others. Fewer
would choose tensors by the luck of a picture: with one, head pose var fell from 21 to 14 dB on other scenes."""
NOISE_MAX = 1e10


@dataclass(frozen=True)
class Sensitivity:
    """Noise-to-signal ratio at each judged tensor (columns) for each picture (rows), with only this tensor in int8.

    Args:
        method: of the range that costs least for it; empty for a weight.
        noise: with that range.
        usual_noise: with its usual range.
    """

    tensor: str
    layer: str
    is_weight: bool
    method: str
    noise: npt.NDArray[np.float64]
    usual_noise: npt.NDArray[np.float64]

    @property
    def snr_db(self) -> float:
        """SNR at the worst judged tensor in dB, mean over the pictures."""
        return float((-10.0 * np.log10(np.maximum(self.noise, 1e-12))).mean(axis=0).min())

    def to_json(self) -> JsonObject:
        return vars(self) | {"noise": self.noise.tolist(), "usual_noise": self.usual_noise.tolist()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Sensitivity:
        """Reads what `to_json` wrote."""
        noise, usual = (np.array(row[name], np.float64) for name in ("noise", "usual_noise"))
        return cls(**{**row, "noise": noise, "usual_noise": usual})


def measure(
    template: Template,
    ranges: Mapping[str, Mapping[str, Range]],
    samples: Sequence[SampleArrays],
    targets: Sequence[str],
    goal_db: float,
    *,
    threads: int,
    has_time: Callable[[], bool],
    only: Collection[str] | None = None,
    silent_powers: Mapping[str, float] | None = None,
    headroom: float | None = None,
) -> list[Sensitivity]:
    """Each activation with its best range, and each weight, in 8 bits or in 16.

    Args:
        ranges: By method, then by the activation's name; the first method stays where no other is better.
        has_time: Tensors that were not reached when it has no more are omitted: the first ones of the graph.
        only: Activations and weights that are measured; None: all.
        silent_powers: By target, the power below which it is nearly silent: noise is held against no less.
        headroom: By which the ranges are wider that are measured in 16 bits; None: in 8 bits.

    Raises:
        UnsupportedOperator, StageFailed: The runtime cannot run a part of the model.
    """
    usual = next(iter(ranges.values()))
    model = template.float_model
    activations = [a for a in template.activations if only is None or a.name in only]
    by_tensor = {tensor: a.name for a in activations for tensor in a.tensors}
    layers = {name: node.name for node in model.graph.node for name in node.output}
    weights = {weight.name: weight for weight in template.weights if only is None or weight.name in only}
    floors = [(silent_powers or {}).get(target, 0.0) for target in targets]
    kind, times = (np.uint8, 1.0) if headroom is None else (np.uint16, headroom)
    rows: list[Sensitivity] = []
    for begin, end in reversed(_split_tensors(model, len(by_tensor))):  # a tensor near the end takes the least time
        if not has_time():
            break
        suffix = Suffix(model, begin, end, by_tensor, weights, list(targets))
        if not suffix.activations and not suffix.weights:
            continue
        probe = _Probe(model, suffix, samples, {t: usual[by_tensor[t]] for t in suffix.activations}, threads, floors)

        def of_activation(name: str, probe: _Probe = probe) -> Sensitivity:
            inputs = {m: feeds(name, ranges[m][name], kind, times) for m in ranges}
            limits = {m: ranges[m][name] for m in ranges}
            return _find_best_range(probe, name, layers.get(name, ""), limits, inputs, goal_db)

        def of_weight(name: str, probe: _Probe = probe) -> Sensitivity:
            values = template.dequantized(weights[name], is_wide=headroom is not None)
            noise = probe.noise({name: values.astype(np.float32)}, goal_db)
            return Sensitivity(name, weights[name].layer, True, "", noise, noise)

        own = [tensor for tensor in suffix.activations if by_tensor[tensor] == tensor]
        with ThreadPoolExecutor(threads) as pool:
            made = [*pool.map(of_activation, own), *pool.map(of_weight, suffix.weights)]
        # a weight that layers share has its whole cost in the first section that reads it
        rows = made + [row for row in rows if row.tensor not in suffix.weights]
    return rows


def join_sensitivities(rows: Sequence[Sensitivity], others: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Combines the pictures of both; all keep their ranges, and tensors missing in the others are omitted."""
    more = {other.tensor: other.noise for other in others}
    return [
        replace(
            row,
            noise=np.concatenate([row.noise, more[row.tensor]]),
            usual_noise=np.concatenate([row.usual_noise, more[row.tensor]]),
        )
        for row in rows
        if row.tensor in more
    ]


def _find_best_range(
    probe: _Probe,
    tensor: str,
    layer: str,
    ranges: Mapping[str, Range],
    inputs: Mapping[str, Mapping[str, Array]],
    goal_db: float,
) -> Sensitivity:
    """Returns what a tensor costs with the range that suits it best.

    Args:
        probe: the section of the graph that makes it.
        tensor: its name.
        layer: the node that makes it.
        ranges: by method, the usual one first.
        inputs: what the section gets beside the samples to round the tensor within each range, by method.
        goal_db: with an SNR far above it, other ranges are not tried.
    """
    usual, *others = ranges
    noise = probe.noise(inputs[usual], goal_db)
    best = Sensitivity(tensor, layer, False, usual, noise, noise)
    if _find_worst(noise) < 10.0 ** (-(goal_db + HEARD_DB) / 10.0):
        return best
    tried = [ranges[usual]]
    for method in others:
        if any(are_near(ranges[method], before) for before in tried):
            continue
        tried.append(ranges[method])
        other = probe.noise_below(inputs[method], BETTER * best.noise.max(axis=1, initial=0.0))
        if other is not None:
            best = replace(best, method=method, noise=other)
    return best


class _Probe:
    """One section of the graph, in which any tensor can be rounded."""

    def __init__(
        self,
        model: Any,
        suffix: Suffix,
        samples: Sequence[SampleArrays],
        limits: Mapping[str, Range],
        threads: int,
        floors: Sequence[float],
    ) -> None:
        self._session = suffix.open()
        self._names = [output.name for output in self._session.get_outputs()]
        before = open_session(bytes_with_outputs(model, suffix.inputs), threads)
        known = {value.name for value in model.graph.input}
        self._live = [self._collect_inputs(before, suffix, sample, known) for sample in samples]
        self._off = {key: value for tensor in suffix.activations for key, value in off(tensor, limits[tensor]).items()}
        self._references = [
            [_Reference.of(output, floor) for output, floor in zip(outputs, floors, strict=True)]
            for outputs in (self._run(live, {}) for live in self._live)
        ]

    def _collect_inputs(self, before: Any, suffix: Suffix, sample: SampleArrays, known: set[str]) -> dict[str, Array]:
        inner = [name for name in suffix.inputs if name not in known]
        values = run(before, sample.arrays, inner) if inner else {}
        return {name: sample.arrays[name] if name in known else values[name] for name in suffix.inputs}

    def noise(self, changed: Mapping[str, Array], goal_db: float) -> npt.NDArray[np.float64]:
        """Returns the noise-to-signal ratio, [pictures, targets]; NaN becomes NOISE_MAX, a silent target 0.

        If the first pictures have almost none, their mean is used for the others.
        """
        quiet = 10.0 ** (-(goal_db + QUIET_DB) / 10.0)
        rows: list[list[float]] = []
        for live, references in zip(self._live, self._references, strict=True):
            rows.append(_compute_ratios(references, self._run(live, changed)))
            if len(rows) == QUIET_PICTURES and np.max(rows, initial=0.0) < quiet:
                mean = np.mean(rows, axis=0).tolist()
                rows += [mean] * (len(self._live) - len(rows))
                break
        return np.array(rows, np.float64).reshape(len(self._live), len(self._names))

    def noise_below(
        self, changed: Mapping[str, Array], limits: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64] | None:
        """Returns the same if each picture is below its limit; None as soon as one is not."""
        rows = []
        for live, references, limit in zip(self._live, self._references, limits, strict=True):
            rows.append(_compute_ratios(references, self._run(live, changed)))
            if max(rows[-1], default=0.0) >= limit:
                return None
        return np.array(rows)

    def _run(self, live: Mapping[str, Array], changed: Mapping[str, Array]) -> list[Array]:
        values = run(self._session, {**live, **self._off, **changed}, self._names)
        return [values[name] for name in self._names]


def _split_tensors(model: Any, tensors: int) -> list[tuple[int, int]]:
    count = len(model.graph.node)
    pieces = max(1, min(STRETCHES_MAX, tensors // STRETCH))
    bounds = [round(count * piece / pieces) for piece in range(pieces + 1)]
    return list(pairwise(bounds))


def _compute_ratios(references: Sequence[_Reference], outputs: Sequence[Array]) -> list[float]:
    """Returns the noise-to-signal ratio at each target."""
    return [reference.compute_ratio(output) for reference, output in zip(references, outputs, strict=True)]


@dataclass(frozen=True)
class _Reference:
    """An output of the float model in one dimension."""

    values: Array
    energy: float
    """Of its values, at least that of a nearly silent output."""

    @classmethod
    def of(cls, output: Array, floor: float) -> _Reference:
        values = output.reshape(-1)
        return cls(values, max(compute_energy(values), floor * values.size))

    def compute_ratio(self, output: Array) -> float:
        if output.size != self.values.size:
            return NOISE_MAX
        noise = compute_energy(self.values, output)
        if not np.isfinite(noise):
            return NOISE_MAX
        return 0.0 if self.energy == 0.0 else min(noise / self.energy, NOISE_MAX)


def _find_worst(noise: npt.NDArray[np.float64]) -> float:
    return float(np.exp(np.log(np.maximum(noise, 1e-30)).mean(axis=0)).max(initial=0.0))
