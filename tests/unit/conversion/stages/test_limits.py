"""How long a stage may run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversion import object_keys
from app.conversion.model import Stage
from app.conversion.stages.runner import limits_of
from app.conversion.stages.workspace import Workspace
from app.kit.objects.filesystem import FilesystemStore
from app.settings import MIB, Settings
from tests.unit.conversion.stages.test_workspace import JOB_ID, record

SETTINGS = Settings(onnx_time_s=100, onnx_time_s_per_mib=7, nef_time_s=50)


@pytest.mark.parametrize(("mebibytes", "time_s"), [(0, 100), (1, 107), (20, 240)])
def test_the_onnx_stage_has_the_time_that_its_model_takes(tmp_path: Path, mebibytes: int, time_s: float) -> None:
    objects = FilesystemStore(tmp_path / "objects")
    objects.put(object_keys.input_(JOB_ID, object_keys.MODEL), [bytes(MIB)] * mebibytes)
    objects.put(object_keys.input_(JOB_ID, object_keys.IMAGES), [b"zip"])
    with Workspace(tmp_path / "work", record(), objects) as space:
        space.fetch_inputs()
        assert limits_of(SETTINGS, space).time_s == time_s


def test_the_time_of_other_stages_does_not_go_by_size(tmp_path: Path) -> None:
    objects = FilesystemStore(tmp_path / "objects")
    objects.put(object_keys.result(JOB_ID, Stage.BIE), [bytes(MIB)])
    with Workspace(tmp_path / "work", replace(record(), stage=Stage.NEF), objects) as space:
        space.fetch_inputs()
        assert limits_of(SETTINGS, space).time_s == SETTINGS.nef_time_s


def test_it_begins_with_minutes() -> None:
    assert 120 <= Settings().stage_time_s("onnx", 0) <= 900
