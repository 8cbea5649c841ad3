"""Whether a stage has succeeded, judged by files and reports; and where a BIE file came from. Over the stand-in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.conversion.errors import ToolchainFailed
from app.conversion.model import Stage
from app.conversion.toolchains.kneron import KneronToolchain, sidecar
from tests.harness.variants import exhaustive
from tests.standins import kneron
from tests.standins.kneron import job, told


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


# --- judged by files and report -------------------------------------------------------------------
def test_an_evaluator_that_fails_is_a_warning(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, "evaluate:systemexit").run(Stage.ONNX, tool)
    assert result.output.exists() and "the IP evaluator failed: SystemExit" in told(result)
    assert result.summary["fps_estimate"] is None


def test_an_evaluator_that_kills_the_process_is_a_warning(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, "evaluate:dies_after").run(Stage.ONNX, tool)
    assert result.output.exists() and "the IP evaluator died" in told(result) and "SIGABRT" in told(result)


def test_an_estimate_without_a_speed_is_a_warning(tmp_path: Path, tool: KneronToolchain) -> None:
    assert "no speed estimate" in told(job(tmp_path, "evaluate:broken_report").run(Stage.ONNX, tool))


def test_operators_the_evaluator_names_become_warnings(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, "evaluate:unsupported_op").run(Stage.ONNX, tool)
    assert "calls operator Softmax unsupported at softmax_0" in told(result)
    assert result.report["evaluation"]["unsupported"] == [{"operator": "Softmax", "node": "softmax_0"}]


def test_nodes_on_the_chips_cpu_become_a_warning(tmp_path: Path, tool: KneronToolchain) -> None:
    assert "2 nodes run on the chip's CPU (Reshape, Softmax)" in told(
        job(tmp_path, "evaluate:cpu_node").run(Stage.ONNX, tool)
    )
    assert job(tmp_path / "b", "analysis:cpu_node").prime().run(Stage.BIE, tool).summary["cpu_nodes"] == 2


def test_bit_widths_that_were_silently_ignored_are_told(tmp_path: Path, tool: KneronToolchain) -> None:
    chosen = {"platform": "720", "datapath_bitwidth_mode": "mix light"}
    assert "mix light" in told(job(tmp_path, "analysis:ignored_bits", **chosen).prime().run(Stage.BIE, tool))
    assert "mix light" not in told(job(tmp_path / "b", **chosen).prime().run(Stage.BIE, tool))


def test_a_low_snr_is_in_the_summary(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, "analysis:snr_low", mode=2).prime().run(Stage.BIE, tool)
    assert result.summary["snr_db"] == 12.0


def test_a_bie_without_a_report_is_a_success_with_a_warning(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, "analysis:no_report").prime().run(Stage.BIE, tool)
    assert "left no report" in told(result) and result.summary["fps"] is None


def test_an_output_in_an_old_place_is_found(
    tmp_path: Path, tool: KneronToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stray").mkdir()
    monkeypatch.setenv("KTC_STANDIN_STRAY", str(tmp_path / "stray"))
    work = job(tmp_path, "analysis:elsewhere").prime()
    assert "not where the toolchain said" in told(work.run(Stage.BIE, tool))
    work.run(Stage.NEF, tool)


def test_a_leftover_of_another_run_is_no_output(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path, "analysis:no_file").prime()
    (work.work / "out.bie").write_bytes(b"old")
    (work.work / "scratch" / "kneron_bie" / "out").mkdir(parents=True)
    (work.work / "scratch" / "kneron_bie" / "out" / "x.bie").write_bytes(b"old")
    with pytest.raises(ToolchainFailed):
        work.run(Stage.BIE, tool)
    assert not (work.work / "out.bie").exists()


def test_a_nef_of_another_chip_is_told(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path, "compile:other_chip").prime()
    work.run(Stage.BIE, tool)
    assert "names chip 720, but 520 was asked for" in told(work.run(Stage.NEF, tool))


def test_a_nef_that_cannot_be_read_is_only_doubted_on_chips_whose_layout_was_never_seen(
    tmp_path: Path, tool: KneronToolchain
) -> None:
    work = job(tmp_path, "compile:garbage", platform="730").prime()
    work.run(Stage.BIE, tool)
    assert "could not be read back" in told(work.run(Stage.NEF, tool))


# --- the BIE and where it came from ---------------------------------------------------------------
@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized")
    work = job(folder).prime()
    work.run(Stage.BIE, kneron.toolchain(folder))
    return work.work


@pytest.fixture
def bie_done(tmp_path: Path, quantized: Path) -> kneron.Job:
    """A job that has its BIE."""
    work = job(tmp_path)
    shutil.copytree(quantized, work.work, dirs_exist_ok=True)
    return work


def change_meta(work: kneron.Job, **changes: str) -> None:
    path = work.work / "out.bie.meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"platform": "720"}, "bie_other_chip"),
        ({"toolchain_version": "kneron/toolchain:v0.30.0"}, "bie_other_version"),
        ({"sha256": "0" * 64}, "bie_changed"),
    ],
)
def test_a_bie_that_belongs_to_something_else_is_refused(
    bie_done: kneron.Job, tool: KneronToolchain, changes: dict[str, str], id: str
) -> None:
    change_meta(bie_done, **changes)
    with pytest.raises(ToolchainFailed) as caught:
        bie_done.run(Stage.NEF, tool)
    assert caught.value.detail["id"] == id and caught.value.hint


def test_a_bie_without_its_origin_is_compiled_with_a_warning(bie_done: kneron.Job, tool: KneronToolchain) -> None:
    origin = bie_done.work / "out.bie.meta.json"
    for content in ("[]", '{"surprise": 1}', "{broken"):
        origin.write_text(content)
        assert sidecar.read(origin) is None
    assert "without its origin" in told(bie_done.run(Stage.NEF, tool))
    origin.unlink()
    assert sidecar.read(origin) is None


def test_an_unknown_toolchain_version_is_a_warning(bie_done: kneron.Job, tmp_path: Path) -> None:
    blind = kneron.toolchain(tmp_path, version_file=tmp_path / "none.txt")
    result = bie_done.run(Stage.NEF, blind)
    assert "version is not known" in told(result) and result.versions["kneron_toolchain"] == "unknown"


@pytest.mark.parametrize("name", ["../../evil.bie", *exhaustive("a b.bie", "x.nef", "-" * 200 + ".bie")])
def test_a_name_from_the_origin_file_never_leaves_the_scratch_folder(
    bie_done: kneron.Job, tool: KneronToolchain, name: str
) -> None:
    change_meta(bie_done, vendor_name=name)
    bie_done.run(Stage.NEF, tool)
    assert (bie_done.work / "scratch" / "kneron_nef" / "model.kdp520.scaled.bie").exists()
