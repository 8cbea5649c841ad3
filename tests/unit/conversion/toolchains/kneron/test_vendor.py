"""Installations of the vendor's toolchain, its process, its log and the progress made of it."""

from __future__ import annotations

import fcntl
import sys
import threading
import time
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

from app.conversion.errors import (
    StageFailed,
    ToolchainMissing,
)
from app.conversion.model import Stage
from app.conversion.options import ToolchainName
from app.conversion.toolchains.kneron import KneronToolchain
from app.conversion.toolchains.kneron.phases import PhaseClock
from app.conversion.toolchains.kneron.vendor import Tee
from tests.standins import kneron


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


def job(tmp_path: Path, fail: str = "", platform: str = "520", samples: int = 3, **changes: Any) -> kneron.Job:
    return kneron.Job(tmp_path, kneron.model(fail), kneron.options(platform, **changes), samples=samples)


def told(result: Any) -> str:
    return "\n".join(result.report["warnings"])


# --- installations --------------------------------------------------------------------------------
def test_a_missing_interpreter_is_said_before_anything_is_done(tmp_path: Path) -> None:
    for python in (tmp_path / "none", tmp_path):
        with pytest.raises(ToolchainMissing) as caught:
            job(tmp_path / python.name).run(Stage.ONNX, kneron.toolchain(tmp_path, python=python))
        assert str(python) in caught.value.message and "image" in caught.value.hint


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


def test_the_vendor_sees_its_own_python_first_and_none_of_our_secrets(
    tool: KneronToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "MODELMILL_S3_SECRET_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "API_TOKEN",
        "PYTHONHOME",
        "VIRTUAL_ENV",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("KEEP_ME", "yes")
    seen = tool.vendor.environment()
    assert "secret" not in seen.values() and seen["KEEP_ME"] == "yes"
    assert seen["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert seen["PYTHONPATH"] == str(kneron.PACKAGE)


def test_a_work_folder_with_special_characters_is_refused_with_the_reason(
    tmp_path: Path, tool: KneronToolchain
) -> None:
    with pytest.raises(StageFailed, match="special characters"):
        job(tmp_path / "my jobs").run(Stage.ONNX, tool)


def test_two_conversions_on_one_machine_take_turns(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path)
    with tool.vendor.lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        runner = threading.Thread(target=work.run, args=(Stage.ONNX, tool))
        runner.start()
        time.sleep(1.2)
        assert runner.is_alive() and not (work.work / "out.onnx").exists()
        assert "waiting for another conversion on this machine" in [text for _, text in work.progress]
    runner.join(60)
    assert (work.work / "out.onnx").exists()


def test_a_stray_helper_that_keeps_the_pipe_open_does_not_hold_up_the_stage(
    tmp_path: Path, tool: KneronToolchain
) -> None:
    began = time.monotonic()
    job(tmp_path, "analysis:stray_helper").prime().run(Stage.BIE, tool)
    assert time.monotonic() - began < 3.5, "the helper sleeps 4 s"


def test_the_vendor_process_ends_when_listening_to_it_fails(tmp_path: Path, tool: KneronToolchain) -> None:
    def refuse(fraction: float, text: str) -> None:
        if text == "quantizing":
            raise RuntimeError("stop")

    work = job(tmp_path, "analysis:hang").prime()
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="stop"):
        tool.run(work.request(Stage.BIE), refuse)
    assert time.monotonic() - began < 20


def test_the_vendors_words_are_in_the_stage_log(
    tmp_path: Path, tool: KneronToolchain, capfd: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path).run(Stage.ONNX, tool)
    assert 'when running "general/Success"' in capfd.readouterr().out


def test_the_name_is_that_of_the_options(tool: KneronToolchain) -> None:
    assert tool.name is ToolchainName.KNERON


# --- log and progress -----------------------------------------------------------------------------
def test_lines_are_cut_at_newlines_and_carriage_returns_and_at_a_size(tmp_path: Path) -> None:
    lines: list[str | None] = []
    with (tmp_path / "log").open("wb") as record:
        tee = Tee(record, lines.append)
        tee.feed(b"a\r\n50%\r60%\rhal")
        tee.feed(b"f\n\n" + b"x" * (1 << 17))
        tee.feed(b"\xff tail")
        tee.close()
    assert lines[:4] == ["a", "50%", "60%", "half"] and len(lines[4] or "") == 1 << 17
    assert lines[5] == "\ufffd tail"
    assert (tmp_path / "log").read_bytes().startswith(b"a\n50%\n60%\nhalf\nxxx")


def test_progress_creeps_within_a_phase_and_never_goes_back() -> None:
    now, seen = [0.0], list[tuple[float, str]]()
    clock = PhaseClock(Stage.BIE, lambda fraction, text: seen.append((fraction, text)), lambda: now[0])
    clock.watch("nothing known yet")
    assert seen == []
    for line in (
        "[modelmill] phase import",
        "[modelmill] phase analysis",
        None,
        "run knerex",
        "[modelmill] phase import",
    ):
        for _ in range(3):
            now[0] += 100
            clock.watch(line)
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions) and len(set(fractions)) > 4
    assert max(fractions) < 0.6, "a phase never reaches the next by time alone"


def test_the_progress_of_a_whole_stage_names_its_phases(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path).prime()
    work.run(Stage.BIE, tool)
    texts = [text for _, text in work.progress]
    assert texts[0] == "preparing the reference data" and "quantizing" in texts and "quantizing: value ranges" in texts


def test_the_builder_of_test_models_makes_valid_ones() -> None:
    onnx.checker.check_model(kneron.model())
    assert numpy_helper.to_array(kneron.model().graph.initializer[0]).shape == (4, 3, 1, 1)
