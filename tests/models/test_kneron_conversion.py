"""Real models through the three stages of the Kneron toolchain, the stand-in `ktc` in the vendor's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversion.model import Stage
from app.conversion.toolchains.kneron import KneronToolchain, nef
from tests.harness.paths import SHARED_DATA
from tests.standins import kneron


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["face_rfb_320", "headpose_fsanet_1x1", "cls_mobilenet_v2_128_dynamic_batch"])
def test_real_models_go_through(tmp_path: Path, tool: KneronToolchain, name: str) -> None:
    path = SHARED_DATA / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the shared models are not here")
    work = kneron.Job(tmp_path, kneron.model(), kneron.options("720"), samples=0)
    (work.work / "model.onnx").write_bytes(path.read_bytes())
    (work.images / "a.jpg").write_bytes(next((SHARED_DATA / "images").glob("face_*.jpg")).read_bytes())
    work.until(Stage.NEF, tool)
    assert nef.probe(work.work / "out.nef")["chip"] == "720"
