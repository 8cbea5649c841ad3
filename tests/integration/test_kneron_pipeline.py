"""The kneron toolchain through the real queues, the stand-in `ktc` in place of the vendor's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from app.conversion.toolchains.kneron import nef
from tests.harness.api import Api, npz
from tests.harness.deployment import Deployment
from tests.standins import kneron

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def vendor_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("vendor")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{kneron.PACKAGE}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with Deployment(folder, toolchains='["host", "kneron"]', kneron_python=str(python)) as deployment:
        deployment.whole()
        api = Api(deployment.url)
        yield api
        api.http.close()


def samples() -> list[tuple[str, bytes]]:
    import numpy as np

    random = np.random.default_rng(1)
    return [(f"{n}.npz", npz(input=random.random((1, 3, 8, 8), np.float32))) for n in range(3)]


def test_a_model_becomes_a_nef_for_its_chip(vendor_api: Api, tmp_path: Path) -> None:
    job = vendor_api.convert(
        kneron.model().SerializeToString(), samples(), options={"toolchain": "kneron", "platform": "720"}
    )
    assert job["status"] == "COMPLETED", job["error"]
    (tmp_path / "out.nef").write_bytes(vendor_api.http.get(f"/jobs/{job['job_id']}/artifacts/out.nef").content)
    assert nef.probe(tmp_path / "out.nef")["chip"] == "720"
    assert "bie.meta.json" in job["artifacts"]


def test_a_failure_of_the_vendors_tool_is_told_with_its_cause(vendor_api: Api) -> None:
    job = vendor_api.convert(
        kneron.model("analysis:cpu_op").SerializeToString(),
        samples(),
        options={"toolchain": "kneron", "platform": "720"},
    )
    assert job["status"] == "FAILED"
    assert job["error"]["step"] == "bie"
    assert job["error"]["hint"]


def test_a_chip_is_needed(vendor_api: Api) -> None:
    answer = vendor_api.http.post(
        "/jobs", json={"model_key": "x", "quant_key": "y", "options": {"toolchain": "kneron"}}
    )
    assert answer.status_code == 422
    assert "platform" in answer.json()["error"]["message"]


def test_a_crash_comes_with_the_smallest_part_that_still_causes_it(vendor_api: Api, tmp_path: Path) -> None:
    job = vendor_api.convert(
        kneron.model("analysis:abort_at_Softmax").SerializeToString(),
        samples(),
        options={"toolchain": "kneron", "platform": "720"},
    )
    assert job["status"] == "FAILED"
    assert job["error"]["detail"]["triage"] == {
        "nodes": 1,
        "of": 2,
        "operators": ["Softmax"],
        "file": "bie.triage.onnx",
    }
    answer = vendor_api.http.get(f"/jobs/{job['job_id']}/artifacts/bie.triage.onnx")
    (tmp_path / "part.onnx").write_bytes(answer.content)
    assert [node.op_type for node in onnx.load(tmp_path / "part.onnx").graph.node] == ["Softmax"]
