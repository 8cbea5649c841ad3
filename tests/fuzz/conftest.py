"""The service under fuzz: as operators start it, but with stages that may not take a small machine's whole memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.deployment import Deployment


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(
        tmp_path_factory.mktemp("fuzz"),
        stage_memory_bytes=str(1 << 30),
        intake_memory_bytes=str(1 << 30),
        intake_time_s="30",
        onnx_time_s="25",
        bie_time_s="25",
        nef_time_s="25",
    ) as deployment:
        deployment.workers("actors", onnx=1, bie=1, nef=1, done=1)
        deployment.web()
        yield deployment
