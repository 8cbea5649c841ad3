"""Models with OpenVINO's execution provider, really: an onnxruntime built with it is installed in an environment of its
own, since it takes the place of the ordinary one."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

PROGRAM = """
import json, sys
from pathlib import Path

import numpy as np

from app.inference.installed_providers import list_installed_providers
from app.inference.model_card import Format, ModelCard
from app.inference.predictor_options import ExecutionProvider, PredictorOptions
from app.inference.predictor_factory import open_predictor
from app.inference.runtimes import providers

picture = np.random.default_rng(1).integers(0, 255, (240, 320, 3), dtype=np.uint8)


def answer(path, provider):
    options = PredictorOptions(provider=ExecutionProvider(provider))
    predictor = open_predictor(ModelCard(path.name, Format.ONNX, "", 1), path, None, options)
    prediction = predictor.predict(picture)
    values = [list(prediction.probabilities), [box.to_json() for box in prediction.candidates]]
    return predictor.runtime, predictor.why, values


answers = {path.name: {name: answer(path, name) for name in ("auto", "cpu")} for path in map(Path, sys.argv[1:])}
providers.OPTIONS[ExecutionProvider.OPENVINO] = {"device_type": "NPU"}
answers["without the device"] = answer(Path(sys.argv[1]), "openvino")
print(json.dumps({"installed": list_installed_providers(), "answers": answers}))
"""


@pytest.mark.exhaustive
def test_openvino_runs_models_by_itself_and_answers_as_the_cpu_does(shared_data: Path) -> None:
    python = Path(os.environ.get("MODELMILL_TEST_OPENVINO") or REPOSITORY / ".venv-openvino" / "bin" / "python")
    if not python.exists():
        pytest.skip("There is no .venv-openvino: ops/test --all makes it")
    models = [shared_data / "models" / name for name in ("digits_small.onnx", "face_yunet_n_dynamic.onnx")]
    paths = os.pathsep.join([sysconfig.get_path("purelib"), str(REPOSITORY)])
    # Its own packages come first, then those of this environment.
    code = f"import sys; sys.path += {paths.split(os.pathsep)!r}\n{PROGRAM}"
    run = subprocess.run([python, "-c", code, *models], capture_output=True, text=True, check=False, timeout=150)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["installed"] == ["openvino", "cpu"]
    without = report["answers"].pop("without the device")
    assert " on CPU · onnx" in without[0] and without[1].startswith("OpenVINO cannot be used: ")
    for by_itself, by_cpu in (each.values() for each in report["answers"].values()):
        assert (" on OpenVINO · onnx" in by_itself[0], by_itself[1]) == (True, "")
        assert " on CPU · onnx" in by_cpu[0]
        probabilities, boxes = by_itself[2]
        assert probabilities == pytest.approx(by_cpu[2][0], abs=1e-5)
        assert len(boxes) == len(by_cpu[2][1]) and all(
            box == pytest.approx(other, abs=0.02) for box, other in zip(boxes, by_cpu[2][1], strict=True)
        )
