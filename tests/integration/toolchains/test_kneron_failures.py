"""The failures the vendor is known for, provoked in the stand-in `ktc` and told to the user.

Each way in which the process, its log or its files tell of a failure is walked here. The other modes only write or
raise another text: what comes of it is proven without a process in the unit tests, and the whole walk is exhaustive.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.conversion.errors import ToolchainFailed, ToolchainMissing
from app.conversion.model import Stage
from tests.standins import kneron

# mode of the stand-in → class
ANALYSIS = {
    "quantization": "model_step",
    "helper": "helper_died",
    "abort": "killed",
    "segfault": "crashed",
    "systemexit": "system_exit",
    "table_only": "flow_step",
    "no_input_folder": "calibration_input_missing",
    "memory": "out_of_memory",
    "disk": "disk_full",
    "no_numpy": "toolchain_missing",
    "unknown": "unknown",
    "none": "no_output",
    "empty": "no_output",
    "broken_report": "report_incomplete",
    "exit": "no_result",
}
ALIKE = {"helper", "segfault", "memory", "none", "unknown", "exit"}
"""Told from the same place as another of these: the log, the signal, the missing file."""
COMPILE = {
    "not_a_bie": "not_a_bie",
    "no_file": "no_output",
    "empty": "no_output",
    "garbage": "bad_nef",
    "bad_crc": "bad_nef",
    "systemexit": "system_exit",
    "abort": "killed",
}


@pytest.mark.parametrize(
    ("mode", "id"),
    [
        *(pytest.param(*pair, marks=[pytest.mark.exhaustive] * (pair[0] in ALIKE)) for pair in ANALYSIS.items()),
        pytest.param("no_file", "no_output", marks=pytest.mark.exhaustive),  # likewise of a compilation
        *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in kneron.BY_TEXT.items()),
    ],
)
def test_a_failing_quantization_is_told_by_its_cause(tmp_path: Path, mode: str, id: str) -> None:
    job = kneron.Job(tmp_path, kneron.model(f"analysis:{mode}"), kneron.options()).prime()
    with pytest.raises(ToolchainFailed) as caught:
        job.run(Stage.BIE, kneron.toolchain(tmp_path))
    error = caught.value
    assert error.detail["id"] == id
    assert error.message and error.hint and error.detail["lines"]
    assert error.detail["blame"] in ("model", "toolchain", "resources", "options")
    assert not isinstance(error, ToolchainMissing)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The BIE of a model."""
    folder = tmp_path_factory.mktemp("quantized")
    return kneron.job(folder).prime().run(Stage.BIE, kneron.toolchain(folder)).output.read_bytes()


AS_QUANTIZATIONS = ("systemexit", "abort")


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.exhaustive] * (mode in AS_QUANTIZATIONS)) for mode in COMPILE]
)
def test_a_failing_compilation_is_told_by_its_cause(tmp_path: Path, quantized: bytes, mode: str) -> None:
    job = kneron.job(tmp_path)
    first, _, facts = quantized.partition(b"\n")
    failing = json.loads(facts) | {"metadata": {"standin.fail": f"compile:{mode}"}}
    (job.work / "out.bie").write_bytes(first + b"\n" + json.dumps(failing).encode())
    with pytest.raises(ToolchainFailed) as caught:
        job.run(Stage.NEF, kneron.toolchain(tmp_path))
    assert caught.value.detail["id"] == COMPILE[mode] and caught.value.hint


def test_stored_shapes_that_contradict_the_graph_are_cured_by_clear_shapes(tmp_path: Path) -> None:
    made, tool = kneron.model("optimize:stored_shapes"), kneron.toolchain(tmp_path)
    with pytest.raises(ToolchainFailed) as caught:
        kneron.Job(tmp_path / "a", made, kneron.options()).run(Stage.ONNX, tool)
    assert caught.value.detail["id"] == "stored_shapes" and "clear_shapes" in caught.value.hint
    kneron.Job(tmp_path / "b", made, kneron.options(clear_shapes=True)).run(Stage.ONNX, tool)
