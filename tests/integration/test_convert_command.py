"""`modelmill convert` against a running service: what it warns of, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from app.kit.cli.command import Exit
from tests.harness.api import npy, pngs, small_model
from tests.harness.command_line import typed
from tests.harness.deployment import Deployment
from tests.harness.models import host as host_models
from tests.harness.models import small

MonkeyPatch, Captured = pytest.MonkeyPatch, pytest.CaptureFixture[str]


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    """A model, and a folder of copies of one picture."""
    (tmp_path / "net.onnx").write_bytes(small_model())
    images = tmp_path / "images"
    images.mkdir()
    for index in range(20):
        (images / f"{index}.png").write_bytes(pngs(1)[0][1])
    return tmp_path / "net.onnx", images


@pytest.mark.parametrize(("goal", "code"), [("20", Exit.OK), ("100", Exit.BELOW)])
def test_the_quality_asked_for_decides_how_it_ends(
    service: Deployment,
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: MonkeyPatch,
    capsys: Captured,
    goal: str,
    code: Exit,
) -> None:
    out = tmp_path / "out"
    assert typed(monkeypatch, "convert", *inputs, "-o", out, "--min-snr", goal, "--url", service.url) == code
    output = capsys.readouterr()
    assert "less than the required 100 dB" in output.err if code else not output.err
    assert (out / "out.nef").is_file()
    assert "warning: All 20 samples are one and the same." in output.out


def test_where_nothing_was_quantized_no_quality_is_enough(
    service: Deployment, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Captured
) -> None:
    model = host_models.model_of([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": [1, 8]}, {"y": [1, 8]})
    onnx.save(model, str(tmp_path / "relu.onnx"))
    (tmp_path / "x.npy").write_bytes(npy(np.random.default_rng(0).normal(0, 1, (30, 8)).astype(np.float32)))
    command = ["convert", tmp_path / "relu.onnx", tmp_path / "x.npy", "-o", tmp_path / "out", "--url", service.url]
    assert typed(monkeypatch, *command) == Exit.OK
    assert "NOT passed, for nothing was quantized" in capsys.readouterr().out
    assert typed(monkeypatch, *command, "--min-snr", "1") == Exit.BELOW
    assert "nothing was quantized" in capsys.readouterr().err


def test_the_flag_for_open_shapes_is_written_with_the_names_of_the_model(
    service: Deployment, inputs: tuple[Path, Path], monkeypatch: MonkeyPatch, capsys: Captured
) -> None:
    small.write(inputs[0], small.conv(("N", 3, "H", "W")))
    assert typed(monkeypatch, "convert", *inputs, "--url", service.url) == Exit.BAD_INPUT
    assert 'On the command line: --shape "x=1,3,224,224".' in capsys.readouterr().err


def test_pinned_jobs_are_converted_again_and_compared(
    service: Deployment, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Captured
) -> None:
    convert = ("convert", *inputs, "-o", tmp_path / "out", "--tag", "watched", "--url", service.url)
    assert typed(monkeypatch, *convert) == Exit.OK
    capsys.readouterr()
    assert typed(monkeypatch, "canary", "--tag", "watched", "--json", "--url", service.url) == Exit.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["outcome"], row["versions"]) == ("net", "same", {})
    assert row["snr_db"][0] == row["snr_db"][1] is not None
    assert typed(monkeypatch, "canary", "--tag", "nobody", "--url", service.url) == Exit.NOT_FOUND


def test_what_to_do_next_is_said_with_its_price(
    service: Deployment, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Captured
) -> None:
    assert typed(monkeypatch, "convert", *inputs, "-o", tmp_path / "out", "--json", "--url", service.url) == Exit.OK
    job_id = json.loads(capsys.readouterr().out)["job"]["job_id"]
    assert typed(monkeypatch, "jobs", "actions", job_id, "--url", service.url) == Exit.OK
    assert "Calibrate with about 100 typical pictures instead of" in capsys.readouterr().out
