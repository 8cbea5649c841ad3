"""Installations of the vendor's toolchain, its process, its log and the progress made of it. Over the stand-in."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from app.conversion.errors import ToolchainMissing
from app.conversion.model import Stage
from app.conversion.toolchains.kneron import KneronToolchain
from tests.harness.until import until
from tests.standins import kneron
from tests.standins.kneron import job, told


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


def test_an_interpreter_without_ktc_is_a_missing_toolchain(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing) as caught:
        job(tmp_path).run(Stage.ONNX, kneron.toolchain(tmp_path, pythonpath=str(tmp_path)))
    assert "No module named 'ktc'" in caught.value.message and caught.value.detail["id"] == "toolchain_missing"


def test_an_interpreter_that_cannot_be_started_is_a_missing_toolchain(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_bytes(b"\x7fELF nonsense")
    script.chmod(0o755)
    with pytest.raises(ToolchainMissing, match="cannot be started"):
        job(tmp_path).run(Stage.ONNX, kneron.toolchain(tmp_path, python=script))


def test_an_older_installation_works_and_the_options_it_lacks_are_told(
    tmp_path: Path, tool: KneronToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTC_STANDIN_OLD", "1")
    work = job(tmp_path, platform="720", weight_bitwidth_mode="int16", clear_shapes=True)
    first = work.run(Stage.ONNX, tool)
    assert first.report["optimizer"] == "ktc.onnx_optimizer.onnx2onnx_flow"
    assert "kneronnxopt is not installed" in told(first) and "does not know clear_shapes" in told(first)
    second = work.run(Stage.BIE, tool)
    assert {"call": "analysis", "argument": "weight_bitwidth_mode"} in second.report["dropped_arguments"]
    assert "does not know weight_bitwidth_mode of analysis" in told(second)
    assert "does not know quantize_mode" not in told(second), "a default that was dropped changes nothing"
    work.run(Stage.NEF, tool)


def test_two_conversions_on_one_machine_take_turns(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path)
    with tool.vendor.lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        runner = threading.Thread(target=work.run, args=(Stage.ONNX, tool))
        runner.start()
        until(lambda: "waiting for another conversion on this machine" in [text for _, text in work.progress])
        assert runner.is_alive() and not (work.work / "out.onnx").exists()
    runner.join()
    assert (work.work / "out.onnx").exists()


def test_a_stray_helper_that_keeps_the_pipe_open_does_not_hold_up_the_stage(
    tmp_path: Path, tool: KneronToolchain
) -> None:
    """The helper sleeps for longer than a test may take."""
    job(tmp_path, "analysis:stray_helper").prime().run(Stage.BIE, tool)


def test_the_vendor_process_ends_when_listening_to_it_fails(tmp_path: Path, tool: KneronToolchain) -> None:
    def refuse(fraction: float, text: str) -> None:
        if text == "quantizing":
            raise RuntimeError("stop")

    work = job(tmp_path, "analysis:hang").prime()
    with pytest.raises(RuntimeError, match="stop"):
        tool.run(work.request(Stage.BIE), refuse)


def test_the_vendors_words_are_in_the_stage_log(
    tmp_path: Path, tool: KneronToolchain, capfd: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path).run(Stage.ONNX, tool)
    assert 'when running "general/Success"' in capfd.readouterr().out


def test_the_progress_of_a_whole_stage_names_its_phases(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path).prime()
    work.run(Stage.BIE, tool)
    texts = [text for _, text in work.progress]
    assert texts[0] == "preparing the reference data" and "quantizing" in texts and "quantizing: value ranges" in texts
