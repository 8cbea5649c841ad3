"""The measurements as one flat table, for the CSV, the JSON and the page's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace

from app.conversion.service.quality.views import (
    Boundary,
    ChipReport,
    FloatInt8Pair,
    LayerQuality,
    OutputQuality,
    Quality,
    Spread,
)
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import csv_text


@dataclass(frozen=True)
class QualityRow:
    section: str
    """optimize, quantize, compile, layer, sample, size, latency or chip."""
    name: str
    kind: str = ""
    precision: str = ""
    snr_db_mean: float | None = None
    snr_db_min: float | None = None
    snr_db_p5: float | None = None
    cosine_mean: float | None = None
    cosine_min: float | None = None
    cosine_p5: float | None = None
    max_abs: float | None = None
    weight_snr_db: float | None = None
    samples: int | None = None
    value: float | None = None
    """A single number."""
    unit: str = ""
    """Of the value."""


def rows(quality: Quality) -> list[QualityRow]:
    """Boundaries, then layers in graph order, then worst samples, size, latency and the chip's numbers."""
    return [
        *(_make_output_row(boundary, output) for boundary in quality.boundaries for output in boundary.outputs),
        *(_make_layer_row(layer) for layer in quality.layers),
        *(QualityRow("sample", sample.name, snr_db_min=sample.snr_db, samples=1) for sample in quality.worst_samples),
        *_make_pair_rows("size", quality.size_bytes, "bytes"),
        *([] if quality.nef_bytes is None else [QualityRow("size", "nef", value=quality.nef_bytes, unit="bytes")]),
        *_make_pair_rows("latency", quality.latency_ms, "ms"),
        *_make_chip_rows(quality.chip),
    ]


def to_csv(quality: Quality) -> str:
    """RFC 4180 with a header line; an empty cell where there is no number."""
    names = [field.name for field in fields(QualityRow)]
    return csv_text([names, *(asdict(row).values() for row in rows(quality))])


def to_json(quality: Quality) -> JsonObject:
    """{toolchain, samples, images, verdict, rows: [the CSV's rows], labels: [a row a metric], warnings}"""
    quantised = quality.boundaries[1]
    return {
        "toolchain": quality.toolchain,
        "samples": quality.samples,
        "images": quantised.inputs,
        "verdict": asdict(quality.verdict) if quality.verdict else None,
        "rows": [asdict(row) for row in rows(quality)],
        "labels": [
            {"metric": row.metric, "float": row.float_, "int8": row.int8, "n": row.n, "are_unseen": row.are_unseen}
            for row in quality.labeled
        ],
        "warnings": list(quality.warnings),
    }


def _make_output_row(boundary: Boundary, output: OutputQuality) -> QualityRow:
    samples = output.snr_db.n or boundary.samples
    row = QualityRow(boundary.step, output.name, kind=output.saturates, max_abs=output.max_abs, samples=samples)
    return _with_spreads(row, output.snr_db, output.cosine)


def _make_layer_row(layer: LayerQuality) -> QualityRow:
    row = QualityRow(
        "layer",
        layer.name,
        kind=layer.op_type,
        precision="int8" if layer.is_int8 else "float",
        max_abs=layer.max_abs,
        weight_snr_db=layer.weight_snr_db,
        samples=layer.snr_db.n,
    )
    return _with_spreads(row, layer.snr_db, layer.cosine)


def _with_spreads(row: QualityRow, snr_db: Spread, cosine: Spread) -> QualityRow:
    return replace(
        row,
        snr_db_mean=snr_db.mean,
        snr_db_min=snr_db.min,
        snr_db_p5=snr_db.p5,
        cosine_mean=cosine.mean,
        cosine_min=cosine.min,
        cosine_p5=cosine.p5,
    )


def _make_pair_rows(section: str, pair: FloatInt8Pair | None, unit: str) -> list[QualityRow]:
    if pair is None:
        return []
    return [
        QualityRow(section, "float", value=pair.float_, unit=unit),
        QualityRow(section, "int8", value=pair.int8, unit=unit),
    ]


def _make_chip_rows(chip: ChipReport | None) -> Iterator[QualityRow]:
    if chip is None:
        return
    single = (("fps", chip.fps, "1/s"), ("itc", chip.itc_ms, "ms"), ("operations", chip.operations, "1"))
    yield from (QualityRow("chip", name, value=value, unit=unit) for name, value, unit in single if value is not None)
    yield from (
        QualityRow("chip", name, kind="bandwidth", value=value, unit="GB/s") for name, value in chip.bandwidth_gb_s
    )
    yield from (QualityRow("chip", name, kind="DDR", value=value, unit="MB") for name, value in chip.ddr_mb)
    yield from (QualityRow("chip", node, kind=f"CPU {operator}") for operator, node in chip.cpu_nodes)
    yield from (
        QualityRow("chip", b.part, kind=f"bits requested {b.requested}", precision=b.effective) for b in chip.bits
    )
