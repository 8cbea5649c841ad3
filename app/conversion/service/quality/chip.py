"""Reads the vendor's part of the reports: speed, bandwidth, nodes on the CPU, bit widths. All of it is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.conversion.service.quality.views import (
    BitWidth,
    Boundary,
    ChipNode,
    ChipReport,
    Outcome,
    OutputQuality,
    QualityVerdict,
    Spread,
)
from app.conversion.toolchains.base import SNR_DB_MIN
from app.conversion.toolchains.kneron.report import bits_ignored
from app.kit.text.json_values import JsonObject

BIT_TRUE = frozenset({"match", "matched", "pass", "true"})
BANDWIDTHS = (("RDMA", "rdma_gb_s"), ("WDMA", "wdma_gb_s"), ("GETW", "getw_gb_s"))
RULE = "SNR >= 20 dB at every output (the vendor's rule)"
TRANSFERS = (("read", "ddr_read_mb"), ("write", "ddr_write_mb"))


def chip_report(onnx: JsonObject | None, bie: JsonObject | None, nef: JsonObject | None) -> ChipReport | None:
    """None until a stage has reported. The quantization's own numbers go before the evaluator's earlier estimate."""
    latest = bie or onnx
    if latest is None:
        return None
    estimate = (onnx or {}).get("evaluation") or {}
    measured = (bie or {}).get("quantization") or {}
    figures = {**estimate, **{key: value for key, value in measured.items() if value is not None}}
    nodes = figures.get("nodes") or {}
    written = (nef or {}).get("nef") or {}
    return ChipReport(
        platform=str(latest.get("platform", "")),
        version=str(figures.get("toolchain_version") or latest.get("toolchain_version") or ""),
        fps=figures.get("fps"),
        itc_ms=figures.get("itc_ms"),
        operations=figures.get("operations"),
        bandwidth_gb_s=_select_present(figures, BANDWIDTHS),
        ddr_mb=_select_present(figures, TRANSFERS),
        cpu_nodes=tuple((node["operator"], node["node"]) for node in figures.get("cpu_nodes", ())),
        bits=_read_bits((bie or {}).get("bits_requested") or {}, measured.get("bits") or {}),
        slowest=tuple(_read_node(row) for row in nodes.get("slowest", ())),
        lowest_snr=tuple(_read_node(row) for row in nodes.get("lowest_snr", ())),
        node_types=tuple(sorted((nodes.get("types") or {}).items())),
        missing_operators=_list_missing((onnx or {}).get("operators_probably_missing", ())),
        bit_true_match=str(measured.get("btm") or ""),
        chip=str(written.get("chip") or ""),
        is_crc_ok=written.get("crc_ok"),
    )


def boundaries_of(onnx: JsonObject | None, bie: JsonObject | None, nef: JsonObject | None) -> tuple[Boundary, ...]:
    """The vendor measures one SNR of its own, when asked to (mode 2 or 3), and whether the simulators agree."""
    measured = (bie or {}).get("quantization") or {}
    snr_db = measured.get("snr_db")
    outputs = () if snr_db is None else (OutputQuality("", Spread(mean=snr_db), Spread()),)
    is_bit_true = str(measured.get("btm") or "").strip().lower() in BIT_TRUE
    return (
        Boundary("optimise", "model.onnx", "out.onnx", _judge_goal(onnx)),
        Boundary("quantise", "out.onnx", "out.bie", "measured" if outputs else _judge_goal(bie), outputs=outputs),
        Boundary("compile", "out.bie", "out.nef", "bit_true" if nef and is_bit_true else _judge_goal(nef)),
    )


def chip_verdict(snr_db: float | None) -> QualityVerdict | None:
    """The vendor's rule on the vendor's number; None if it was not measured."""
    return None if snr_db is None else QualityVerdict(snr_db, RULE, snr_db >= SNR_DB_MIN)


def _judge_goal(report: JsonObject | None) -> Outcome:
    return "pending" if report is None else "unmeasured"


def _select_present(figures: JsonObject, names: tuple[tuple[str, str], ...]) -> tuple[tuple[str, float], ...]:
    return tuple((label, figures[key]) for label, key in names if figures.get(key) is not None)


def _read_bits(requested: Mapping[str, str], effective: Mapping[str, str]) -> tuple[BitWidth, ...]:
    return tuple(
        BitWidth(
            part,
            requested.get(part, ""),
            effective.get(part, ""),
            is_ignored=bool(bits_ignored({part: requested[part]}, dict(effective))) if part in requested else False,
        )
        for part in sorted(requested.keys() | effective.keys())
    )


def _read_node(row: JsonObject) -> ChipNode:
    bits = " / ".join(str(row[key]) for key in ("bits_in", "bits_weight", "bits_out") if row.get(key))
    return ChipNode(
        node=str(row.get("node", "")),
        origin=str(row.get("origin", "")),
        type=str(row.get("type", "")),
        bits=bits,
        runtime_ms=row.get("runtime_ms"),
        snr_db=row.get("snr_db"),
    )


def _list_missing(rows: Any) -> tuple[str, ...]:
    names = {str(row.get("operator", row.get("op_type", ""))) if isinstance(row, Mapping) else str(row) for row in rows}
    return tuple(sorted(name for name in names if name))
