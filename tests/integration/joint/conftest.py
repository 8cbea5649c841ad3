"""One running product with the controllers of joint inference for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.joint.deployment import JointDeployment
from tests.harness.joint.own_algorithm import installed
from tests.harness.paths import REPOSITORY


@pytest.fixture(scope="package")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JointDeployment]:
    """A web and the controllers of services, without accounts, workers of conversion, models and nodes: who adds some
    removes them. An algorithm of somebody's own is installed."""
    folder = tmp_path_factory.mktemp("joint")
    made = JointDeployment(folder)
    made.deployment.env["PYTHONPATH"] = f"{REPOSITORY}:{installed(folder / 'site')}"
    try:
        made.start()
        yield made
    finally:
        made.close()
