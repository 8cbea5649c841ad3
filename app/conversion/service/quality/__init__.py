"""What a conversion is worth: the reports of a job, read into values that pages, CSV and JSON share."""

from __future__ import annotations

import json
from typing import Any, Literal

from app.conversion.model import JobRecord, Stage
from app.conversion.service import Conversion
from app.conversion.service.quality import report_reader
from app.conversion.service.quality.table import QualityRow, rows, to_csv, to_json
from app.conversion.service.quality.views import EXACT_DB, LayerQuality, Quality
from app.conversion.toolchains.base import SNR_DB_MIN

__all__ = ["Quality", "QualityRow", "quality_context", "quality_of", "rows", "to_csv", "to_json"]

REPORT_BYTES_MAX = 64 << 20
Order = Literal["worst", "graph"]
Precision = Literal["all", "int8", "float"]


def quality_of(conversion: Conversion, record: JobRecord) -> Quality:
    """Read a job's quality from the reports that it has so far.

    Args:
        record: Already checked to be the user's.
    """
    onnx, bie, nef = (_report(conversion, record, stage) for stage in Stage)
    return report_reader.quality(onnx, bie, nef, toolchain=record.options.toolchain.value)


def quality_context(
    conversion: Conversion, record: JobRecord, user: str, *, order: Order = "worst", precision: Precision = "all"
) -> dict[str, Any]:
    """What templates/conversion/_quality.html needs beside `job`. Raises JobNotFound for another user's job."""
    if record.owner != user:
        record = conversion.jobs.get(record.job_id, user)
    quality = quality_of(conversion, record)
    return {
        "job": record,
        "quality": quality,
        "layers": chosen_layers(quality, order, precision),
        "order": order,
        "precision": precision,
        "rule_db": SNR_DB_MIN,
        "exact_db": EXACT_DB,
    }


def chosen_layers(quality: Quality, order: Order, precision: Precision) -> tuple[LayerQuality, ...]:
    ordered = quality.ranked if order == "worst" else quality.layers
    return tuple(layer for layer in ordered if precision in ("all", "int8" if layer.is_int8 else "float"))


def _report(conversion: Conversion, record: JobRecord, stage: Stage) -> dict[str, Any] | None:
    artifact = record.artifacts.get(f"{stage.step}.json")
    if artifact is None or artifact.size_bytes > REPORT_BYTES_MAX:
        return None
    report = json.loads(b"".join(conversion.jobs.read(artifact)))
    return report if isinstance(report, dict) else None
