"""The quality of a conversion: the reports of a job, as values that pages, CSV and JSON share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from app.conversion.model import JobRecord, Stage
from app.conversion.service import Conversion
from app.conversion.service.quality import report_reader
from app.conversion.service.quality.table import to_csv, to_json
from app.conversion.service.quality.views import LayerQuality, Quality
from app.kit.text.json_values import JsonObject

REPORT_BYTES_MAX = 64 << 20
Order = Literal["worst", "graph", "alone"]
Precision = Literal["all", "int8", "float"]


@dataclass(frozen=True)
class Reports:
    """Of the stages, as they wrote them; None for a stage that has none (yet)."""

    onnx: JsonObject | None = None
    bie: JsonObject | None = None
    nef: JsonObject | None = None

    def quality(self, toolchain: str) -> Quality:
        return report_reader.quality(self.onnx, self.bie, self.nef, toolchain=toolchain)


def reports_of(conversion: Conversion, record: JobRecord) -> Reports:
    """Read the reports that a job has so far.

    Args:
        record: Already checked to be the user's.

    Raises:
        ObjectMissing, StoreUnavailable: The record names a report that cannot be read now.
    """
    return Reports(*(_report(conversion, record, stage) for stage in Stage))


def quality_of(conversion: Conversion, record: JobRecord) -> Quality:
    """What the reports of a job say. See reports_of."""
    return reports_of(conversion, record).quality(record.options.toolchain.value)


def choose_layers(quality: Quality, order: Order, precision: Precision) -> tuple[LayerQuality, ...]:
    """By their error added up, by their own error alone (worst first each), or in graph order."""
    alone = quality.sensitivity
    ordered = quality.ranked if order == "worst" else quality.layers
    if order == "alone":
        ordered = tuple(sorted(ordered, key=lambda layer: (layer.name not in alone, alone.get(layer.name, 0.0))))
    return tuple(layer for layer in ordered if precision in ("all", "int8" if layer.is_int8 else "float"))


def _report(conversion: Conversion, record: JobRecord, stage: Stage) -> JsonObject | None:
    artifact = record.artifacts.get(f"{stage.step}.json")
    if artifact is None or artifact.size_bytes > REPORT_BYTES_MAX:
        return None
    report = json.loads(b"".join(conversion.jobs.read(artifact)))
    return report if isinstance(report, dict) else None
