"""The quality table of a BIE: float against int8 at every output and layer, and the verdict.

The samples are those of calibration, and the report says so: users measure accuracy on others themselves.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.conversion.toolchains.base import SNR_DB_MIN
from app.conversion.toolchains.host.equivalence import require_finite_arrays
from app.conversion.toolchains.host.inputs import Array, SampleArrays, Samples, first
from app.conversion.toolchains.host.output_saturation import find_judged_outputs
from app.conversion.toolchains.host.silent_outputs import (
    compute_power,
    compute_silent_powers,
    compute_snr_beside_zero,
    is_silent_in_both,
)
from app.conversion.toolchains.tensor_comparison import TensorComparison, compare_all, list_judged_names
from app.conversion.toolchains.tensor_statistics import OutputStatistics
from app.inference.runtimes.sessions import Session, numeric_outputs, run
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.toolchains.host.task_metrics import TaskMeter

OUTPUT_SAMPLES = 200
WORST_SAMPLES = 20
VERDICT_RULE = "SNR >= 20 dB at every output (the vendor's rule)"
LATENCY_RUNS = 9
NOISE = 1.05
"""Latencies within this factor are equal."""
LATENCY_S_MIN, LATENCY_S_MAX = 0.005, 2.0
"""Measuring goes on for at least and at most this many seconds of CPU time in all."""

Step = Callable[[int, int], None]


@dataclass(frozen=True)
class _ComparedSample:
    """A sample whose outputs were compared, each by the tensor that judges it."""

    name: str
    comparisons: Mapping[str, TensorComparison]
    judged: Sequence[str]
    """See `list_judged_names`."""
    powers: Mapping[str, tuple[float, float]]
    """Of both models' outputs, of those with real numbers that are not judged by a sigmoid's input."""


def measure_outputs(
    reference: Session,
    quantized: Session,
    samples: Samples,
    step: Step,
    meter: TaskMeter | None = None,
    logits: Mapping[str, str] | None = None,
) -> OutputStatistics:
    """Compare every numeric output of both models, over at most OUTPUT_SAMPLES samples.

    Args:
        step: called after each sample with how many are done, and of how many.
        meter: gets the same outputs; None: the task is not measured.
        logits: exposed inputs of sigmoids, by the output that comes from each.

    Raises:
        NotFinite: The float model's output holds a NaN or an infinity.
    """
    compared, faint = list[_ComparedSample](), defaultdict[str, int](int)
    total = min(len(samples), OUTPUT_SAMPLES)
    names = numeric_outputs(reference)
    for done, sample in enumerate(first(samples, OUTPUT_SAMPLES), start=1):
        expected = run(reference, sample.arrays, names)
        require_finite_arrays(expected, sample.name)
        actual = run(quantized, sample.arrays, names)
        tensors = find_judged_outputs(names, expected, logits or {})
        pair = [{name: arrays[tensor] for name, tensor in tensors.items()} for arrays in (expected, actual)]
        comparisons, judged = compare_all(sample.name, *pair), list_judged_names(pair[0])
        own = [name for name in judged if name not in (logits or {}) and pair[0][name].dtype.kind == "f"]
        powers = {name: (compute_power(pair[0][name]), compute_power(pair[1][name])) for name in own}
        compared.append(_ComparedSample(sample.name, comparisons, judged, powers))
        for name, tensor in tensors.items():
            faint[name] += tensor != name
        if meter is not None:
            meter.add({name: expected[name] for name in tensors}, {name: actual[name] for name in tensors})
        step(done, total)
    result = _summarize(compared)
    for name, count in faint.items():
        result.tensors[name].faint = count
    return result


def _summarize(compared: Sequence[_ComparedSample]) -> OutputStatistics:
    """Returns the statistics, without the SNR and cosine of outputs that are nearly silent in both models."""
    by_output: dict[str, list[float]] = defaultdict(list)
    for one in compared:
        for name, (power, _) in one.powers.items():
            by_output[name].append(power)
    silent_powers, result = compute_silent_powers(by_output), OutputStatistics()
    for one in compared:
        held = {
            name: _hold_against(one.comparisons[name], powers, silent_powers.get(name, 0.0))
            for name, powers in one.powers.items()
        }
        result.add_comparisons(one.name, {**one.comparisons, **held}, one.judged)
    return result


def _hold_against(comparison: TensorComparison, powers: tuple[float, float], silent_power: float) -> TensorComparison:
    """Returns the comparison as far as it counts beside those of other samples.

    Args:
        powers: of the output in float and in the other model.
        silent_power: power below which it is nearly silent.
    """
    if is_silent_in_both(*powers, silent_power):
        return replace(comparison, snr_db=None, cosine=None, silent=False, is_uncounted=True)
    if comparison.silent and comparison.snr_db is None:
        snr_db = compute_snr_beside_zero(powers[1], silent_power)
        return replace(comparison, snr_db=snr_db, silent=snr_db is None, is_beside_zero=snr_db is not None)
    return comparison


def quality_report(
    outputs: OutputStatistics, layers: list[JsonObject], left_out: int, sample_count: int, layer_samples: int
) -> JsonObject:
    """The "quality" part of the BIE report.

    Args:
        layers: rows as `measure_layers` returns them.
        left_out: layers that were not measured, as there are so many.
        sample_count: samples that the outputs were compared on.
        layer_samples: the same of the layers.
    """
    return {
        "reference": "out.onnx (float)",
        "samples": sample_count,
        "images": "calibration images",
        "outputs": outputs.to_list(),
        "layers": layers,
        "layer_samples": layer_samples,
        "layers_left_out": left_out,
        "layer_error": "accumulated: all layers quantized, measured at that layer",
        "worst_samples": outputs.worst_samples(WORST_SAMPLES),
    }


def verdict(outputs: OutputStatistics, int8_nodes: int) -> JsonObject:
    """{snr_db: the worst output's mean, rule, nothing_quantized, passed, uncounted: samples that have no part in it}.

    Without any SNR (all outputs silent) it has not passed, nor where nothing became int8: there is nothing to judge.
    """
    worst = outputs.worst_mean_snr_db
    return {
        "snr_db": None if worst is None else round(worst, 2),
        "rule": VERDICT_RULE,
        "nothing_quantized": int8_nodes == 0,
        "passed": worst is not None and worst >= SNR_DB_MIN and int8_nodes > 0,
        "uncounted": outputs.uncounted,
    }


def build_judged_verdict(verdict: Mapping[str, Any], judgement: Mapping[str, Any]) -> JsonObject:
    """The verdict if a search judged on held-out pictures, since those that set the ranges give better results.

    Args:
        verdict: See `verdict`, on all pictures.
        judgement: See `SearchOutcome.judgement`.

    Returns:
        The same with the lower of both means as snr_db, and {judged_on, snr_min_db, weak}: the number of held-out
        pictures, the lowest SNR among them, which must not be below the floor, and on how many of them the output is
        so weak that the floor is held against more than its own power.
    """
    mean_db, min_db, floor_db = (judgement[name] for name in ("mean_db", "floor_min_db", "floor_db"))
    if not judgement["n"] or mean_db is None or verdict["snr_db"] is None or verdict["nothing_quantized"]:
        return dict(verdict)
    return {
        **verdict,
        "snr_db": min(verdict["snr_db"], mean_db),
        "snr_min_db": judgement["min_db"],
        "judged_on": judgement["n"],
        "weak": judgement["weak"],
        "rule": f"{VERDICT_RULE}, no picture below {floor_db:g} dB",
        "passed": verdict["passed"] and mean_db >= SNR_DB_MIN and min_db >= floor_db,
    }


def latency_ms(session: Session, samples: Iterable[SampleArrays], runs: int = LATENCY_RUNS) -> float | None:
    """Returns the time of the fastest inference in milliseconds, without the first run; None without a sample.

    It is the CPU time of the session's only thread, so other programs do not count. They also take caches, which makes
    runs slower, never faster, so the fastest run is closest to what the model needs.
    """
    return latencies_ms((session,), samples, runs)[0]


def latencies_ms(
    sessions: Sequence[Session], samples: Iterable[SampleArrays], runs: int = LATENCY_RUNS
) -> list[float | None]:
    """Returns the same for several sessions, which run in turn, so that other load on the machine slows all of them
    alike."""
    sample = next(iter(samples), None)
    if sample is None:
        return [None for _ in sessions]
    for session in sessions:
        run(session, sample.arrays)
    times: list[list[float]] = [[] for _ in sessions]
    while is_worth_repeating(max(times, key=sum), runs):
        for own, session in zip(times, sessions, strict=True):
            own.append(timed_run(session, sample.arrays)[1])
    return [round(1000 * min(own), 3) for own in times]


def timed_run(
    session: Session, arrays: Mapping[str, Array], outputs: Sequence[str] | None = None
) -> tuple[dict[str, Array], float]:
    """Runs a session of one thread once; see `run`.

    Returns:
        The outputs by name, and the CPU time in seconds.
    """
    begin = time.thread_time()
    answers = run(session, arrays, outputs)
    return answers, time.thread_time() - begin


def is_worth_repeating(times_s: Sequence[float], runs: int) -> bool:
    """Returns whether another run may tell more of how long the model takes.

    Args:
        times_s: of the runs so far.
        runs: how many are enough of a model that is not short.
    """
    return sum(times_s) < (LATENCY_S_MAX if len(times_s) < runs else LATENCY_S_MIN)


def is_slower(int8_ms: float | None, float_ms: float | None) -> bool:
    """Returns whether int8 is slower by more than noise; False if a latency is unknown."""
    return int8_ms is not None and float_ms is not None and int8_ms > NOISE * float_ms
