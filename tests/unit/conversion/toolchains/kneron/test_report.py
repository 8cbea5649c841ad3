from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from app.conversion.toolchains.kneron import report
from tests.standins.kneron import PACKAGE

SPEC = importlib.util.spec_from_file_location("standin_reports", PACKAGE / "ktc" / "reports.py")
assert SPEC is not None and SPEC.loader is not None
written = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(written)

REAL_KEYS = {
    "docker_version": "kneron/toolchain:v0.32.1",
    "comments": "",
    "kdp530/input bitwidth": "int8",
    "kdp530/datapath bitwidth": "int16",
    "kdp530/ip_eval/fps": "14.3784",
    "kdp530/ip_eval/ITC(ms)": "69.5489 ms",
    "kdp530/ip_eval/C(GOPs)": "4.13823e+09",
    "kdp530/ip_eval/RDMA bandwidth GB/s": "3.6 GB/s",
    "kdp530/ip_eval/RV(mb)": 90.9954,
    "kdp530/ip_eval/cpu_node": "N/A",
    "kdp530/bie": "model.bie",
}


def test_numbers_are_cut_out_of_their_text_and_units() -> None:
    parsed = report.parse(REAL_KEYS)
    assert (parsed["fps"], parsed["itc_ms"], parsed["operations"]) == (14.3784, 69.5489, 4.13823e9)
    assert (parsed["rdma_gb_s"], parsed["ddr_read_mb"]) == (3.6, 90.9954)
    assert parsed["bits"] == {"model_in": "int8", "datapath": "int16"}
    assert parsed["toolchain_version"] == "kneron/toolchain:v0.32.1"
    assert parsed["complete"] and parsed["cpu_nodes"] == []


def test_small_gops_are_taken_at_their_word() -> None:
    assert report.parse({"kdp530/ip_eval/C(GOPs)": "4.1"})["operations"] == pytest.approx(4.1e9)


def test_unknown_keys_are_kept() -> None:
    assert report.parse(REAL_KEYS)["other"] == {"kdp530/bie": "model.bie"}


def test_cpu_nodes_are_read_at_either_of_their_places() -> None:
    expected = [{"operator": "Softmax", "node": "a"}, {"operator": "Reshape", "node": "b:0"}]
    for key in ("kdp520/ip_eval/cpu_node", "kdp520/cpu_node"):
        assert report.parse({key: "Softmax: a//Reshape: b:0"})["cpu_nodes"] == expected


def test_a_report_of_a_failed_run_is_not_complete() -> None:
    assert not report.parse({"docker_version": "v", "comments": "", "gen fx model json": "x"})["complete"]


@pytest.mark.parametrize("text", ["", "[]", "{broken", "null", "\0\1", pytest.param("[" * 100_000, id="nested")])
def test_a_report_that_is_no_json_object_is_not_complete(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    assert report.read(path) == {"complete": False, "other": {}}


def test_numbers_that_json_does_not_know_are_read_anyway(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"kdp720/ip_eval/fps": NaN, "kdp720/SNR(dB)": "inf"}')
    content = report.read(path)
    assert content["complete"] and content["fps"] is None and content["snr_db"] is None
    json.dumps(content, allow_nan=False)


def test_bit_widths_that_were_ignored_are_told() -> None:
    (told,) = report.bits_ignored({"datapath": "mix light", "weight": "int8"}, {"datapath": "int8", "weight": "8"})
    assert "datapath" in told and "mix light" in told and "int8" in told


def test_bit_widths_that_only_look_different_are_not_told() -> None:
    widths = {"datapath": "mix light", "weight": "int16", "model_in": "int8"}
    assert report.bits_ignored(widths, {"datapath": "mix_light", "weight": "16 bit", "model_in": "N/A"}) == []


def test_the_node_table_is_found_among_others_and_read(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text(written.html("kdp530", "cpu_node"))
    conv, relu, softmax = report.read_nodes(path)
    assert conv == {
        "node": "conv_0",
        "origin": "Conv_0",
        "type": "NPU",
        "backend": "npu_0",
        "bits_in": "8",
        "bits_out": "8",
        "bits_weight": "8",
        "in_format": "4W4C8B",
        "out_format": "1W16C8B",
        "mac_cycles": 1200.0,
        "runtime_ms": 0.8,
        "snr_db": 31.5,
    }
    assert relu["backend"] == "npu_0" and "bits_in" not in relu and "snr_db" not in relu
    assert "runtime_ms" not in relu, "the time of a shared backend node must not count twice"
    assert softmax["type"] == "CPU"


def test_the_time_of_a_backend_node_that_is_written_out_at_each_of_its_nodes_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    columns = ("node", "node origin", "type", "node backend", "runtime(ms)", "SNR")
    rows = [("a", "A", "NPU", "npu_0", "3.95", "40"), ("b", "B", "FUSED", "npu_0", "3.95", "38")]
    rows += [
        ("c", "C", "NPU", "npu_1", "2.31", "39"),
        ("d", "D", "CPU", "", "1.5", ""),
        ("e", "E", "CPU", "", "1.5", ""),
    ]
    cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f"<th>{name}</th>" for name in columns)
    path.write_text(f'<table class="dataframe"><tr>{head}</tr>{cells}</table>')
    digest = report.digest(report.read_nodes(path))
    assert [node["node"] for node in digest["slowest"]] == ["a", "c", "d", "e"]
    assert [node["node"] for node in digest["lowest_snr"]] == ["b", "c", "a"]


def test_the_digest_puts_cpu_nodes_slow_nodes_and_noisy_nodes_first(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text(written.html("kdp530", "cpu_node"))
    digest = report.digest(report.read_nodes(path))
    assert digest["types"] == {"CPU": 1, "FUSED": 1, "NPU": 1}
    assert [node["node"] for node in digest["cpu"]] == ["softmax_0"]
    assert [node["node"] for node in digest["slowest"]] == ["softmax_0", "conv_0"]
    assert [node["node"] for node in digest["lowest_snr"]] == ["softmax_0", "conv_0"]


@pytest.mark.parametrize("text", ["", "<table class='dataframe'><td>x", "<table class=dataframe><tr><th>a</th></tr>"])
def test_html_without_a_node_table_gives_no_nodes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.html"
    path.write_text(text)
    assert report.read_nodes(path) == []
