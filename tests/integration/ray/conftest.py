"""One Ray cluster for all tests of this folder that kill none of it, and one product before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.ray_cluster import TWO_OF_FOUR, RayCluster, running_cluster
from tests.harness.training.deployment import Trainer


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[RayCluster]:
    """Two workers of four GPUs. Who kills some of it, or leaves jobs behind, has a running_cluster() of its own."""
    with running_cluster(TWO_OF_FOUR) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def trainer(tmp_path_factory: pytest.TempPathFactory, ray_cluster: RayCluster) -> Iterator[Trainer]:
    """The whole product in front of the cluster of this session."""
    made = Trainer(tmp_path_factory.mktemp("trainer"), ray_cluster)
    try:
        made.start()
        yield made
    finally:
        made.close()
