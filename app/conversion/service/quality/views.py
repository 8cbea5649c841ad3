"""The content of the quality section, as values: no report format, no words, no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.conversion.model.saturation import SaturationCurve
from app.conversion.service.quality.candidates import Search
from app.conversion.service.quality.goal import Judgement, LabeledScore, StatedGoal
from app.conversion.toolchains.base import SNR_DB_MIN

EXACT_DB = 120.0
"""What the toolchain reports for tensors that are equal."""

Step = Literal["optimise", "quantise", "compile"]
Outcome = Literal["exact", "bit_true", "measured", "unmeasured", "pending"]


@dataclass(frozen=True)
class Spread:
    """One number over n samples. The proofs of equality keep the lowest only: mean and p5 are None then."""

    mean: float | None = None
    min: float | None = None
    p5: float | None = None
    n: int = 0

    @property
    def shown(self) -> float | None:
        """The mean if known, else the lowest."""
        return self.min if self.mean is None else self.mean


@dataclass(frozen=True)
class OutputQuality:
    """One output of the model at one boundary."""

    name: str
    snr_db: Spread
    cosine: Spread
    max_abs: float | None = None
    is_exact: bool = False
    saturates: str = ""
    """The operator that hides errors before it, if any."""
    silent_samples: int = 0
    other_shape_samples: int = 0

    @property
    def rank(self) -> float:
        """By which the worst comes first, and one without a number last."""
        return EXACT_DB + 1 if self.snr_db.shown is None else self.snr_db.shown


@dataclass(frozen=True)
class Boundary:
    """The model before and after one step, both run on the same samples."""

    step: Step
    before: str
    after: str
    outcome: Outcome
    samples: int = 0
    """How many samples."""
    inputs: str = ""
    """Which samples, in the report's words."""
    outputs: tuple[OutputQuality, ...] = ()

    @property
    def snr_db(self) -> float | None:
        """Of the worst output."""
        return min((s for output in self.outputs if (s := output.snr_db.shown) is not None), default=None)

    @property
    def cosine(self) -> float | None:
        return min((c for output in self.outputs if (c := output.cosine.shown) is not None), default=None)


@dataclass(frozen=True)
class LayerQuality:
    """A layer with all layers quantized: errors add up with depth."""

    position: int
    """1 for the first layer in graph order."""
    name: str
    op_type: str
    is_int8: bool
    merged: str
    snr_db: Spread
    cosine: Spread
    max_abs: float | None
    weight_snr_db: float | None


@dataclass(frozen=True)
class QualityVerdict:
    snr_db: float | None
    rule: str
    passed: bool
    nothing_quantized: bool = False
    shows_nothing: bool = False
    """The float model finds nothing in the pictures."""


@dataclass(frozen=True)
class WorstSample:
    index: int
    name: str
    snr_db: float


@dataclass(frozen=True)
class FloatInt8Pair:
    """The same thing of the float and of the int8 model."""

    float_: float
    int8: float

    @property
    def ratio(self) -> float | None:
        """How many times smaller or faster int8 is."""
        return self.float_ / self.int8 if self.int8 > 0 else None

    @property
    def largest(self) -> float:
        return max(self.float_, self.int8)


@dataclass(frozen=True)
class BitWidth:
    """Of one part of the model; effective is empty when the report does not say."""

    part: str
    requested: str
    effective: str
    is_ignored: bool


@dataclass(frozen=True)
class ChipNode:
    """A row of the vendor's per-node table."""

    node: str
    origin: str
    type: str
    bits: str
    runtime_ms: float | None
    snr_db: float | None


@dataclass(frozen=True)
class ChipReport:
    """What the vendor's evaluator expects of the chip. Estimates: nothing here was measured on a device."""

    platform: str
    version: str
    fps: float | None
    itc_ms: float | None
    operations: float | None
    bandwidth_gb_s: tuple[tuple[str, float], ...]
    ddr_mb: tuple[tuple[str, float], ...]
    cpu_nodes: tuple[tuple[str, str], ...]
    bits: tuple[BitWidth, ...]
    slowest: tuple[ChipNode, ...] = ()
    lowest_snr: tuple[ChipNode, ...] = ()
    node_types: tuple[tuple[str, int], ...] = ()
    missing_operators: tuple[str, ...] = ()
    bit_true_match: str = ""
    """The vendor's own word on whether its two simulators agree; empty when it did not compare."""
    chip: str = ""
    is_crc_ok: bool | None = None


@dataclass(frozen=True)
class Quality:
    """Everything of one job."""

    toolchain: str
    boundaries: tuple[Boundary, ...]
    verdict: QualityVerdict | None = None
    layers: tuple[LayerQuality, ...] = ()
    """In graph order."""
    layers_left_out: int = 0
    layer_samples: int = 0
    worst_samples: tuple[WorstSample, ...] = ()
    size_bytes: FloatInt8Pair | None = None
    latency_ms: FloatInt8Pair | None = None
    latency_threads: int = 1
    nef_bytes: int | None = None
    samples: int = 0
    calibration_samples: int = 0
    calibration_method: str = ""
    skipped: int = 0
    float_tail: str = ""
    warnings: tuple[str, ...] = ()
    chip: ChipReport | None = None
    goal: StatedGoal | None = None
    judgement: Judgement | None = None
    labeled: tuple[LabeledScore, ...] = ()
    """Both models by the labels of the pictures; empty if none were sent."""
    search: Search | None = None
    saturation: SaturationCurve | None = None
    """How many calibration pictures are enough; None if that was not measured."""
    sensitivity: Mapping[str, float] = field(default_factory=dict)
    """SNR in dB with this layer alone quantized, by the layer's name; empty if no search measured it."""
    hidden_loss: float | None = None
    """See goals.find_hidden_loss."""

    @property
    def is_empty(self) -> bool:
        return all(boundary.outcome == "pending" for boundary in self.boundaries)

    @property
    def worst_layer(self) -> LayerQuality | None:
        ranked = self.ranked
        return ranked[0] if ranked and ranked[0].snr_db.shown is not None else None

    @property
    def first_bad_layer(self) -> LayerQuality | None:
        """The first in graph order that falls below the rule: errors of those after it may be its own."""
        measured = ((layer, layer.snr_db.shown) for layer in self.layers)
        return next((layer for layer, snr in measured if snr is not None and snr < SNR_DB_MIN), None)

    @property
    def ranked(self) -> tuple[LayerQuality, ...]:
        """Worst first; layers without an SNR come last."""
        return tuple(sorted(self.layers, key=_rank))

    @property
    def saturating(self) -> tuple[OutputQuality, ...]:
        return tuple(output for boundary in self.boundaries for output in boundary.outputs if output.saturates)


def _rank(layer: LayerQuality) -> tuple[bool, float, int]:
    snr = layer.snr_db.shown
    return snr is None, 0.0 if snr is None else snr, layer.position
