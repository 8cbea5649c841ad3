from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from app.conversion.options import HostQuantization, KneronOptions, Options
from app.conversion.service import comparison
from app.conversion.service.quality import choose_layers, report_reader, to_csv, to_json
from app.conversion.service.quality.views import Quality


def spread(mean: float, low: float, n: int = 8) -> dict[str, Any]:
    return {"mean": mean, "min": low, "p5": low + 0.5, "n": n}


def layer(name: str, snr: float, **changes: Any) -> dict[str, Any]:
    row = {"name": name, "op_type": "Conv", "int8": True, "snr_db": spread(snr, snr - 2), "cosine": spread(0.99, 0.98)}
    return {**row, "max_abs": 0.5, "weight_snr_db": 44.0, **changes}


ONNX = {
    "equivalence": {
        "samples": 16,
        "exact": True,
        "outputs": [{"name": "y", "snr_db": 120.0, "cosine": 1.0, "max_abs_diff": 0.0, "exact": True}],
    },
    "warnings": ["an odd opset"],
}
BIE: dict[str, Any] = {
    "calibration": {"method": "minmax", "samples": 30, "skipped": [{"name": "a.png", "reason": "cut"}]},
    "quality": {
        "samples": 30,
        "images": "calibration images",
        "layer_samples": 8,
        "layers_left_out": 2,
        "outputs": [{"name": "y", "snr_db": spread(38.9, 31.0, 30), "cosine": spread(0.999, 0.99, 30), "max_abs": 0.1}],
        "layers": [layer("a", 40.0), layer("b", 12.0), layer("c", 15.0), layer("d", 120.0, int8=False)],
        "worst_samples": [{"name": "=1+1.png", "snr_db": 31.0}],
    },
    "size": {"float_bytes": 400, "int8_bytes": 100},
    "latency_ms": {"float": 2.0, "int8": 0.5, "threads": 1},
    "verdict": {"snr_db": 38.9, "rule": "the rule", "passed": True},
    "quantization": {"float_tail": {"nodes": 0, "reason": ""}},
    "warnings": [],
}
NEF = {
    "agreement": {
        "samples": 8,
        "inputs": "reference samples",
        "bit_true": True,
        "outputs": [{"name": "y", "snr_db": 120.0, "cosine": 1.0, "max_abs_diff": 0.0, "exact": True}],
    },
    "size_bytes": 150,
}


@pytest.fixture
def quality() -> Quality:
    return report_reader.quality(ONNX, BIE, NEF, toolchain="host")


def with_bie(**changes: Any) -> Quality:
    return report_reader.quality(ONNX, {**BIE, **changes}, NEF, toolchain="host")


def with_quality(**changes: Any) -> Quality:
    return with_bie(quality={**BIE["quality"], **changes})


def test_the_ladder_says_what_each_step_cost(quality: Quality) -> None:
    assert [(b.step, b.outcome, b.snr_db) for b in quality.boundaries] == [
        ("optimise", "exact", 120.0),
        ("quantise", "measured", 38.9),
        ("compile", "bit_true", 120.0),
    ]


@pytest.mark.parametrize("faulty", ["optimise", "quantise", "compile"])
def test_the_ladder_blames_the_step_that_has_the_fault(faulty: str) -> None:
    bad = [{"name": "y", "snr_db": 7.0, "cosine": 0.7, "max_abs_diff": 3.0, "exact": False}]
    onnx = {**ONNX, "equivalence": {**ONNX["equivalence"], "exact": False, "outputs": bad}}  # type: ignore[dict-item]
    nef = {**NEF, "agreement": {**NEF["agreement"], "bit_true": False, "outputs": bad}}  # type: ignore[dict-item]
    bie = {**BIE, "quality": {**BIE["quality"], "outputs": bad}}
    read = report_reader.quality(
        onnx if faulty == "optimise" else ONNX,
        bie if faulty == "quantise" else BIE,
        nef if faulty == "compile" else NEF,
        toolchain="host",
    )
    assert [b.step for b in read.boundaries if b.snr_db is not None and b.snr_db < 20] == [faulty]


def test_a_boundary_is_as_good_as_its_worst_output() -> None:
    outputs = [BIE["quality"]["outputs"][0], {"name": "z", "snr_db": spread(9.0, 2.0), "cosine": spread(0.8, 0.7)}]
    quantised = with_quality(outputs=outputs).boundaries[1]
    assert (quantised.snr_db, quantised.cosine) == (9.0, 0.8)


def test_a_proof_of_equality_that_gives_a_summary_is_read_as_one() -> None:
    rows = [{"name": "y", "snr_db": spread(90.0, 80.0, 16), "cosine": spread(1.0, 1.0, 16)}]
    report = {"equivalence": {"samples": 16, "exact": False, "outputs": rows}}
    read = report_reader.quality(report, None, None, toolchain="host")
    assert read.boundaries[0].outputs[0].snr_db.mean == 90.0


def test_stages_that_have_not_reported_are_pending() -> None:
    read = report_reader.quality(ONNX, None, None, toolchain="host")
    assert [b.outcome for b in read.boundaries] == ["exact", "pending", "pending"]
    assert not read.is_empty
    assert report_reader.quality(None, None, None, toolchain="host").is_empty


def test_the_verdict_names_its_rule_and_stands_beside_the_worst_layer(quality: Quality) -> None:
    assert quality.verdict is not None
    assert (quality.verdict.passed, quality.verdict.rule) == (True, "the rule")
    assert quality.worst_layer is not None
    assert quality.worst_layer.name == "b"


def test_where_nothing_was_quantized_nothing_has_passed() -> None:
    told = {"snr_db": 120.0, "rule": "the rule", "passed": False, "nothing_quantized": True}
    read = with_bie(verdict=told)
    assert read.verdict is not None and (read.verdict.passed, read.verdict.nothing_quantized) == (False, True)


def test_the_first_layer_below_the_rule_is_found_in_graph_order() -> None:
    read = with_quality(layers=[layer("a", 40.0), layer("b", 18.0), layer("c", 3.0)])
    assert read.first_bad_layer is not None
    assert (read.first_bad_layer.name, read.worst_layer and read.worst_layer.name) == ("b", "c")


def test_no_layer_is_called_bad_when_all_are_above_the_rule() -> None:
    assert with_quality(layers=[layer("a", 40.0), layer("d", 120.0)]).first_bad_layer is None


def test_a_layer_of_zero_db_is_bad() -> None:
    first = with_quality(layers=[layer("a", 0.0)]).first_bad_layer
    assert first is not None
    assert first.name == "a"


def test_a_saturating_output_is_told(quality: Quality) -> None:
    assert quality.saturating == ()
    output = {**BIE["quality"]["outputs"][0], "saturates": "Softmax"}
    assert [o.saturates for o in with_quality(outputs=[output]).saturating] == ["Softmax"]


def test_layers_come_worst_first_or_in_graph_order_and_by_precision(quality: Quality) -> None:
    names = {
        (order, precision): "".join(one.name for one in choose_layers(quality, order, precision))  # type: ignore[arg-type]
        for order in ("worst", "graph")
        for precision in ("all", "int8", "float")
    }
    assert names["worst", "all"] == "bcad"
    assert names["graph", "all"] == "abcd"
    assert names["worst", "int8"] == "bca"
    assert names["graph", "float"] == "d"


def test_layers_without_an_snr_come_last() -> None:
    silent = layer("silent", 1.0, snr_db={"mean": None, "min": None, "p5": None, "n": 0})
    assert [one.name for one in with_quality(layers=[silent, layer("a", 40.0)]).ranked] == ["a", "silent"]


def test_sizes_and_latencies_are_compared(quality: Quality) -> None:
    assert quality.size_bytes is not None
    assert quality.latency_ms is not None
    assert (quality.size_bytes.ratio, quality.latency_ms.ratio) == (4.0, 4.0)


def test_a_latency_that_was_not_measured_is_left_out() -> None:
    assert with_bie(latency_ms={"float": None, "int8": None, "threads": 1}).latency_ms is None


def test_warnings_of_all_stages_are_kept(quality: Quality) -> None:
    assert quality.warnings == ("an odd opset",)


def test_csv_and_json_hold_the_same_numbers(quality: Quality) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(quality))))
    rows = to_json(quality)["rows"]
    assert len(lines) == len(rows) > 8
    for line, row in zip(lines, rows, strict=True):
        for name, value in row.items():
            if isinstance(value, float | int):
                assert float(line[name]) == value
            else:
                assert line[name].removeprefix("'") == (value or "")


def test_a_name_in_the_csv_is_never_a_formula(quality: Quality) -> None:
    assert "'=1+1.png" in to_csv(quality)
    assert "\n=1+1" not in to_csv(quality)
    assert ",=1+1" not in to_csv(quality)


# --- the vendor's report ------------------------------------------------------------------------------------
CHIP_ONNX = {
    "platform": "530",
    "toolchain_version": "v1",
    "warnings": ["slow"],
    "evaluation": {"fps": 10.0, "itc_ms": 100.0, "cpu_nodes": []},
    "operators_probably_missing": [{"operator": "Softmax", "count": 1, "nodes": ["s"], "note": ""}],
}
CHIP_BIE: dict[str, Any] = {
    "platform": "530",
    "samples": 40,
    "skipped": [],
    "warnings": [],
    "bits_requested": {"datapath": "int16", "weight": "int8"},
    "quantization": {
        "fps": 14.4,
        "rdma_gb_s": 3.6,
        "ddr_read_mb": 91.0,
        "snr_db": 18.0,
        "btm": "matched",
        "operations": 4.1e9,
        "cpu_nodes": [{"operator": "Softmax", "node": "s"}],
        "bits": {"datapath": "int8", "weight": "int8"},
        "nodes": {"types": {"NPU": 3}, "slowest": [{"node": "n", "type": "CPU", "runtime_ms": 2.5}], "lowest_snr": []},
    },
}
CHIP_NEF = {"nef": {"chip": "530", "crc_ok": True, "models": []}, "warnings": []}


def test_the_quantizations_own_numbers_go_before_the_earlier_estimate() -> None:
    chip = report_reader.quality(CHIP_ONNX, CHIP_BIE, CHIP_NEF, toolchain="kneron").chip
    assert chip is not None
    assert (chip.fps, chip.itc_ms) == (14.4, 100.0)
    assert chip.bandwidth_gb_s == (("RDMA", 3.6),)
    assert chip.cpu_nodes == (("Softmax", "s"),)
    assert chip.missing_operators == ("Softmax",)


def test_the_estimate_alone_is_shown_until_there_is_more() -> None:
    chip = report_reader.quality(CHIP_ONNX, None, None, toolchain="kneron").chip
    assert chip is not None
    assert chip.fps == 10.0


def test_a_bit_width_that_is_not_as_asked_is_marked() -> None:
    chip = report_reader.quality(CHIP_ONNX, CHIP_BIE, CHIP_NEF, toolchain="kneron").chip
    assert chip is not None
    assert [(b.part, b.requested, b.effective, b.is_ignored) for b in chip.bits] == [
        ("datapath", "int16", "int8", True),
        ("weight", "int8", "int8", False),
    ]


def test_what_the_vendor_did_not_measure_is_said_and_not_guessed() -> None:
    unmeasured = {**CHIP_BIE, "quantization": {"fps": 14.4}}
    read = report_reader.quality(CHIP_ONNX, unmeasured, CHIP_NEF, toolchain="kneron")
    assert [b.outcome for b in read.boundaries] == ["unmeasured", "unmeasured", "unmeasured"]
    assert read.verdict is None


def test_the_vendors_rule_is_applied_to_the_vendors_number() -> None:
    read = report_reader.quality(CHIP_ONNX, CHIP_BIE, CHIP_NEF, toolchain="kneron")
    assert [b.outcome for b in read.boundaries] == ["unmeasured", "measured", "bit_true"]
    assert read.verdict is not None
    assert not read.verdict.passed


def test_a_vendor_report_that_says_little_is_still_shown() -> None:
    read = report_reader.quality({}, {"quantization": {}}, {"nef": {}}, toolchain="kneron")
    assert read.chip is not None
    assert to_json(read)["rows"] == []


# --- comparison ---------------------------------------------------------------------------------------------
def test_only_options_that_differ_are_listed() -> None:
    a = Options(quantization=HostQuantization(method="entropy"))
    b = Options(quantization=HostQuantization(method="minmax", exclude_nodes=("n",)))
    assert [(d.name, d.a, d.b) for d in comparison.differing_options(a, b)] == [
        ("quantization.exclude_nodes", [], ["n"]),
        ("quantization.method", "entropy", "minmax"),
    ]
    assert comparison.differing_options(a, a) == ()


def test_options_of_another_toolchain_are_listed_only_when_someone_chose_them() -> None:
    a = Options()
    b = Options(toolchain="kneron", platform="530", kneron=KneronOptions(mode=2))  # type: ignore[arg-type]
    differences = {d.name: (d.a, d.b) for d in comparison.differing_options(a, b)}
    assert differences == {"toolchain": ("host", "kneron"), "platform": (None, "530"), "kneron.mode": (None, 2)}


def test_outputs_and_layers_are_matched_by_name(quality: Quality) -> None:
    other = with_quality(
        outputs=[{"name": "z", "snr_db": spread(9.0, 2.0), "cosine": spread(0.8, 0.7)}],
        layers=[layer("b", 22.0), layer("a", 40.5), layer("new", 1.0)],
    )
    matched = comparison.output_rows([quality, other])
    assert [(row.name, row.snr_db, row.worst_db) for row in matched] == [
        ("z", (None, 9.0), 9.0),
        ("y", (38.9, None), 38.9),
    ]
    assert [(p.a.name, p.change_db) for p in comparison.match_layers(quality, other)] == [("b", 10.0), ("a", 0.5)]
