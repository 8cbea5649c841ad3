"""One Ray cluster for all tests of this folder that kill none of it, and one product before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.ray_cluster import TWO_OF_FOUR, RayCluster, running_cluster
from tests.harness.training.deployment import Trainer

LINKED = {"accelerator_type:A100": 1, "nvlink": 2}


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[RayCluster]:
    """Two workers of four GPUs, the second with custom resources.

    Who kills some of it, or leaves jobs behind, has a running_cluster() of its own.
    """
    with running_cluster(TWO_OF_FOUR, resources=LINKED) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def trainer(tmp_path_factory: pytest.TempPathFactory, ray_cluster: RayCluster) -> Iterator[Trainer]:
    """The whole product in front of the cluster of this session."""
    folder = tmp_path_factory.mktemp("trainer")
    made = Trainer(folder, ray_cluster, training_secrets=str(folder / "secrets"))
    try:
        made.start()
        yield made
    finally:
        made.close()
