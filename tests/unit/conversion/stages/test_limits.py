"""How long a stage may run."""

from __future__ import annotations

from app.settings import MIB, Settings


def test_the_time_of_the_onnx_stage_grows_with_the_model_and_begins_with_minutes() -> None:
    settings = Settings()
    small, large = (settings.stage_time_s("onnx", size) for size in (0, 200 * MIB))
    assert 120 <= small <= 900 and large == small + 200 * settings.onnx_time_s_per_mib
    assert settings.stage_time_s("nef", 0) == settings.stage_time_s("nef", 200 * MIB) == settings.nef_time_s
