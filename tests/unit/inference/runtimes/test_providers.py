"""Execution providers: which is chosen, and what is said where another one runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.edge.video.stages.detection import Detection
from app.edge.video.stages.parameters import predictor_options
from app.inference.installed_providers import list_installed_providers
from app.inference.model_card import Format
from app.inference.prediction import Decoder
from app.inference.predictor_options import ExecutionProvider
from app.inference.runtimes import INT8_ON_CPU
from app.inference.runtimes.providers import open_by
from app.joint_inference.hard_examples import BadParameter
from app.joint_inference.model.resource import Role
from app.joint_inference.worker_options import worker_options
from app.video.errors import BadStage
from tests.harness.models.vision import brightest_channel, card, opened, save

CUDA, CPU, AUTO = ExecutionProvider.CUDA, ExecutionProvider.CPU, ExecutionProvider.AUTO


def test_the_cpu_runs_what_nothing_else_can_and_it_is_said_if_another_was_chosen(tmp_path: Path) -> None:
    path = save(tmp_path, brightest_channel())
    assert list_installed_providers()[-1] is CPU
    if CUDA in list_installed_providers():
        pytest.skip("an onnxruntime with CUDA is installed here")
    by_itself, chosen = open_by(path, 1, AUTO), open_by(path, 1, CUDA)
    assert (chosen.provider, chosen.why) == (CPU, "the onnxruntime of this machine was built without CUDA")
    assert (by_itself.provider, by_itself.why) == (list_installed_providers()[0], "")


def test_a_model_in_int8_of_the_host_toolchain_stays_on_the_cpu(tmp_path: Path) -> None:
    bie = card(Format.BIE, toolchain="host")
    predictor = opened(tmp_path, brightest_channel(), bie, provider=CUDA, decoder=Decoder.CLASSIFIER)
    assert predictor.why == INT8_ON_CPU
    assert predictor.described_runtime.endswith(f"on CPU · bie ({INT8_ON_CPU})")


def test_a_service_and_a_stage_choose_theirs() -> None:
    assert worker_options(Role.EDGE, {"provider": "openvino"}).predictor.provider is ExecutionProvider.OPENVINO
    assert worker_options(Role.CLOUD, {}).predictor.provider is AUTO
    assert predictor_options({"provider": "TensorRT"}, 0.5).provider is ExecutionProvider.TENSORRT
    assert "provider" in Detection.kind.parameters
    with pytest.raises(BadParameter):
        worker_options(Role.EDGE, {"provider": "gpu"})
    with pytest.raises(BadStage, match="There is no provider 'gpu'"):
        predictor_options({"provider": "gpu"}, 0.5)
