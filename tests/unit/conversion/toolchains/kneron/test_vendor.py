"""What is done before the vendor's process is started, and what is made of its words."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from app.conversion.errors import ToolchainMissing
from app.conversion.model import Stage
from app.conversion.options import ToolchainName
from app.conversion.toolchains.kneron import KneronToolchain
from app.conversion.toolchains.kneron.phases import PhaseClock
from app.conversion.toolchains.kneron.vendor import Tee
from app.kit.sandbox.errors import StageFailed
from tests.standins import kneron
from tests.standins.kneron import job


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


# --- installations --------------------------------------------------------------------------------
def test_a_missing_interpreter_is_said_before_anything_is_done(tmp_path: Path) -> None:
    for python in (tmp_path / "none", tmp_path):
        with pytest.raises(ToolchainMissing) as caught:
            job(tmp_path / python.name).run(Stage.ONNX, kneron.toolchain(tmp_path, python=python))
        assert str(python) in caught.value.message and "image" in caught.value.hint


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


def test_the_builder_of_test_models_makes_valid_ones() -> None:
    onnx.checker.check_model(kneron.model())
    assert numpy_helper.to_array(kneron.model().graph.initializer[0]).shape == (4, 3, 1, 1)
